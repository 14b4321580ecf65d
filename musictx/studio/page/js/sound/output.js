/** Audio output: one AudioContext with the synthesiser, a limiter and a volume. */

import { clamp } from "../core/numbers.js";
import { outputTime } from "./schedule.js";
import { createSynth } from "./synth.js";

// Reading the output latency in Firefox can deadlock with its sound server, so this fixed latency is used there.
const FIREFOX_LATENCY = navigator.userAgent.includes("Firefox/") ? 0.04 : null; // seconds
const GAIN = 4; // piano music reaches a sixteenth of the synthesiser's full scale, a band a third
const RESUME_TIMEOUT = 500; // milliseconds

export class Output {
  /** Null until a synthesiser is requested. @type {AudioContext | null} */
  context = null;
  /** Error message of a synthesiser that failed. */
  failure = "";
  #loading = null;
  /** @type {GainNode | null} */
  #gain = null;
  #volume = 0.8;

  /** Return the synthesiser, or null if this browser cannot run it. The first call must come from a click or key. */
  async synth() {
    if (this.context?.state === "suspended") this.context.resume(); // before the first await, as browsers require
    this.#loading ??= this.#start();
    const synth = await this.#loading;
    if (this.context?.state === "suspended") {
      await Promise.race([this.context.resume(), new Promise((resolve) => setTimeout(resolve, RESUME_TIMEOUT))]);
    }
    return synth;
  }

  /** The volume, 0 to 1. */
  get volume() {
    return this.#volume;
  }

  set volume(/** @type {number} */ value) {
    this.#volume = clamp(value, 0, 1);
    this.#gain?.gain.setTargetAtTime(this.#amplitude, this.context.currentTime, 0.02);
  }

  /** Loudness is perceived on a logarithmic scale: half the volume is a quarter of the amplitude. */
  get #amplitude() {
    return GAIN * this.#volume ** 2;
  }

  /** Return the context time that the loudspeakers played at a time of `performance.now()`. */
  audibleTime(performanceTime = performance.now()) {
    const { context } = this;
    const now = performance.now();
    const audibleNow = FIREFOX_LATENCY !== null ? context.currentTime - FIREFOX_LATENCY
      : outputTime(context.getOutputTimestamp?.(), context.currentTime, context.outputLatency || 0, now);
    return audibleNow + (performanceTime - now) / 1000;
  }

  async #start() {
    try {
      const context = this.context = new AudioContext({ latencyHint: "interactive" });
      const synth = await createSynth(context);
      this.#gain = new GainNode(context, { gain: this.#amplitude });
      const limiter = new DynamicsCompressorNode(context, { threshold: -6, knee: 6, ratio: 12, attack: 0.002, release: 0.2 });
      synth.node.connect(this.#gain).connect(limiter).connect(context.destination);
      return synth;
    } catch (error) {
      this.fail(error);
      return null;
    }
  }

  /** Do without a synthesiser from now on. @param {Error} error */
  fail(error) {
    this.failure = String(error.message ?? error);
    console.warn("no synthesiser:", error);
    this.#loading = Promise.resolve(null);
  }
}
