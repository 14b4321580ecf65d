/** Letters and accidentals of pitches in a key. Pure functions. */

import { keyWords } from "../document/timing.js";

const LETTERS = ["C", "G", "D", "A", "E", "B", "F"]; // by position on the circle of fifths: C is 0, G 1, F -1

/** Return a key in ABC, such as "F#m". @param {[sharps: number, minor: any]} key */
export function keyName([sharps, minor]) {
  const [tonic] = keyWords(Math.min(Math.max(sharps, -7), 7), minor).replace("♭", "b").replace("♯", "#").split(" ");
  return tonic + (minor ? "m" : "");
}

/** Return the sharps (negative: flats) of the major scale that contains most pitches; of equal ones the one with fewest accidentals. @param {Iterable<number>} pitches */
export function likelyKey(pitches) {
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
 * Return {letter, octave, accidental} of a pitch in a key: middle C has octave 4, an accidental is -2 to 2. Notes outside
 * the scale get the spelling nearest to it on the circle of fifths: C major has E flat to G sharp, A minor B flat to D sharp.
 * @param {number} pitch @param {number} sharps @param {any} [minor]
 */
export function spell(pitch, sharps, minor = false) {
  const lowest = sharps - (minor ? 2 : 3);
  let place = (((pitch * 7) % 12) + 12) % 12;
  while (place > lowest + 11) place -= 12;
  while (place < lowest) place += 12;
  const letter = LETTERS[(((place % 7) + 7) % 7)];
  const accidental = Math.floor((place + 1) / 7);
  return { letter, accidental, octave: Math.floor((pitch - accidental) / 12) - 1 };
}

/** Return a pitch as a key spells it: "G♯4", "A♭4". @param {number} pitch @param {[sharps: number, minor: any]} key */
export function pitchName(pitch, [sharps, minor]) {
  const { letter, accidental, octave } = spell(pitch, sharps, minor);
  return letter + (accidental < 0 ? "♭" : "♯").repeat(Math.abs(accidental)) + octave;
}

/** Return the accidental of a letter in a key signature. @param {string} letter @param {number} sharps */
export function signatureAccidental(letter, sharps) {
  const order = "FCGDAEB".indexOf(letter); // in which sharps are added; flats are added in reverse
  if (sharps > order) return 1;
  return -sharps > 6 - order ? -1 : 0;
}
