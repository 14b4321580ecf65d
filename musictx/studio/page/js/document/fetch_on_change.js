/** Facts about the piece that only the server computes, such as implied chords. */

import { get, session } from "../core/api.js";

/**
 * Fetch `path` below the session after each change of the piece, once the change is saved, while `needed(piece)`.
 * Return a function that fetches again if the answer of `needed` has changed.
 * @param {App} app @param {string} path @param {(piece: Piece) => boolean} needed
 * @param {(answer: any) => void} receive  gets null while nothing is needed or no answer has come
 * @param {number} delay  milliseconds without a change before the request
 */
export function fetchOnChange(app, path, needed, receive, delay) {
  let key = "";
  let timer = 0;
  const refresh = () => {
    const { piece } = app;
    const current = `${piece.id} ${piece.revision} ${needed(piece)}`;
    if (current === key) return;
    key = current;
    clearTimeout(timer);
    if (!needed(piece)) return receive(null);
    timer = setTimeout(async () => {
      if (app.mirror.pending || !app.online) { key = ""; return; } // the next confirmed change fetches again
      const answer = await get(`${session(piece.id)}/${path}`).catch(() => null);
      if (answer && current === key && app.piece?.id === piece.id) receive(answer);
    }, delay);
  };
  app.on("piece", refresh);
  app.on("opened", (piece) => {
    key = "";
    if (!piece) return;
    receive(null);
    refresh();
  });
  return refresh;
}
