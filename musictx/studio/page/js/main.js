/**
 * Starts the page: makes the App, gives it to every part, and opens what the address names.
 *
 *     app.js, selection.js   what the parts share: state and events
 *     document/              the piece and its takes, edits, bars and beats, words; no elements
 *     roll/                  the piano roll: view, drawing, pointer, keys
 *     panels/                tracks, composing, proposals, history
 *     shell/                 header, menus, dialogs, start screen, keys, theme, messages
 *     sound/, input/, notation/   the player and its bar, what is played in, staves
 *     core/                  requests, elements, events
 */

import { App } from "./app.js";
import { get, session } from "./core/api.js";
import { mountDock } from "./shell/dock.js";
import { leave, mountDrop } from "./shell/files.js";
import { mountHeader } from "./shell/header.js";
import { mountKeys } from "./shell/keys.js";
import { mountAnnouncer, mountMessages } from "./shell/messages.js";
import { mountStart } from "./shell/start.js";
import { mountCompose } from "./panels/compose.js";
import { mountHistory } from "./panels/history.js";
import { mountProposals } from "./panels/proposals.js";
import { mountSidePanel } from "./panels/side.js";
import { mountTracks } from "./panels/tracks.js";
import { mountNotation } from "./notation/index.js";
import { Roll } from "./roll/roll.js";
import { mountTools } from "./roll/tools.js";
import { mountSound } from "./sound/index.js";

const at = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
const app = new App();
const showTitle = (piece) => { document.title = piece ? `${piece.name} · musictx studio` : "musictx studio"; };

// Before all other listeners: these may give the focus to a part, which must be visible then.
app.on("opened", (piece) => {
  document.body.dataset.page = piece ? "piece" : "start";
  if (location.hash.slice(1) !== (piece?.id ?? "")) location.hash = piece?.id ?? "";
  showTitle(piece);
});
app.on("piece", showTitle);

mountMessages(app, at("messages"));
mountAnnouncer(app, at("announcer"));
app.player = mountSound(app, at("transport"));
app.roll = new Roll(app, at("roll-frame"));
mountHeader(app, at("header"));
mountTracks(app, at("tracks"));
mountTools(app, at("tools"));
mountNotation(app, at("roll-frame"), at("tools"));
const [compose, history] = mountSidePanel(app, at("panel"), ["Compose", "History"]);
mountCompose(app, compose);
mountHistory(app, history);
mountProposals(app, at("proposals"));
mountDock(app, at("dock"));
mountDrop(app, document.body);
mountKeys(app);
mountStart(app, at("start"));

/** Opens the session that the address names after "#", or the start screen. */
async function follow() {
  const hash = location.hash;
  const id = hash.slice(1);
  if (id && id === app.piece?.id) return;
  if (!id) return app.piece ? leave(app) : app.close();
  try {
    const document = await get(session(decodeURIComponent(id)));
    await app.mirror.settled();
    if (location.hash === hash) app.open(document); // else another piece was chosen meanwhile
  } catch (error) {
    if (location.hash !== hash) return;
    app.close();
    app.fail(error);
  }
}

// The browser asks whether to leave a page that has more than the server.
window.addEventListener("beforeunload", (event) => app.mirror.pending && event.preventDefault());
app.stream.rest(document, () => !app.player.playing);
window.addEventListener("hashchange", follow);
app.loadModels();
follow();
// For those who look from outside: the browser's console, and the tests.
Object.assign(window, { musictx: app });
