// A MIDI keyboard, by Web MIDI: the browser asks the user, so it is begun by a click.

/**
 * What a message means, or null: {pitch, velocity} (velocity 0 for a key let go), {sustain}.
 * @param {Uint8Array | number[]} data
 */
export function parseMidi([status, one, two = 0]) {
  const kind = status & 0xf0;
  if (kind === 0x90) return { pitch: one, velocity: two };
  if (kind === 0x80) return { pitch: one, velocity: 0 };
  if (kind === 0xb0 && one === 64) return { sustain: two >= 64 };
  return null;
}

/**
 * Listen to every MIDI input, also those that are plugged in later.
 * @param {{onNote: (pitch: number, velocity: number, time: number) => void, onSustain: (down: boolean, time: number) => void,
 *     onInputs: (names: string[]) => void}} callbacks
 * @returns {Promise<{close: () => void}>} rejects with a sentence for the person
 */
export async function connectMidi({ onNote, onSustain, onInputs }) {
  if (!navigator.requestMIDIAccess) {
    throw new Error("This browser has no way to MIDI keyboards; Chrome, Edge and Firefox have.");
  }
  let access;
  try {
    access = await navigator.requestMIDIAccess();
  } catch {
    throw new Error("The browser did not allow MIDI; allow it in the settings of this page and try again.");
  }
  const hear = (event) => {
    const message = parseMidi(event.data);
    if (message?.pitch !== undefined) onNote(message.pitch, message.velocity, event.timeStamp);
    else if (message) onSustain(message.sustain, event.timeStamp);
  };
  const listen = () => {
    const inputs = [...access.inputs.values()].filter((input) => input.state === "connected");
    for (const input of inputs) input.onmidimessage = hear;
    onInputs(inputs.map((input) => input.name));
  };
  access.onstatechange = listen;
  listen();
  return {
    close() {
      access.onstatechange = null;
      for (const input of access.inputs.values()) input.onmidimessage = null;
    },
  };
}
