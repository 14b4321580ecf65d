/** Links to exports: the piece, a part of it, or a proposal, as a file. */

import { get, session } from "../core/api.js";
import { h, set } from "../core/dom.js";

/** Formats with what they are for. */
export const FORMATS = [
  ["mid", "MIDI", ".mid, for any sequencer"],
  ["musicxml", "MusicXML", ".musicxml, for notation"],
  ["wav", "Sound", ".wav"],
  ["png", "Picture", ".png, a piano roll"],
];

/** @param {Record<string, string | number>} query */
const words = (query) => new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]));

/**
 * A link that saves a file, and that can be dragged into another program where the browser lets it.
 * @param {App} app @param {string} suffix
 * @param {Record<string, string | number>} query  begin, end, take, proposal
 * @param {...(Node | string | null | false)} children
 */
export function exportLink(app, suffix, query, ...children) {
  const link = h("a.button", {
    draggable: true,
    // The browser would save without a word where the studio refuses.
    async onclick(event) {
      event.preventDefault();
      const { download, href } = link;
      if (suffix === "wav") app.done("The sound is being made; it is saved when it is ready.");
      const content = await app.reach(get(href.slice(href.indexOf("/api/") + 5), { file: true }));
      if (!content) return;
      const url = URL.createObjectURL(content);
      h("a", { href: url, download }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
    },
    ondragstart(event) {
      const type = suffix === "mid" ? "audio/midi" : "application/octet-stream";
      event.dataTransfer.setData("DownloadURL", `${type}:${link.download}:${link.href}`);
    },
  }, ...children);
  // The name is that of the moment: the piece may be renamed meanwhile.
  const point = () => {
    const name = app.piece.name.replace(/[^\p{L}\p{N} _-]+/gu, "").trim() || "piece";
    const download = `${name}${query.take ? ` ${query.take}-${query.proposal}` : ""}.${suffix}`;
    set(link, { download, href: `/api/${session(app.piece.id, "export", download)}?${words(query)}` });
  };
  link.addEventListener("pointerdown", point);
  link.addEventListener("focus", point);
  point();
  return link;
}

/**
 * A line that says what a MIDI file of the piece, or of a part of it, loses; empty where nothing is lost.
 * @param {App} app @param {Record<string, string | number>} query  begin, end
 */
export function losses(app, query) {
  const line = h("small.losses", { role: "note" });
  get(`${session(app.piece.id, "losses")}?${words(query)}`).then(({ losses: sentences }) => line.replaceChildren(sentences.join(". ")), () => {});
  return line;
}
