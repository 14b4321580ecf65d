/**
 * Start the page: make the App, mount every part, and open the piece in the address.
 *
 *     ../index.html          what never changes, and the content of dialogs as templates
 *     app.js, selection.js   state and events that the parts share
 *     document/              the piece, its takes and edits, bars and beats, words; no DOM
 *     roll/                  the piano roll: view, drawing, pointer, shortcuts, dialogs
 *     panels/                tracks, composing, proposals, history
 *     shell/                 header, menus, dialogs, start screen, shortcuts, theme, messages
 *     sound/, input/, notation/   playback, MIDI and computer keyboard, staves
 *     core/                  HTTP requests, DOM helpers, events
 */

import { App } from "./app.js";
import { get, session } from "./core/api.js";
import { leave, mountDrop, mountStart } from "./shell/files.js";
import { mountHeader } from "./shell/header.js";
import { mountKeys } from "./shell/keys.js";
import { mountAnnouncer, mountMessages } from "./shell/messages.js";
import { mountDock, mountSidePanel } from "./shell/panels.js";
import { mountCompose } from "./panels/compose.js";
import { mountHistory } from "./panels/history.js";
import { mountProposals } from "./panels/proposals.js";
import { mountTracks } from "./panels/tracks.js";
import { mountNotation } from "./notation/index.js";
import { Roll } from "./roll/roll.js";
import { mountTools } from "./roll/tools.js";
import { mountSound } from "./sound/index.js";

const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
const app = new App();
const showTitle = (piece) => { document.title = piece ? `${piece.name} · musictx studio` : "musictx studio"; };

// Must be the first listener: others focus elements that it makes visible.
app.on("opened", (piece) => {
  document.body.dataset.page = piece ? "piece" : "start";
  if (location.hash.slice(1) !== (piece?.id ?? "")) location.hash = piece?.id ?? "";
  showTitle(piece);
});
app.on("piece", showTitle);

mountMessages(app, byId("messages"));
mountAnnouncer(app, byId("announcer"));
app.player = mountSound(app, byId("transport"));
app.roll = new Roll(app, byId("roll-frame"));
mountHeader(app, byId("header"));
mountTracks(app, byId("tracks"));
mountTools(app, byId("tools"));
mountNotation(app, byId("notation"), byId("roll-frame"), document.querySelector("[data-key=V]"));
mountSidePanel(app, byId("panel"));
mountCompose(app, byId("compose"));
mountHistory(app, byId("history"));
mountProposals(app, byId("proposals"));
mountDock(app, byId("dock"));
mountDrop(app, document.body);
mountKeys(app);
mountStart(app, byId("start"));

/** Open the session whose id follows "#" in the address, or the start screen. */
async function openAddress() {
  const hash = location.hash;
  const id = hash.slice(1);
  if (id && id === app.piece?.id) return;
  if (!id) return app.piece ? leave(app) : app.close();
  try {
    const document = await get(session(decodeURIComponent(id)));
    await app.mirror.settled();
    if (location.hash === hash) app.open(document); // unless the user has chosen another piece
  } catch (error) {
    if (location.hash !== hash) return;
    app.close();
    app.reportError(error);
  }
}

// The browser asks before it leaves a page with unsaved operations.
window.addEventListener("beforeunload", (event) => app.mirror.pending && event.preventDefault());
app.stream.disconnectWhenHidden(() => !app.player.playing);
window.addEventListener("hashchange", openAddress);
app.loadModels();
openAddress();
// For the browser's console and the tests.
Object.assign(window, { musictx: app });
