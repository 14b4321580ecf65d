// Names of pitches: which letter and accidental a key asks for. Pure.
import { keyWords } from "../document/timing.js";

// Places on the line of fifths, from F double flat on; 0 is C.
const LETTERS = ["C", "G", "D", "A", "E", "B", "F"]; // C is place 0, G 1, ..., F -1 (that is 6, flattened)

/** Name of a key as ABC writes it, such as "F#m"; a key is [sharps, minor]. */
export function keyName(/** @type {[number, any]} */ [sharps, minor]) {
  const [tonic] = keyWords(Math.min(Math.max(sharps, -7), 7), minor).replace("♭", "b").replace("♯", "#").split(" ");
  return tonic + (minor ? "m" : "");
}

/** Sharps (flats negative) of the key whose scale holds most of the notes; the simplest of equals. */
export function likelyKey(/** @type {Iterable<number>} */ pitches) {
  const counts = new Array(12).fill(0);
  for (const pitch of pitches) counts[pitch % 12]++;
  let best = 0, most = -1;
  for (const sharps of [0, 1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6]) {
    let count = 0;
    for (let place = sharps - 1; place <= sharps + 5; place++) count += counts[(((place * 7) % 12) + 12) % 12];
    if (count > most) [best, most] = [sharps, count];
  }
  return best;
}

/**
 * A pitch in a key: {letter, octave (4 from middle C), accidental (-2 to 2)}. Notes outside of the scale
 * are those nearest to it on the line of fifths: from a major key's flat third to its sharp fifth (C: E flat
 * to G sharp), from a minor key's flat second to its sharp fourth (A: B flat to D sharp).
 */
export function spell(/** @type {number} */ pitch, /** @type {number} */ sharps, /** @type {any} */ minor = false) {
  const lowest = sharps - (minor ? 2 : 3);
  let place = (((pitch * 7) % 12) + 12) % 12;
  while (place > lowest + 11) place -= 12;
  while (place < lowest) place += 12;
  const letter = LETTERS[(((place % 7) + 7) % 7)];
  const accidental = Math.floor((place + 1) / 7);
  return { letter, accidental, octave: Math.floor((pitch - accidental) / 12) - 1 };
}

/** "G♯4", "A♭4" as a key writes it; a key is [sharps, minor]. */
export function pitchName(/** @type {number} */ pitch, /** @type {[number, any]} */ [sharps, minor]) {
  const { letter, accidental, octave } = spell(pitch, sharps, minor);
  return letter + (accidental < 0 ? "♭" : "♯").repeat(Math.abs(accidental)) + octave;
}

/** The accidental that a letter has by the key signature. */
export function signatureAccidental(/** @type {string} */ letter, /** @type {number} */ sharps) {
  const order = "FCGDAEB";
  const at = order.indexOf(letter);
  if (sharps > at) return 1;
  return -sharps > 6 - at ? -1 : 0;
}
