/** A proposal as a picture: its notes in gold, those around it in the colours of their tracks. */

import { frontier, leaving, returning } from "../document/takes.js";
import { ramp } from "../roll/colours.js";
import { begin, sizeCanvas } from "../roll/roll.js";

const HEAD = 26; // pixels at the top that the number and the words take

/**
 * @param {HTMLCanvasElement} canvas @param {import("../app.js").App} app
 * @param {import("../document/types.js").Take} take @param {import("../document/types.js").Proposal} proposal
 */
export function drawSmall(canvas, app, take, proposal) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const { colours, index } = app.roll;
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio)) sizeCanvas(canvas, width, height);
  canvas.style.width = "";
  canvas.style.height = "";
  const place = app.place(take);
  const till = frontier(proposal, place.begin);
  const end = Math.max(place.end, till, place.begin + 1);
  const from = place.begin - Math.min(place.begin, (end - place.begin) * 0.2);
  const accepted = app.accepted(take, proposal);
  const gone = accepted ? new Set() : leaving(app.piece, take, proposal);
  const back = accepted ? [] : returning(app.piece, take, proposal).filter((note) => note.start < end && note.end > from);
  const around = [...index.between(from, end).filter((note) => !gone.has(note.id)), ...back];
  const all = [...around, ...proposal.notes];
  const low = Math.min(60, ...all.map((note) => note.pitch)) - 2;
  const high = Math.max(67, ...all.map((note) => note.pitch)) + 2;
  const step = (height - HEAD) / (high - low + 1);
  const scale = width / (end - from);
  const ctx = begin(/** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")));
  ctx.fillStyle = colours["row-white"];
  ctx.fillRect(0, 0, width, height);
  ctx.fillStyle = colours.beat;
  for (const { time, beat } of app.beats.between(from, end)) if (beat === 1) ctx.fillRect(Math.round((time - from) * scale), 0, 1, height);
  const bar = (note, stop) => {
    ctx.fillRect((note.start - from) * scale, HEAD + (high - note.pitch) * step, Math.max(1.5, (stop - note.start) * scale - 0.5), Math.max(2, step - 0.5));
  };
  const tracks = new Map((app.piece?.tracks ?? []).map((track, i) => [track.id, ramp(track, i, colours.dark)[8]]));
  ctx.globalAlpha = 0.55;
  for (const note of around) {
    ctx.fillStyle = tracks.get(note.track) ?? colours["ink-2"];
    bar(note, note.end);
  }
  ctx.globalAlpha = 1;
  ctx.fillStyle = colours.gold;
  for (const note of proposal.notes) bar(note, note.end ?? till);
  if (proposal.state === "composing") {
    ctx.globalAlpha = 0.8;
    ctx.fillRect((till - from) * scale, 0, 1.5, height);
    ctx.globalAlpha = 1;
  }
}
