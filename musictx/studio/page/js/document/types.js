/**
 * Types of the data that the page and the server exchange; see also musictx/studio/document.py. Times are seconds.
 * This file is not a module, so its types are global.
 *
 * @typedef {{id: number, start: number, end: number, pitch: number, velocity: number, track: number}} Note
 * @typedef {{id: number, name: string, program: number, drum: boolean, volume?: number, pan?: number, reverb?: number, mute?: boolean, solo?: boolean}} Track
 *   a missing field has its default, see document/mixer.js
 * @typedef {[time: number, bar: number, beat: number]} Beat
 * @typedef {{time: number, tempo: number, beats: number, unit: number, key: [sharps: number, minor: boolean] | null, pickup: number}} Timing
 *   from a time on; pickup: the beats before bar 1
 *
 * @typedef {object} Piece  the server's Document, its notes by id
 * @property {string} id
 * @property {string} name
 * @property {number} revision
 * @property {boolean} can_undo
 * @property {boolean} can_redo
 * @property {number} duration
 * @property {"free" | "beats" | "chorale"} music  the kind of music, determined by the server
 * @property {Track[]} tracks
 * @property {Map<number, Note>} notes
 * @property {Set<number>} locked
 * @property {Record<string, [first: number, count: number, replaced: [number, number, number, number, number, number][]]>} brought
 *   accepted proposals, by "take/proposal": the id of its first note, the number of its notes, and the notes that it replaced
 * @property {number} next_id
 * @property {Beat[]} beats  a pick-up is bar 0
 * @property {[number, number, number][]} meters  [time, numerator, denominator]
 * @property {Timing[]} timings  from the beginning and from each change on
 * @property {[number, number, boolean][]} keys  [time, sharps, minor]
 * @property {[number, number, number][]} pedals  [time, value, track]
 * @property {number[]} fermatas  times
 * @property {string} [composer]
 * @property {[number, string][]} markers  [time, text]: chords and sections
 * @property {[number, string, string][]} chords  of the markers: [time, text, symbol as musicians write it]
 * @property {[number, string][]} sections  the other markers
 * @property {[number, string][]} lyrics  [time, syllable]
 * @property {[number, number][]} favourites  [take, proposal]
 *
 * @typedef {object} Operation  one step that can be undone; any part but the label may be missing
 * @property {string} label
 * @property {number[]} [remove]
 * @property {Note[]} [add]
 * @property {Note[]} [change]
 * @property {number[]} [lock]
 * @property {number[]} [unlock]
 * @property {Track[]} [tracks]
 * @property {[number, number, number][]} [pedals]
 * @property {[number, string][]} [markers]  and, not sent to the server:
 * @property {[number, string, string][]} [chords]
 * @property {[number, string][]} [sections]
 * @property {[number, string][]} [lyrics]
 * @property {[number, number][]} [favourites]
 * @property {string} [name]
 *
 * @typedef {{start: number, end: number | null, pitch: number, velocity: number, track: number}} Ghost
 *   a note of a proposal; end is null while it still sounds
 *
 * @typedef {object} Proposal
 * @property {number} number  from 1
 * @property {"waiting" | "composing" | "done" | "failed"} state
 * @property {Ghost[]} notes
 * @property {Track[]} tracks  new tracks that it brings
 * @property {number[]} removes  ids of notes that it replaces
 * @property {string | null} remark
 * @property {number} [version]  grows while notes come in
 *
 * @typedef {object} Take  one request to compose, with its proposals
 * @property {number} id
 * @property {string} task
 * @property {string} label
 * @property {"waiting" | "composing" | "done" | "failed" | "stopped"} state
 * @property {number} place  in the queue, 1 is next; 0 when not waiting
 * @property {number} progress  0 to 1
 * @property {number} seed
 * @property {string} model
 * @property {number} begin  of the selection; takeStretch tells where the new music is
 * @property {number} end
 * @property {number[] | null} tracks
 * @property {Record<string, any>} request  as it was sent
 * @property {string} command  of the command line, that makes the same notes
 * @property {boolean} at_end  its notes arrive only when a proposal is finished
 * @property {boolean} aside  is it set aside?
 * @property {string | null} error
 * @property {string} made  when it was requested, ISO 8601
 * @property {Proposal[]} proposals
 *
 * @typedef {object} Option  of a take, such as a control: a property of the music that a model follows
 * @property {string} name
 * @property {string} label
 * @property {string} sentence
 * @property {number} low
 * @property {number} high
 * @property {number} step
 * @property {string} unit
 * @property {Record<string, number>} words  for some numbers
 * @property {Record<string, string>} choices  and what each is called
 * @property {any} default
 *
 * @typedef {{name: string, title: string, sentence: string, tasks: string[], controls: Option[], ignores: string[], suits: string[], beats: boolean, chords: boolean}} Model
 *
 * @typedef {object} Training  its state, see musictx/studio/training.py
 * @property {"none" | "training" | "finished" | "stopped" | "failed"} state
 * @property {string} [folder]  as it was typed
 * @property {string} [command]  that does the same
 * @property {number} [step]
 * @property {[step: number, train: number | null, val: number | null][]} [rows]
 * @property {number[]} [samples]  steps
 * @property {string | null} [model]  its name, once there is one
 * @property {string} [error]  why it failed
 *
 * @typedef {object} Playable  something to listen to instead of the piece
 * @property {() => any} music  returns a piece; called again while it plays, since a proposal may still grow. Its lists are the same objects while nothing changed
 * @property {() => number} composedUntil  returns the time up to which notes have been composed; Infinity once all are
 * @property {{take: number, proposal: number}} proposal
 *
 * @typedef {[time: number, text: string]} TimedText
 * @typedef {[time: number, marker: string, symbol: string]} Chord  by the text of its marker, and as musicians write it
 * @typedef {{begin: number, end: number}} Stretch  of time
 * @typedef {{number: number, begin: number, end: number}} Bar
 * @typedef {{keys: string[], description: string, group: string, piece?: boolean, run: (event?: any) => void}} Command
 *
 * @typedef {import("../app.js").App} App
 * @typedef {import("./beats.js").Beats} Beats
 * @typedef {import("../sound/player.js").Player} Player
 * @typedef {import("../roll/roll.js").Roll} Roll
 * @typedef {import("../roll/view.js").View} View
 * @typedef {import("../core/canvas.js").Pixels} Pixels
 */
