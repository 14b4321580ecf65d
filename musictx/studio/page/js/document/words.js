/** Music in words: what a screen reader says, and what labels show. */

import { pitchWords } from "./spelling.js";

/** Dynamic mark -> its name, and its velocity in MusicXML (musictx/musicxml/playing.py). The option loudness is softer: a mean of played music. */
const DYNAMICS = {
  ppp: ["pianississimo", 20], pp: ["pianissimo", 33], p: ["piano", 49], mp: ["mezzo-piano", 64],
  mf: ["mezzo-forte", 80], f: ["forte", 96], ff: ["fortissimo", 112], fff: ["fortississimo", 124],
};
const distance = (mark, velocity) => Math.abs(DYNAMICS[mark][1] - velocity);
/** "mf": the mark whose velocity is nearest. */
export const dynamicLabel = (velocity) => Object.keys(DYNAMICS).reduce((a, b) => (distance(b, velocity) < distance(a, velocity) ? b : a));
export const dynamicWords = (velocity) => DYNAMICS[dynamicLabel(velocity)][0];

/** "bar 3 beat 2", "bar 3 beat 2.5". @param {Beats} beats */
export function positionWords(beats, seconds) {
  const { bar, beat, part } = beats.at(seconds);
  const tenths = Math.min(9, Math.round(part * 10));
  return `bar ${bar} beat ${beat}${tenths ? `.${tenths}` : ""}`;
}

/** "3.2" or "3.2.50": bar, beat, hundredths of the beat. @param {Beats} beats */
export function positionLabel(beats, seconds) {
  const { bar, beat, part } = beats.at(seconds);
  const hundredths = Math.min(99, Math.round(part * 100));
  return `${bar}.${beat}${hundredths ? `.${String(hundredths).padStart(2, "0")}` : ""}`;
}

/** "bar 5", "bars 5 to 8", "bars 5 to 8 (in part)". @param {Beats} beats */
export function stretchWords(beats, begin, end) {
  const first = beats.bar(begin + 1e-3);
  const last = beats.bar(Math.max(begin, end - 1e-3));
  const whole = Math.abs(first.begin - begin) < 1e-2 && Math.abs(last.end - end) < 1e-2;
  const part = whole ? "" : " (in part)";
  return (first.number === last.number ? `bar ${first.number}` : `bars ${first.number} to ${last.number}`) + part;
}

/** "C4, bar 3 beat 2, mezzo-forte". @param {Beats} beats */
export const noteWords = (note, beats) =>
  `${pitchWords(note.pitch)}, ${positionWords(beats, note.start)}, ${dynamicWords(note.velocity)}`;

/** "1:05.2" */
export function clock(seconds) {
  const tenths = Math.round(Math.max(0, seconds) * 10);
  const rest = String(Math.floor((tenths % 600) / 10)).padStart(2, "0");
  return `${Math.floor(tenths / 600)}:${rest}.${tenths % 10}`;
}

const NUMBERS = new Intl.NumberFormat("en"); // made once, since making one is slow
/** "1 note", "3 notes". */
export const count = (number, noun) => `${NUMBERS.format(number)} ${noun}${number === 1 ? "" : "s"}`;

/** Names of the instruments of General MIDI, by program number. */
export const PROGRAMS = `
Grand piano|Bright piano|Electric grand|Honky-tonk piano|Electric piano 1|Electric piano 2|Harpsichord|Clavinet
Celesta|Glockenspiel|Music box|Vibraphone|Marimba|Xylophone|Tubular bells|Dulcimer
Drawbar organ|Percussive organ|Rock organ|Church organ|Reed organ|Accordion|Harmonica|Bandoneon
Nylon guitar|Steel guitar|Jazz guitar|Clean guitar|Muted guitar|Overdriven guitar|Distorted guitar|Guitar harmonics
Acoustic bass|Fingered bass|Picked bass|Fretless bass|Slap bass 1|Slap bass 2|Synth bass 1|Synth bass 2
Violin|Viola|Cello|Double bass|Tremolo strings|Pizzicato strings|Harp|Timpani
Strings 1|Strings 2|Synth strings 1|Synth strings 2|Choir|Voice oohs|Synth voice|Orchestra hit
Trumpet|Trombone|Tuba|Muted trumpet|French horn|Brass section|Synth brass 1|Synth brass 2
Soprano saxophone|Alto saxophone|Tenor saxophone|Baritone saxophone|Oboe|English horn|Bassoon|Clarinet
Piccolo|Flute|Recorder|Pan flute|Blown bottle|Shakuhachi|Whistle|Ocarina
Square lead|Sawtooth lead|Calliope lead|Chiff lead|Charang lead|Voice lead|Fifths lead|Bass and lead
New age pad|Warm pad|Polysynth pad|Choir pad|Bowed pad|Metallic pad|Halo pad|Sweep pad
Rain|Soundtrack|Crystal|Atmosphere|Brightness|Goblins|Echoes|Science fiction
Sitar|Banjo|Shamisen|Koto|Kalimba|Bagpipe|Fiddle|Shanai
Tinkle bell|Agogo|Steel drums|Woodblock|Taiko drum|Melodic tom|Synth drum|Reverse cymbal
Guitar fret noise|Breath noise|Seashore|Bird|Telephone|Helicopter|Applause|Gunshot`.trim().split(/[|\n]/);

/** "Grand piano", "Drums" @param {Track} track */
export const instrument = (track) => (track.drum ? "Drums" : PROGRAMS[track.program] ?? "Instrument");
/** The name of a track, else that of its instrument. @param {Track} track */
export const trackName = (track) => track.name || instrument(track);

const LIST = new Intl.ListFormat("en-GB");
/** "a, b and c" @param {string[]} names */
export const list = (names) => LIST.format(names);

const TITLES = { frere_jacques: "Frère Jacques", ah_vous_dirai_je: "Ah vous dirai-je, maman" };
/** "mozart_k545" -> "Mozart K545", "ode_to_joy" -> "Ode to joy" */
export const title = (name) =>
  TITLES[name] ?? name.replace(/[_-]+/g, " ").trim().replace(/^\p{L}|\S*\d\S*/gu, (word) => word.toUpperCase());

const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long", year: "numeric" });
/** "today, 14:05", "3 March 2026" */
export function when(iso, now = new Date()) {
  const date = new Date(iso);
  return date.toDateString() === now.toDateString() ? `today, ${TIME.format(date)}` : DAY.format(date);
}

/** Return a message of the server as a sentence: with a capital, except for a name such as "keep=2", and a full stop. */
export const sentence = (text) =>
  text.replace(/^\p{Ll}[\p{L}'-]*(?=[\s,;:]|\.?$)/u, (word) => word[0].toUpperCase() + word.slice(1)) + (/[.!?…]["”)]?$/.test(text) ? "" : ".");
