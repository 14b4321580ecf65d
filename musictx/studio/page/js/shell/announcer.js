/** Says things to screen readers, the newest last; a sentence that comes again is said again. */

/** @param {import("../app.js").App} app @param {HTMLElement} region  with aria-live */
export function mountAnnouncer(app, region) {
  let even = false;
  app.on("say", (text) => {
    even = !even;
    region.textContent = text + (even ? "" : "\u00a0");
  });
  app.takes.on("finished", ({ take, proposal }) => {
    const what = proposal.state === "failed" ? "failed" : `is ready, ${proposal.notes.length} notes`;
    app.say(`${take.label}: proposal ${proposal.number} ${what}`);
  });
}
