/**
 * The synthesiser in the audio thread. It plays events with the precision of a sample.
 *
 * The recordings of the sound font are Ogg Vorbis. Decoding them here would need WebAssembly, hence a weaker content
 * security policy, and would interrupt the sound. So synth.js lets the browser decode those of an instrument beforehand.
 */

import { SoundBankLoader, SpessaSynthProcessor } from "../../vendor/spessasynth/spessasynth.min.js";

/* global sampleRate, currentTime, registerProcessor, AudioWorkletProcessor */

const INAUDIBLE = 1e-5; // amplitude

class Synth extends AudioWorkletProcessor {
  constructor() {
    super();
    this.synth = new SpessaSynthProcessor(sampleRate, { eventsEnabled: false, initialTime: currentTime });
    /** @type {[number, number, number, number, number][]} time, channel, status, two bytes; by time */
    this.queue = [];
    this.bank = null;
    this.idle = 0; // blocks without a sound
    this.port.onmessage = ({ data }) => this[data.type](data);
  }

  /** Load the sound font, an ArrayBuffer. */
  load({ id, font }) {
    this.bank = SoundBankLoader.fromArrayBuffer(font);
    this.synth.soundBankManager.addSoundBank(this.bank, "main");
    this.port.postMessage({ id });
  }

  /** Post the recordings of an instrument that are not decoded yet. */
  need({ id, program, drum }) {
    const preset = this.bank.presets.find((p) => p.program === program && p.isGMGSDrum === drum);
    const samples = new Set(preset.zones.flatMap((zone) => zone.instrument.zones.map((z) => z.sample)));
    const recordings = [...samples].filter((sample) => sample.compressedData).map((sample) => ({
      number: this.bank.samples.indexOf(sample),
      rate: sample.sampleRate,
      data: sample.compressedData.slice().buffer,
    }));
    this.port.postMessage({ id, recordings }, recordings.map((recording) => recording.data));
  }

  /** Store a decoded recording, a Float32Array. */
  decoded({ number, rate, frames }) {
    this.bank.samples[number].setAudioData(frames, rate);
  }

  /** Set the instrument of a channel, which is made if missing. */
  channel({ channel, program, drum }) {
    while (this.synth.midiChannels.length <= channel) this.synth.createMIDIChannel();
    this.synth.midiChannels[channel].setDrums(drum);
    this.message(channel, 0xc0, program, 0);
  }

  /** Schedule events, in any order: [context time, channel, status, byte, byte]. */
  events({ events }) {
    this.queue.push(...events);
    // Of simultaneous events, note-offs come first, or a repeated note would be silent.
    const rank = (/** @type {number} */ status) => (status === 0x80 ? 0 : status === 0x90 ? 2 : 1);
    this.queue.sort((a, b) => a[0] - b[0] || rank(a[2]) - rank(b[2]));
    this.idle = 0;
  }

  /** Drop scheduled events. Sounding notes end with their natural release. */
  silence() {
    this.queue.length = 0;
    for (let channel = 0; channel < this.synth.midiChannels.length; channel++) this.message(channel, 0xb0, 64, 0);
    for (const channel of this.synth.midiChannels) channel.stopAllNotes(false);
    this.idle = 0;
  }

  message(channel, status, data1, data2) {
    const bytes = status === 0xc0 ? [status | channel % 16, data1] : [status | channel % 16, data1, data2];
    this.synth.processMessage(new Uint8Array(bytes), channel - (channel % 16));
  }

  process(inputs, [[left, right]]) {
    if (!this.bank) return true;
    let done = 0;
    while (done < left.length) {
      const now = currentTime + done / sampleRate;
      while (this.queue.length && this.queue[0][0] <= now + 0.5 / sampleRate) {
        const [, channel, status, data1, data2] = this.queue.shift();
        this.message(channel, status, data1, data2);
        this.idle = 0;
      }
      const wait = this.queue.length ? Math.ceil((this.queue[0][0] - now) * sampleRate - 0.5) : Infinity;
      const frames = Math.min(left.length - done, Math.max(wait, 1));
      // After a second of silence the synthesiser rests, to save power.
      if (this.idle * 128 < sampleRate) this.synth.process(left, right, done, frames);
      done += frames;
    }
    const silent = this.synth.voiceCount === 0 && left.every((value) => Math.abs(value) < INAUDIBLE);
    this.idle = silent ? this.idle + 1 : 0;
    return true;
  }
}

registerProcessor("musictx-synth", Synth);
