/** What only the server can say of the piece as it stands. */

import { get, session } from "../core/api.js";

/**
 * Asks when the piece has changed, once all is saved and while it is `wanted`. The function that is returned asks
 * where that has become another matter.
 * @param {App} app @param {string} what  path below the session @param {(piece: Piece) => boolean} wanted
 * @param {(answer: any) => void} got  null: nothing is wanted, or not answered yet @param {number} patience  milliseconds without a change before it asks
 */
export function fetchOnChange(app, what, wanted, got, patience) {
  let key = "";
  let timer = 0;
  const look = () => {
    const { piece } = app;
    const now = `${piece.id} ${piece.revision} ${wanted(piece)}`;
    if (now === key) return;
    key = now;
    clearTimeout(timer);
    if (!wanted(piece)) return got(null);
    timer = setTimeout(async () => {
      if (app.mirror.pending || !app.online) { key = ""; return; } // what is confirmed later asks again
      const answer = await get(`${session(piece.id)}/${what}`).catch(() => null);
      if (answer && now === key && app.piece?.id === piece.id) got(answer);
    }, patience);
  };
  app.on("piece", look);
  app.on("opened", (piece) => {
    key = "";
    if (!piece) return;
    got(null);
    look();
  });
  return look;
}
