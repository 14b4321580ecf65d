/** MIDI keyboards, by Web MIDI. The browser asks the user for permission. */

/**
 * Return {pitch, velocity} of a note message (velocity 0: note-off), {sustain} of a pedal message, else null.
 * @param {Uint8Array | number[]} data
 */
export function parseMidi([status, data1, data2 = 0]) {
  const kind = status & 0xf0;
  if (kind === 0x90) return { pitch: data1, velocity: data2 };
  if (kind === 0x80) return { pitch: data1, velocity: 0 };
  if (kind === 0xb0 && data1 === 64) return { sustain: data2 >= 64 };
  return null;
}

/**
 * Listen to all MIDI inputs, including those connected later.
 * @param {{onNote: (pitch: number, velocity: number, time: number) => void, onSustain: (down: boolean, time: number) => void,
 *     onInputs: (names: string[]) => void}} callbacks
 * @returns {Promise<{close: () => void}>} rejects with a message for the user
 */
export async function connectMidi({ onNote, onSustain, onInputs }) {
  if (!navigator.requestMIDIAccess) {
    throw new Error("This browser cannot use MIDI keyboards; Chrome, Edge and Firefox can.");
  }
  let access;
  try {
    access = await navigator.requestMIDIAccess();
  } catch {
    throw new Error("The browser did not allow MIDI; allow it in the settings of this page and try again.");
  }
  const onMessage = (event) => {
    const message = parseMidi(event.data);
    if (message?.pitch !== undefined) onNote(message.pitch, message.velocity, event.timeStamp);
    else if (message) onSustain(message.sustain, event.timeStamp);
  };
  const listen = () => {
    const inputs = [...access.inputs.values()].filter((input) => input.state === "connected");
    for (const input of inputs) input.onmidimessage = onMessage;
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
