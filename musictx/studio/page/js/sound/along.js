/** Listening to a proposal, also while it is composed. */

import { frontier, leaving, returning } from "../document/takes.js";
import { remembered } from "../core/storage.js";

/** @typedef {import("../app.js").App} App */
/** @typedef {import("../document/types.js").Take} Take */

/**
 * What is to be played to hear a proposal with all that it leaves as it is. Notes that are composed
 * meanwhile come in as they are known.
 * @param {App} app @param {Take} take @param {number} number  of the proposal
 * @returns {import("../app.js").Playable}
 */
export function hearing(app, take, number) {
  const now = () => app.takes.get(take.id)?.proposals.find((each) => each.number === number);
  let notes = /** @type {any[]} */ ([]);
  let tracks = /** @type {any[]} */ ([]);
  let state = "";
  /** Both stay the same objects until there is news. */
  function refresh() {
    const { piece } = app;
    const proposal = app.accepted(take, /** @type {any} */ ({ number })) ? undefined : now();
    const fresh = proposal?.notes ?? [];
    const seen = `${piece.revision} ${proposal?.state} ${proposal?.version}`;
    if (seen === state) return;
    state = seen;
    const gone = fresh.length ? leaving(piece, take, proposal) : new Set();
    notes = [...[...piece.notes.values()].filter((note) => !gone.has(note.id)), ...returning(piece, take, proposal), ...fresh];
    const byId = new Map([...piece.tracks, ...(proposal?.tracks ?? [])].map((track) => [track.id, track]));
    for (const { track: id } of fresh) if (!byId.has(id)) byId.set(id, { id, name: "", program: 0, drum: false });
    if (byId.size !== tracks.length || proposal?.state === "done") tracks = [...byId.values()];
  }
  return {
    notes() {
      refresh();
      return notes;
    },
    tracks() {
      refresh();
      return tracks;
    },
    edge() {
      const proposal = now();
      return proposal?.state === "composing" || proposal?.state === "waiting" ? frontier(proposal, app.place(take).begin) : Infinity;
    },
    proposal: { take: take.id, proposal: number },
  };
}

/**
 * Where one's own take begins to be composed and nothing else plays, it is heard from its first note on.
 * @param {App} app @param {any} player @param {import("../app.js").Player} page
 */
export function listenAlong(app, player, page) {
  const played = new Set();
  app.takes.on("notes", ({ take, proposal }) => {
    const name = `${app.piece?.id} ${take.id}`; // takes of every piece are numbered from 1
    if (take.id !== app.shown.take || proposal.number !== app.shown.proposal || played.has(name)) return;
    played.add(name);
    // Before the first click or key a browser lets no page sound.
    if (navigator.userActivation?.hasBeenActive === false) return;
    if (remembered("along", true) && !page.playing) page.play(app.place(take).begin, hearing(app, take, proposal.number));
  });
}
