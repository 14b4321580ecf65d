/** The synthesiser: an AudioNode that plays timed MIDI events. The audio thread runs worklet.js. */

const WORKLET = new URL("./worklet.js", import.meta.url);
const FONT = new URL("../../sound/musictx.sf3", import.meta.url);

/** Load the synthesiser and the sound font, both from this server. @param {BaseAudioContext} context */
export async function createSynth(context) {
  const fontRequest = fetch(FONT).then((response) => {
    if (!response.ok) throw new Error(`the sound font: ${response.status}`);
    return response.arrayBuffer();
  });
  await context.audioWorklet.addModule(WORKLET);
  const node = new AudioWorkletNode(context, "musictx-synth", { numberOfInputs: 0, numberOfOutputs: 1, outputChannelCount: [2] });
  let count = 0; // of requests to the worklet
  const waiting = new Map(); // number of a request to the worklet -> function that receives the reply
  node.port.onmessage = ({ data: reply }) => {
    waiting.get(reply.id)(reply);
    waiting.delete(reply.id);
  };
  const failure = new Promise((resolve) => { node.onprocessorerror = resolve; });
  const request = (message, transfer = []) => new Promise((resolve, reject) => {
    const id = ++count;
    waiting.set(id, resolve);
    failure.then(() => reject(new Error("the synthesiser failed")));
    node.port.postMessage({ ...message, id }, transfer);
  });
  const font = await fontRequest;
  await request({ type: "load", font }, [font]);

  const ready = new Map(); // instrument -> promise
  const channels = new Map(); // channel -> instrument

  async function fetchInstrument(program, drum) {
    const { recordings } = await request({ type: "need", program, drum });
    await Promise.all(recordings.map(async ({ number, rate, data }) => {
      // At its own sample rate, so that its loop points stay valid.
      const frames = (await new OfflineAudioContext(1, 1, rate).decodeAudioData(data)).getChannelData(0);
      node.port.postMessage({ type: "decoded", number, rate, frames }, [frames.buffer]);
    }));
  }

  return {
    node,
    /** Give a channel an instrument; resolves when its notes can sound. */
    async setChannel(/** @type {number} */ channel, /** @type {number} */ program, drum = false) {
      if (drum) program = 0; // the one kit of the font
      const name = `${drum ? "drums" : "program"} ${program}`;
      if (!ready.has(name)) ready.set(name, fetchInstrument(program, drum));
      await ready.get(name);
      if (channels.get(channel) === name) return;
      channels.set(channel, name);
      node.port.postMessage({ type: "channel", channel, program, drum });
    },
    /** @param {import("./schedule.js").Event[]} events */
    send(events) {
      if (events.length) node.port.postMessage({ type: "events", events });
    },
    /** Drop scheduled events, and release the notes that sound. */
    silence() {
      node.port.postMessage({ type: "silence" });
    },
  };
}
