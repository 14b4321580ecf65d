/** MIDI keyboards, by Web MIDI. The browser asks the user for permission. */

/**
 * Listen to all MIDI inputs, including those connected later. A velocity of 0 is a note-off.
 * @param {{onNote: (pitch: number, velocity: number, time: number) => void, onSustain: (down: boolean, time: number) => void,
 *     onInputs: (names: string[]) => void}} callbacks
 * @returns {Promise<{close: () => void}>} rejects with a message for the user
 */
export async function connectMidi({ onNote, onSustain, onInputs }) {
  if (!navigator.requestMIDIAccess) throw new Error("This browser cannot use MIDI keyboards; Chrome, Edge and Firefox can.");
  const access = await navigator.requestMIDIAccess().catch(() => {
    throw new Error("The browser did not allow MIDI; allow it in the settings of this page and try again.");
  });
  const onMessage = ({ data, timeStamp }) => {
    const [status, data1, data2 = 0] = data;
    const kind = status & 0xf0;
    if (kind === 0x90) onNote(data1, data2, timeStamp);
    else if (kind === 0x80) onNote(data1, 0, timeStamp);
    else if (kind === 0xb0 && data1 === 64) onSustain(data2 >= 64, timeStamp);
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
