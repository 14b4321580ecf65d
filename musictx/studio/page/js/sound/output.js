// The sound card: one AudioContext, made after a gesture, with the synthesiser, a limiter and a volume.
import { createSynth } from "./synth.js";
import { outputTime } from "./transport.js";

// Firefox waits for its sound server when it is first asked how late the sound is, and that server may be
// waiting for Firefox: the page would stand still for ever. So it is not asked; this is near to what it says.
const UNASKED = navigator.userAgent.includes("Firefox/") ? 0.04 : null; // seconds
const LOUDER = 4; // two hands at a piano reach a sixteenth of full scale in the synthesiser, a band a third

export function createOutput() {
  /** @type {AudioContext | null} */
  let context = null;
  let loading = null;
  let gain = null;
  let volume = 0.8;
  const output = {
    get context() { return context; },
    /** Why there is no synthesiser. */
    failure: "",
    /** The synthesiser, or null where this browser cannot run it. To be called first by a gesture. */
    async synth() {
      if (context?.state === "suspended") context.resume(); // while the gesture still counts
      loading ??= start();
      const library = await loading;
      if (context?.state === "suspended") await Promise.race([context.resume(), new Promise((r) => setTimeout(r, 500))]);
      return library;
    },
    get volume() { return volume; },
    set volume(/** @type {number} */ share) {
      volume = Math.min(Math.max(share, 0), 1);
      // Ears hear in decibels: half of the way is a quarter of the amplitude.
      gain?.gain.setTargetAtTime(LOUDER * volume ** 2, context.currentTime, 0.02);
    },
    /** The time of the context that the loudspeakers play now, or played at a time of `performance.now()`. */
    audible(performanceTime = performance.now()) {
      if (UNASKED !== null) return context.currentTime - UNASKED + (performanceTime - performance.now()) / 1000;
      const now = performance.now();
      return outputTime(context.getOutputTimestamp?.(), context.currentTime, context.outputLatency || 0, now) + (performanceTime - now) / 1000;
    },
  };

  async function start() {
    try {
      context = new AudioContext({ latencyHint: "interactive" });
      const synth = await createSynth(context);
      gain = new GainNode(context, { gain: LOUDER * volume ** 2 });
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
