/** Little piano rolls that show what a task does: ink is what there is, gold is what comes. */

const SVG = "http://www.w3.org/2000/svg";

/** Notes as [x, y, width, kind] on a field of 48 by 26; kind: i ink, g gold, d dashed (it goes), k kept. */
const NOTES = {
  continue: [[2, 16, 8, "i"], [9, 10, 7, "i"], [16, 14, 6, "i"], [25, 8, 8, "g"], [32, 12, 6, "g"], [38, 5, 8, "g"]],
  replace: [[2, 14, 8, "i"], [10, 8, 5, "i"], [17, 5, 7, "g"], [24, 12, 7, "g"], [34, 9, 6, "i"], [40, 15, 6, "i"]],
  vary: [[2, 14, 8, "i"], [10, 8, 7, "i"], [18, 5, 6, "g"], [25, 12, 7, "i"], [33, 17, 6, "g"], [40, 10, 6, "i"]],
  accompany: [[2, 5, 10, "i"], [13, 3, 8, "i"], [22, 7, 12, "i"], [35, 5, 11, "i"], [2, 15, 20, "g"], [2, 20, 20, "g"], [24, 14, 22, "g"], [24, 20, 22, "g"]],
  harmonise: [[2, 3, 13, "i"], [17, 5, 13, "i"], [32, 3, 14, "i"], [2, 9, 13, "g"], [17, 10, 13, "g"], [32, 9, 14, "g"], [2, 14, 13, "g"], [17, 15, 13, "g"], [32, 15, 14, "g"], [2, 20, 13, "g"], [17, 21, 13, "g"], [32, 20, 14, "g"]],
  new: [[3, 17, 9, "g"], [12, 11, 8, "g"], [20, 14, 6, "g"], [27, 6, 9, "g"], [36, 10, 9, "g"]],
};

/** @param {string} task */
export function taskPicture(task) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 48 26");
  svg.setAttribute("class", "task-picture");
  svg.setAttribute("aria-hidden", "true");
  if (task === "replace" || task === "vary") svg.append(box(16, 1, 17 + (task === "vary" ? 8 : 0), 24, "field"));
  for (const [x, y, width, kind] of NOTES[task]) svg.append(box(x, y, width - 1, 3.4, kind));
  return svg;
}

function box(x, y, width, height, kind) {
  const rectangle = document.createElementNS(SVG, "rect");
  for (const [name, value] of Object.entries({ x, y, width, height, rx: 1.2, class: kind })) rectangle.setAttribute(name, value);
  return rectangle;
}
