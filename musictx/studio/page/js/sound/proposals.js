/** Playback of a proposal, which may still be composing. */

import { loadSetting } from "../core/storage.js";
import { composedUntil, isRunning } from "../document/takes.js";

/**
 * Return the piece with a proposal for the player; newly composed notes are added as they arrive.
 * @param {App} app @param {Take} take @param {number} number  of the proposal
 * @returns {Playable}
 */
export function withProposal(app, take, number) {
  const latest = () => app.takes.proposal(take.id, number);
  let notes = /** @type {any[]} */ ([]);
  let tracks = /** @type {any[]} */ ([]);
  let version = "";
  return {
    music() {
      const { piece } = app;
      const proposal = app.isAccepted(take, number) ? undefined : latest();
      const newVersion = `${piece.revision} ${proposal?.state} ${proposal?.version}`;
      if (newVersion !== version) { // else both lists stay the same objects, which the player recognises
        version = newVersion;
        const fresh = proposal?.notes ?? [];
        const { removed, restored } = app.exchangedNotes(take, fresh.length ? proposal : undefined);
        notes = [...[...piece.notes.values()].filter((note) => !removed.has(note.id)), ...restored, ...fresh];
        const byId = new Map([...piece.tracks, ...(proposal?.tracks ?? [])].map((track) => [track.id, track]));
        for (const { track: id } of fresh) if (!byId.has(id)) byId.set(id, { id, name: "", program: 0, drum: false });
        if (byId.size !== tracks.length || proposal?.state === "done") tracks = [...byId.values()];
      }
      return { ...piece, notes, tracks };
    },
    composedUntil() {
      const proposal = latest();
      return isRunning(proposal) ? composedUntil(proposal, app.stretchOf(take).begin) : Infinity;
    },
    proposal: { take: take.id, proposal: number },
  };
}

/** Play the shown proposal from the first note that is composed, unless something else is playing. @param {App} app @param {Player} player */
export function listenAlong(app, player) {
  const played = new Set();
  app.takes.on("notes", ({ take, proposal }) => {
    const name = `${app.piece?.id} ${take.id}`; // takes of every piece are numbered from 1
    if (take.id !== app.shown.take || proposal.number !== app.shown.proposal || played.has(name)) return;
    played.add(name);
    // Browsers allow sound only after a click or a key.
    if (navigator.userActivation?.hasBeenActive === false) return;
    if (loadSetting("along", true) && !player.playing) player.play(app.stretchOf(take).begin, withProposal(app, take, proposal.number));
  });
}
