// Makes the small sound font of musictx out of FluidR3Mono_GM.sf3 (MIT): node font.mjs FLUID OUT
//
// Vorbis recordings are carried over as they are, never encoded again. All 128 programs of General
// MIDI are there: those that have no recordings of their own here play those of a relative, so
// that neither the page nor the command line needs to know what the font lacks.
import fs from "node:fs";
import { SoundBankLoader } from "spessasynth_core";

// Programs with recordings of their own (General MIDI, counted from 0), and their relatives.
const PROGRAMS = {
  0: [1, 2, 3], 4: [5], 6: [7, 15], 8: [9, 10, 98, 100, 103], 11: [114], 12: [13, 108], 14: [112],
  16: [17, 18], 20: [19, 21, 22, 23, 109], 24: [99, 104, 107], 25: [105, 106],
  27: [26, 28, 29, 30, 31], 32: [], 33: [34, 35, 36, 37], 38: [], 39: [], 40: [41, 110],
  46: [45], 47: [], 48: [42, 43, 44], 49: [], 50: [], 51: [], 52: [53, 54, 85, 91], 55: [],
  56: [59, 61], 57: [], 58: [], 60: [], 62: [], 63: [], 65: [64, 66, 67], 68: [69, 111], 70: [],
  71: [], 73: [72, 74, 75, 79], 76: [], 77: [], 78: [], 80: [], 81: [84], 82: [83], 86: [], 87: [],
  89: [88, 92, 93, 96], 90: [], 94: [], 95: [101, 102], 97: [], 113: [], 115: [], 116: [],
  117: [118], 122: [119, 120, 121, 123, 124, 125, 126], 127: [],
};
const DRUM_KEYS = [35, 81]; // of General MIDI; what lies outside is left out

const [source, target] = process.argv.slice(2);
const read = fs.readFileSync(source);
const bank = SoundBankLoader.fromArrayBuffer(read.buffer.slice(read.byteOffset, read.byteOffset + read.length));
const find = (program, drum) =>
  bank.presets.find((p) => p.program === program && p.isGMGSDrum === drum && p.bankMSB === 0 && p.bankLSB === 0);

const kept = new Map(Object.keys(PROGRAMS).map((program) => [Number(program), find(Number(program), false)]));
const kit = find(0, true);
for (const preset of [...bank.presets]) {
  if (preset !== kit && kept.get(preset.program) !== preset) bank.deletePreset(preset);
}

/** Every key sounds: the lowest zones reach down to key 0, the highest up to 127. */
function widen(zones) {
  const ranges = zones.map((zone) => zone.keyRange);
  const low = Math.min(...ranges.map((r) => r.min)), high = Math.max(...ranges.map((r) => r.max));
  for (const zone of zones) {
    if (!zone.hasKeyRange) continue;
    const { min, max } = zone.keyRange;
    zone.keyRange = { min: min === low ? 0 : min, max: max === high ? 127 : max };
  }
}
const widened = new Set();
for (const preset of kept.values()) {
  if (preset.zones.some((zone) => zone.hasKeyRange)) widen(preset.zones);
  for (const { instrument } of preset.zones) {
    if (!widened.has(instrument)) widen(instrument.zones);
    widened.add(instrument);
  }
}

for (const { instrument } of kit.zones) {
  for (let i = instrument.zones.length - 1; i >= 0; i--) {
    const zone = instrument.zones[i];
    const { min, max } = zone.hasKeyRange ? zone.keyRange : instrument.globalZone.keyRange;
    if (max < DRUM_KEYS[0] || min > DRUM_KEYS[1]) instrument.deleteZone(i, true);
  }
}

for (const [program, preset] of kept) {
  for (const relative of PROGRAMS[program]) {
    const copy = Object.create(Object.getPrototypeOf(preset), Object.getOwnPropertyDescriptors(preset));
    copy.program = relative;
    copy.name = `${preset.name.slice(0, 15)} ${relative}`;
    bank.presets.push(copy);
  }
}
for (const list of [bank.instruments, bank.samples]) {
  const used = new Set(
    list === bank.instruments
      ? bank.presets.flatMap((p) => p.zones.map((z) => z.instrument))
      : bank.instruments.flatMap((i) => i.zones.map((z) => z.sample)),
  );
  list.splice(0, list.length, ...list.filter((one) => used.has(one)));
}
const programs = bank.presets.filter((p) => !p.isGMGSDrum).map((p) => p.program);
if (new Set(programs).size !== 128 || programs.length !== 128) throw new Error(`${programs.length} programs, not 128`);
bank.flush();
Object.assign(bank.soundBankInfo, {
  name: "musictx",
  creationDate: new Date(0), // the same bytes every time
  comment: "A selection from FluidR3Mono_GM 2.312. MIT license, see musictx.sf3.LICENSE.",
});
fs.writeFileSync(target, new Uint8Array(await bank.writeSF2({ writeDefaultModulators: false })));
console.log(`${target}: ${bank.samples.length} recordings, ${fs.statSync(target).size} bytes`);
