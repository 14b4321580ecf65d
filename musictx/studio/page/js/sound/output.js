/** Audio output: one AudioContext with the synthesiser, a limiter and a volume. */

import { clamp } from "../core/numbers.js";
import { createSynth } from "./synth.js";
import { outputTime } from "./transport.js";

// Reading the output latency in Firefox can deadlock with its sound server, so this fixed latency is used there.
const FIREFOX_LATENCY = navigator.userAgent.includes("Firefox/") ? 0.04 : null; // seconds
const GAIN = 4; // piano music reaches a sixteenth of the synthesiser's full scale, a band a third

export function createOutput() {
  /** @type {AudioContext | null} */
  let context = null;
  let loading = null;
  let gain = null;
  let volume = 0.8;
  const output = {
    get context() { return context; },
    /** Error message of a synthesiser that could not start. */
    failure: "",
    /** Return the synthesiser, or null if this browser cannot run it. The first call must come from a click or key. */
    async synth() {
      if (context?.state === "suspended") context.resume(); // before the first await, as browsers require
      loading ??= start();
      const library = await loading;
      if (context?.state === "suspended") await Promise.race([context.resume(), new Promise((r) => setTimeout(r, 500))]);
      return library;
    },
    get volume() { return volume; },
    set volume(/** @type {number} */ value) {
      volume = clamp(value, 0, 1);
      // Loudness is perceived on a logarithmic scale: half the slider is a quarter of the amplitude.
      gain?.gain.setTargetAtTime(GAIN * volume ** 2, context.currentTime, 0.02);
    },
    /** Return the context time that the loudspeakers played at a time of `performance.now()`. */
    audible(performanceTime = performance.now()) {
      if (FIREFOX_LATENCY !== null) return context.currentTime - FIREFOX_LATENCY + (performanceTime - performance.now()) / 1000;
      const now = performance.now();
      return outputTime(context.getOutputTimestamp?.(), context.currentTime, context.outputLatency || 0, now) + (performanceTime - now) / 1000;
    },
  };

  async function start() {
    try {
      context = new AudioContext({ latencyHint: "interactive" });
      const synth = await createSynth(context);
      gain = new GainNode(context, { gain: GAIN * volume ** 2 });
      const limiter = new DynamicsCompressorNode(context, { threshold: -6, knee: 6, ratio: 12, attack: 0.002, release: 0.2 });
      synth.node.connect(gain).connect(limiter).connect(context.destination);
      return synth;
    } catch (error) {
      output.failure = String(error.message ?? error);
      console.warn("no synthesiser:", error);
      return null;
    }
  }
  return output;
}
