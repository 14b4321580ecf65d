/** Listening to a proposal, also while it is composed. */

import { loadSetting } from "../core/storage.js";
import { exchangedNotes, frontier, isRunning } from "../document/takes.js";

/**
 * The piece with a proposal, to be played. Notes that are composed meanwhile are added as they arrive.
 * @param {App} app @param {Take} take @param {number} number  of the proposal
 * @returns {Playable}
 */
export function withProposal(app, take, number) {
  const now = () => app.takes.get(take.id)?.proposals.find((each) => each.number === number);
  let notes = /** @type {any[]} */ ([]);
  let tracks = /** @type {any[]} */ ([]);
  let state = "";
  return {
    music() {
      const { piece } = app;
      const proposal = app.accepted(take, { number }) ? undefined : now();
      const news = `${piece.revision} ${proposal?.state} ${proposal?.version}`;
      if (news !== state) { // else both lists stay the same objects
        state = news;
        const fresh = proposal?.notes ?? [];
        const { removed, restored } = fresh.length ? exchangedNotes(piece, take, proposal) : { removed: new Set(), restored: [] };
        notes = [...[...piece.notes.values()].filter((note) => !removed.has(note.id)), ...restored, ...fresh];
        const byId = new Map([...piece.tracks, ...(proposal?.tracks ?? [])].map((track) => [track.id, track]));
        for (const { track: id } of fresh) if (!byId.has(id)) byId.set(id, { id, name: "", program: 0, drum: false });
        if (byId.size !== tracks.length || proposal?.state === "done") tracks = [...byId.values()];
      }
      return { ...piece, notes, tracks };
    },
    edge() {
      const proposal = now();
      return isRunning(proposal) ? frontier(proposal, app.stretchOf(take).begin) : Infinity;
    },
    proposal: { take: take.id, proposal: number },
  };
}

/**
 * Where a take begins to be composed that this page shows, and nothing else plays, it sounds from its first note on.
 * @param {App} app @param {Player} player
 */
export function listenAlong(app, player) {
  const played = new Set();
  app.takes.on("notes", ({ take, proposal }) => {
    const name = `${app.piece?.id} ${take.id}`; // takes of every piece are numbered from 1
    if (take.id !== app.shown.take || proposal.number !== app.shown.proposal || played.has(name)) return;
    played.add(name);
    // Before the first click or key a browser lets no page sound.
    if (navigator.userActivation?.hasBeenActive === false) return;
    if (loadSetting("along", true) && !player.playing) player.play(app.stretchOf(take).begin, withProposal(app, take, proposal.number));
  });
}
