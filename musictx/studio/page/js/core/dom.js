/** Helpers that make and update elements. */

/**
 * Make an element: `h("button.primary#go", {onclick}, "Go")`.
 *
 * Properties that begin with "on" are event listeners. Properties with a dash, `role`, `for`, `list` and `alt` are
 * attributes. `style` is an object of CSS properties. All others are properties of the element.
 * @param {string} spec  tag.class.class#id
 * @param {Record<string, any> | null} [properties]
 * @param {...(Node | string | null | false | undefined)} children
 * @returns {any}
 */
export function h(spec, properties, ...children) {
  const [, tag, rest] = /^([a-z0-9-]*)(.*)$/.exec(spec);
  const element = document.createElement(tag || "div");
  if (tag === "button") element.setAttribute("type", "button"); // a submit button sets its own type
  for (const part of rest.match(/[.#][^.#]+/g) ?? []) {
    if (part[0] === "#") element.id = part.slice(1);
    else element.classList.add(part.slice(1));
  }
  element.append(...present(children));
  set(element, properties ?? {}); // after the children: the text of an <option> is its default value
  return element;
}

/** Set properties and attributes as `h` does. */
export function set(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, css] of Object.entries(value)) element.style.setProperty(key, css);
    else if (name.includes("-") || name === "role" || ["for", "list", "alt"].includes(name)) {
      if (value === null || value === false) element.removeAttribute(name);
      else element.setAttribute(name, value === true ? "true" : String(value));
    } else if (element[name] !== value) element[name] = value;
  }
}

/** Return the children that are nodes or texts. @param {(Node | string | null | false | undefined)[]} children */
const present = (children) => /** @type {(Node | string)[]} */ (children.filter((child) => child !== null && child !== undefined && child !== false));

/** Replace the children of an element. @param {Element} element @param {...(Node | string | null | false | undefined)} children */
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
}

/**
 * Make, update, order and remove the children of `parent` so that there is one row for each item. An item keeps its
 * row, so the focus stays, and an update never swallows a click.
 * @template Item
 * @param {HTMLElement} parent
 * @param {Item[]} items
 * @param {(item: Item) => string | number} key
 * @param {(item: Item) => {element: HTMLElement, update: (item: Item, index: number) => void}} makeRow
 */
export function syncRows(parent, items, key, makeRow) {
  const old = rowsOf.get(parent) ?? new Map();
  const rows = new Map(items.map((item) => [key(item), old.get(key(item)) ?? makeRow(item)]));
  rowsOf.set(parent, rows);
  for (const [id, row] of old) if (rows.get(id) !== row) row.element.remove();
  items.forEach((item, index) => {
    const row = rows.get(key(item));
    row.update(item, index);
    if (parent.children[index] !== row.element) parent.insertBefore(row.element, parent.children[index] ?? null);
  });
}

/** @type {WeakMap<HTMLElement, Map<any, any>>} */
const rowsOf = new WeakMap();

/** Make a button with an icon; the label is its tooltip and what screen readers say. */
export function iconButton(name, label, onclick, properties = {}) {
  return h("button.icon", { title: label, "aria-label": label, onclick, ...properties }, icon(name));
}

/** Set whether a toggle button is pressed. @param {HTMLElement} button @param {boolean} on */
export const setPressed = (button, on) => button.setAttribute("aria-pressed", String(on));

/** Make a <select>. @param {[value: string, label: string][]} options @param {string} value @param {(value: string) => void} [onchange] */
export function selectBox(options, value, onchange, properties = {}) {
  const elements = options.map(([option, label]) => h("option", { value: option, selected: option === value }, label));
  const select = h("select", { onchange: () => onchange?.(select.value), ...properties }, ...elements);
  return select;
}

/** Set the value of a range input, the part of it that is filled, and what screen readers say. @param {HTMLInputElement} input @param {number} value @param {string} words */
export function setRange(input, value, words) {
  const [low, high] = [Number(input.min), Number(input.max)];
  input.value = String(value);
  input.style.setProperty("--part", `${((value - low) / (high - low)) * 100}%`);
  input.setAttribute("aria-valuetext", words);
}

/** Mark one button of a group as chosen; only that one is reached with Tab. @param {HTMLElement[]} buttons @param {number} index @param {"aria-checked" | "aria-selected"} attribute */
export function markChosen(buttons, index, attribute) {
  buttons.forEach((button, i) => {
    button.setAttribute(attribute, String(i === index));
    button.tabIndex = i === index ? 0 : -1;
  });
}

/** Let the arrow keys focus and choose the next or previous button of a group. @param {HTMLElement[]} buttons @param {(index: number) => void} choose */
export function arrowKeys(buttons, choose) {
  buttons.forEach((button, i) => button.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (i + step + buttons.length) % buttons.length;
    choose(next);
    buttons[next].focus();
  }));
}

/** SVG paths of the icons, on a grid of 24 by 24. */
const PATHS = {
  undo: "M9 7 4 12l5 5M4 12h10a6 6 0 0 1 0 12",
  redo: "M15 7l5 5-5 5M20 12H10a6 6 0 0 0 0 12",
  open: "M3 7h6l2 2h10v10H3z",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  export: "M12 3v12M7 10l5 5 5-5M4 20h16",
  light: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6 19 19M5 19l1.4-1.4M17.6 6.4 19 5",
  dark: "M20 14.5A8.5 8.5 0 1 1 9.5 4a7 7 0 0 0 10.5 10.5z",
  auto: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 3v18M12 7l6.5-1.5M12 12h9M12 17l6.5 1.5",
  help: "M9 9a3 3 0 1 1 4.5 2.6c-1 .6-1.5 1.2-1.5 2.4M12 18h.01",
  play: "M7 4l13 8-13 8z",
  stop: "M6 6h12v12H6z",
  select: "M5 3l6 17 2.5-7L21 10.500z",
  draw: "M4 20l1-5L16 4l4 4L9 19zM13 7l4 4",
  lock: "M6 11h12v9H6zM8.500 11V8a3.500 3.500 0 0 1 7 0v3",
  erase: "M5 7h14M10 4h4M7 7l1 13h8l1-13M10.500 11v5M13.500 11v5",
  quantise: "M5 4v16M12 4v16M19 4v16M5 9h5M12 15h5",
  close: "M6 6l12 12M18 6 6 18",
  check: "M4 13l5 5L20 6",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  copy: "M9 9h11v11H9zM15 9V4H4v11h5",
  again: "M4 12a8 8 0 0 1 14-5.300L20 9M20 4v5h-5M20 12a8 8 0 0 1-14 5.300L4 15M4 20v-5h5",
  table: "M4 5h16v14H4zM4 10h16M4 14.500h16M10 5v14",
  lane: "M4 20h16M6 20v-7M10 20V8M14 20v-5M18 20V5",
  star: "M12 3.500l2.600 5.500 6 .8-4.400 4.200 1.100 6-5.300-2.900-5.300 2.900 1.100-6L3.400 9.800l6-.8z",
  tracks: "M4 6h16M4 12h16M4 18h16",
  fit: "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
  spark: "M12 3c.6 5 3.400 8 9 9-5.600 1-8.400 4-9 9-.6-5-3.400-8-9-9 5.600-1 8.400-4 9-9z",
  start: "M6 5v14M19 5 9 12l10 7z",
  loop: "M4 11a5 5 0 0 1 5-5h9M15 3l3 3-3 3M20 13a5 5 0 0 1-5 5H6M9 21l-3-3 3-3",
  metronome: "M9 3h6l4 18H5zM12 15l6-9M6.500 15h11",
  along: "M4 13v-1a8 8 0 0 1 16 0v1M4 13h3v6H5.500A1.500 1.500 0 0 1 4 17.500zM20 13h-3v6h1.500a1.500 1.500 0 0 0 1.500-1.500z",
  record: "M12 6a6 6 0 1 0 0 12 6 6 0 0 0 0-12z",
  piano: "M3 6h18v13H3zM9 6v8M15 6v8M9 14v5M15 14v5",
  midi: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM7 12h.01M8.500 8.500h.01M12 7h.01M15.500 8.500h.01M17 12h.01",
  score: "M9 17.500V6.500l11-2.500v11M9 17.500a2.700 2.700 0 1 1-5.400 0 2.700 2.700 0 0 1 5.400 0zM20 15a2.700 2.700 0 1 1-5.400 0 2.700 2.700 0 0 1 5.400 0z",
};

/** Make an SVG element. @param {string} tag @param {Record<string, string | number>} attributes @param {...Node} children */
export function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** Make an icon. @param {string} name  a key of PATHS */
export const icon = (name) =>
  svg("svg", { viewBox: name === "undo" || name === "redo" ? "0 3 24 24" : "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));

/** Return a function that runs `work` at the next animation frame, once for any number of calls. @param {() => void} work */
export function nextFrame(work) {
  let waiting = 0;
  return () => {
    waiting ||= requestAnimationFrame(() => {
      waiting = 0;
      work();
    });
  };
}
