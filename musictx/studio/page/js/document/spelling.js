/** Names of pitches and keys, by their place on the circle of fifths: F is -1, C 0, G 1, B flat -2. Pure functions. */

import { clamp } from "../core/numbers.js";

const LETTERS = ["C", "G", "D", "A", "E", "B", "F"]; // from place 0 on

/** Return {letter, accidental} of a place on the circle of fifths; an accidental is -2 to 2. */
const nameOfPlace = (place) => ({ letter: LETTERS[((place % 7) + 7) % 7], accidental: Math.floor((place + 1) / 7) });

/** Return an accidental as signs: "♭♭", "", "♯". */
const signs = (accidental) => (accidental < 0 ? "♭" : "♯").repeat(Math.abs(accidental));

/** Return the name of the tonic of a key: "E♭"; negative sharps are flats. */
function tonic(sharps, minor) {
  const { letter, accidental } = nameOfPlace(minor ? sharps + 3 : sharps);
  return letter + signs(accidental);
}

/** Return a key in words: "E♭ major". */
export const keyWords = (sharps, minor) => `${tonic(sharps, minor)} ${minor ? "minor" : "major"}`;

/** Return a key in ABC: "Ebm". @param {[sharps: number, minor: any]} key */
export const abcKey = ([sharps, minor]) => tonic(clamp(sharps, -7, 7), minor).replace("♭", "b").replace("♯", "#") + (minor ? "m" : "");

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
  const place = lowest + (((pitch * 7 - lowest) % 12) + 12) % 12; // 7 semitones a fifth: both ways are the same modulo 12
  const { letter, accidental } = nameOfPlace(place);
  return { letter, accidental, octave: Math.floor((pitch - accidental) / 12) - 1 };
}

/** Return a pitch as a key spells it: "G♯4", "A♭4". @param {number} pitch @param {[sharps: number, minor: any]} key */
export function pitchName(pitch, [sharps, minor]) {
  const { letter, accidental, octave } = spell(pitch, sharps, minor);
  return letter + signs(accidental) + octave;
}

/** Return the usual name of a pitch without a key: "C4" (middle C), "F♯4", "A♭4". */
export const pitchLabel = (pitch) => pitchName(pitch, [-1, false]);

/** Return the same as it is spoken: "F sharp 4". */
export const pitchWords = (pitch) => pitchLabel(pitch).replace("♯", " sharp ").replace("♭", " flat ");

/** Return the accidental of a letter in a key signature. @param {string} letter @param {number} sharps */
export function signatureAccidental(letter, sharps) {
  const order = "FCGDAEB".indexOf(letter); // in which sharps are added; flats are added in reverse
  if (sharps > order) return 1;
  return -sharps > 6 - order ? -1 : 0;
}
