/** A slider with a label, its value in words, and an explanation. */

import { fill, h, iconButton, setRange } from "../core/dom.js";

/**
 * @typedef {object} SliderOptions
 * @property {string} label
 * @property {string} [sentence]
 * @property {number} low
 * @property {number} high
 * @property {number} step
 * @property {number | null} value  null: the model chooses, which only sliders with `free` allow
 * @property {(value: number) => string} words
 * @property {string} [free]  text while the value is null; with it the slider has a button that sets null
 * @property {Record<string, number>} [marks]  words for some values, as buttons
 * @property {(value: number | null) => void} onchange
 */

let sliderCount = 0; // for unique ids

/** @param {SliderOptions} options @returns {HTMLElement} */
export function slider({ label, sentence, low, high, step, value, words, free, marks = {}, onchange }) {
  const id = `slider-${++sliderCount}`;
  const input = h(`input#${id}`, {
    type: "range", min: low, max: high, step,
    oninput: () => change(Number(input.value)),
    onkeydown: (event) => {
      if (free && (event.key === "Delete" || event.key === "Backspace")) change(null);
    },
  });
  if (sentence) input.setAttribute("aria-describedby", `${id}-hint`);
  const output = h("output", { for: id });
  const reset = free ? iconButton("close", `Leave ${label.toLowerCase()} to the model`, () => change(null)) : null;
  reset?.classList.add("small");
  const marked = Object.entries(marks).filter(([, at]) => at >= low && at <= high);
  const buttons = marked.map(([word, at]) =>
    h(`button.mark${/^[pmf]+$/.test(word) ? ".dynamic" : ""}`, {
      tabIndex: -1, "aria-label": `${label}: ${word}`, // keyboard users move the slider instead
      style: { "--at": String((at - low) / (high - low)) }, onclick: () => change(at),
    }, word));
  const element = h("div.slider", null,
    h("div.slider-head", null, h("label", { for: id }, label), output, reset),
    input,
    buttons.length > 0 && h("div.marks", null, ...buttons),
    sentence && h(`p.hint#${id}-hint`, null, sentence));

  function show(now) {
    const isFree = now === null;
    const text = isFree ? free ?? "" : words(now);
    setRange(input, now ?? (low + high) / 2, text);
    input.classList.toggle("free", isFree);
    if (isFree) input.style.setProperty("--filled", "0%");
    fill(output, text);
    if (reset) reset.style.visibility = isFree ? "hidden" : "visible";
    buttons.forEach((button, i) => button.classList.toggle("on", !isFree && Math.abs(marked[i][1] - now) <= step / 2));
  }

  function change(to) {
    show(to);
    onchange(to);
  }

  show(value);
  return element;
}
