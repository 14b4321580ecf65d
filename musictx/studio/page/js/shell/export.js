/** Links to exports: the piece, a part of it, or a proposal, as a file. */

import { get, session } from "../core/api.js";
import { h, set } from "../core/dom.js";
import { stretchWords } from "../document/words.js";

/** File suffix, label and description of each format. */
export const FORMATS = [
  ["mid", "MIDI", ".mid, for any sequencer"],
  ["musicxml", "MusicXML", ".musicxml, for notation"],
  ["wav", "Sound", ".wav"],
  ["png", "Picture", ".png, a piano roll"],
];

/**
 * Make a link that saves a file; in browsers that allow it, the link can be dragged into another program.
 * @param {App} app @param {string} suffix
 * @param {Record<string, any>} query  begin, end, take, proposal
 * @param {...(Node | string | null | false)} children
 */
export function exportLink(app, suffix, query, ...children) {
  const link = h("a.button", {
    draggable: true,
    // A plain link would save the server's error as a file.
    async onclick(event) {
      event.preventDefault();
      const { download, href } = link;
      if (suffix === "wav") app.notify("The sound is being rendered; it is saved when it is ready.");
      const content = await app.attempt(get(href.slice(href.indexOf("/api/") + 5), { file: true }));
      if (!content) return app.online || app.notify("Not exported, because the studio does not answer.");
      const url = URL.createObjectURL(content);
      h("a", { href: url, download }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
    },
    ondragstart(event) {
      const type = suffix === "mid" ? "audio/midi" : "application/octet-stream";
      event.dataTransfer.setData("DownloadURL", `${type}:${link.download}:${link.href}`);
    },
  }, ...children);
  // The user may rename the piece while the link exists.
  const update = () => {
    const name = app.piece.name.replace(/[^\p{L}\p{N} _-]+/gu, "").trim() || "piece";
    const bars = query.begin === undefined ? "" : ` ${stretchWords(app.beats, query.begin, query.end)}`;
    const download = `${name}${bars}${query.take ? ` ${query.take}-${query.proposal}` : ""}.${suffix}`;
    set(link, { download, href: `/api/${session(app.piece.id, "export", download)}?${new URLSearchParams(query)}` });
  };
  set(link, { onpointerdown: update, onfocus: update });
  update();
  return link;
}

/**
 * Make a line that lists what a MIDI file of the piece, or of a part of it, cannot contain; empty if it contains all.
 * @param {App} app @param {Record<string, any>} query  begin, end
 */
export function losses(app, query) {
  const line = h("small.losses", { role: "note" });
  get(`${session(app.piece.id, "losses")}?${new URLSearchParams(query)}`).then(({ losses: sentences }) => line.replaceChildren(sentences.join(". ")), () => {});
  return line;
}
