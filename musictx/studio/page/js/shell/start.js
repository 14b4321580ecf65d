/** The start screen: open a file, start an empty piece, train a model, examples, earlier pieces. */

import { get, post, remove, session } from "../core/api.js";
import { fill, h, icon, iconButton } from "../core/dom.js";
import { clock, count, title, when } from "../document/words.js";
import { chooseFile, openEmpty, openExample } from "./files.js";
import { themeButton } from "./theme.js";
import { openTraining } from "./training.js";

const RETRY_DELAY = 2000; // milliseconds

/** @param {App} app @param {HTMLElement} screen */
export function mountStart(app, screen) {
  const exampleList = h("div.examples");
  const list = h("ul.earlier");
  const past = h("section", { hidden: true, "aria-labelledby": "earlier" }, h("h2#earlier", null, "Earlier pieces"), list);
  fill(screen, h("main.start", null,
    h("div.brand", null, h("img", { src: "/page/icon.svg", alt: "" }), h("span", null, "musictx studio"), themeButton(app)),
    h("h1", { tabIndex: -1 }, "Select some music. Ask what comes next."),
    h("p.lead", null, "Open a piece, mark a few bars, and let a model continue them, fill them anew, or accompany them. Nothing leaves your machine."),
    h("div.doors", null,
      h("button.door.file", { onclick: () => chooseFile(app) },
        icon("open"), h("b", null, "Open a file"), h("span.hint", null, "MIDI, MusicXML or a chart of chords. You can also drop it anywhere on this page.")),
      h("button.door", { onclick: () => openEmpty(app) },
        icon("draw"), h("b", null, "Start from nothing"), h("span.hint", null, "An empty roll: draw, play, or let a model begin.")),
      h("button.door", { onclick: () => openTraining(app) },
        icon("spark"), h("b", null, "Train a model"), h("span.hint", null, "On a folder of your own music: a model of your own in some minutes."))),
    h("section", { "aria-labelledby": "examples" }, h("h2#examples", null, "Or try an example"), exampleList),
    past,
    h("footer", null, "Pieces are kept in the folder that musictx studio was started with. Press ? at any time for the keys."),
  ));

  let timer = 0;
  async function refresh() {
    clearTimeout(timer);
    const answers = await app.reach(Promise.all([get("examples"), get("sessions")]));
    if (!answers) {
      timer = setTimeout(() => !app.piece && refresh(), RETRY_DELAY);
      return;
    }
    const [names, pieces] = answers;
    fill(exampleList, ...names.map((name) => h("button", { onclick: () => openExample(app, name) }, title(name))));
    past.hidden = !pieces.length;
    fill(list, ...pieces.map(entry));
  }

  function entry(piece) {
    const name = piece.name || "Untitled";
    return h("li", null,
      h("a", { href: `#${encodeURIComponent(piece.id)}` }, h("b", null, name), h("small", null, when(piece.changed)),
        h("small", null, `${count(piece.notes, "note")}, ${clock(piece.duration)}`)),
      iconButton("erase", `Delete ${name}`, async () => {
        const back = () => app.reach(post(session(piece.id, "restore"))).then(refresh);
        const answer = await app.reach(remove(session(piece.id)));
        if (answer !== undefined) app.done(`${name} was moved to the folder "deleted" with the other pieces.`, back);
        refresh();
      }));
  }

  app.on("opened", (piece) => {
    if (piece) return;
    refresh();
    screen.querySelector("h1").focus();
  });
}
