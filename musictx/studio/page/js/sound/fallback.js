// Where the synthesiser cannot run: the sound of the document as a WAV file of the server.

/**
 * Plays the export of a session with the same surface as a run of the player.
 * @param {string} session
 * @param {number} from
 * @param {{loop?: [number, number] | null, end?: number, volume: number, proposal?: {take: number, proposal: number}}} options
 */
export function playFile(session, from, { loop, end, volume, proposal }, onState, onEnd) {
  const begin = loop ? loop[0] : from;
  const query = new URLSearchParams({ begin: String(begin) });
  if (loop || end !== undefined) query.set("end", String(loop ? loop[1] : end));
  if (proposal) {
    query.set("take", String(proposal.take));
    query.set("proposal", String(proposal.proposal));
  }
  const audio = new Audio(`/api/sessions/${encodeURIComponent(session)}/export/sound.wav?${query}`);
  audio.loop = Boolean(loop);
  audio.volume = volume ** 2;
  audio.currentTime = loop && from > loop[0] && from < loop[1] ? from - begin : 0;
  audio.onplaying = () => onState("playing");
  audio.onwaiting = () => onState("loading");
  audio.onended = audio.onerror = onEnd;
  audio.play().catch(onEnd);
  return {
    position: () => begin + audio.currentTime,
    end() {
      audio.onended = audio.onerror = null;
      audio.pause();
      audio.removeAttribute("src");
    },
  };
}
