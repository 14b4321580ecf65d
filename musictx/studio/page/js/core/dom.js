/** Helpers that make and update elements, and let them be dragged. */

/** @typedef {Node | string | null | false | undefined} Child  null, false and undefined are left out */

/**
 * Make an element: `h("button.primary#go", {onclick}, "Go")`.
 *
 * Properties that begin with "on" are event listeners. Properties with a dash, `role`, `for`, `list` and `alt` are
 * attributes. `style` is an object of CSS properties. All others are properties of the element.
 * @param {string} spec  tag.class.class#id
 * @param {Record<string, any> | null} [properties]
 * @param {...Child} children
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

/** Leave out children that are null, false or undefined. @param {Child[]} children */
const present = (children) => /** @type {(Node | string)[]} */ (children.filter((child) => child !== null && child !== undefined && child !== false));

/** Replace the children of an element. @param {Element} element @param {...Child} children */
export const fill = (element, ...children) => element.replaceChildren(...present(children));

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
  [...rows.values()].forEach(({ element }, index) => {
    if (parent.children[index] !== element) parent.insertBefore(element, parent.children[index] ?? null);
  });
  items.forEach((item, index) => rows.get(key(item)).update(item, index)); // all have their sizes now
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
  return h("select", { onchange: ({ target }) => onchange?.(target.value), ...properties }, ...elements);
}

/** Set the value of a range input, the part of it that is filled, and what screen readers say. @param {HTMLInputElement} input @param {number} value @param {string} words */
export function setRange(input, value, words) {
  const [low, high] = [Number(input.min), Number(input.max)];
  input.value = String(value);
  input.style.setProperty("--filled", `${((value - low) / (high - low)) * 100}%`);
  input.setAttribute("aria-valuetext", words);
}

/** Mark one button of a group as chosen; only that one is reached with Tab. @param {HTMLElement[]} buttons @param {number} index @param {"aria-checked" | "aria-selected"} attribute */
export function markChosen(buttons, index, attribute) {
  buttons.forEach((button, i) => {
    button.setAttribute(attribute, String(i === index));
    button.tabIndex = i === index ? 0 : -1;
  });
}

/** Let a click choose a button of a group, and the arrow keys focus and choose the next or previous one. @param {HTMLElement[]} buttons @param {(index: number) => void} choose */
export function chooseOne(buttons, choose) {
  buttons.forEach((button, i) => set(button, {
    onclick: () => choose(i),
    onkeydown(event) {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = (i + step + buttons.length) % buttons.length;
      choose(next);
      buttons[next].focus();
    },
  }));
}

/** Make an SVG element. @param {string} tag @param {Record<string, string | number>} attributes @param {...Node} children */
export function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** Make an icon. @param {string} name  of a symbol in icons.svg */
export const icon = (name) => svg("svg", { "aria-hidden": "true" }, svg("use", { href: `/page/icons.svg#${name}` }));

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

/**
 * Let an element be dragged with the main button of a mouse, a pen or a finger. `start` is called when the pointer goes
 * down; it returns what to do until the pointer is lifted, or null to ignore it.
 * @param {HTMLElement} element
 * @param {(event: PointerEvent) => {move: (event: PointerEvent) => void, end?: () => void, cancel?: () => void} | null} start
 */
export function onDrag(element, start) {
  element.addEventListener("pointerdown", (event) => {
    const drag = event.button ? null : start(event);
    if (!drag) return;
    event.preventDefault();
    element.setPointerCapture(event.pointerId);
    const stop = (then) => {
      element.onpointermove = element.onpointerup = element.onpointercancel = null;
      then?.();
    };
    element.onpointermove = drag.move;
    element.onpointerup = () => stop(drag.end);
    element.onpointercancel = () => stop(drag.cancel);
  });
}
