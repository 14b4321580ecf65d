/** Light, dark, or as the system has it; remembered by the browser. */

import { h, icon, fill } from "../core/dom.js";
import { saveSetting, loadSetting } from "../core/storage.js";

const ORDER = ["auto", "light", "dark"];
const WORDS = { auto: "as the system has it", light: "light", dark: "dark" };
const system = matchMedia("(prefers-color-scheme: dark)");

let theme = loadSetting("theme", "auto");
if (!ORDER.includes(theme)) theme = "auto";
document.documentElement.dataset.theme = theme;

/** Is what one sees dark? */
export const isDark = () => theme === "dark" || (theme === "auto" && system.matches);

/** A button that goes through the themes. @param {App} app */
export function themeButton(app) {
  const button = h("button.icon.theme", { onclick: () => nextTheme(app) });
  const show = () => {
    const label = `Theme: ${WORDS[theme]}`;
    button.title = label;
    button.setAttribute("aria-label", label);
    fill(button, icon(theme));
  };
  app.on("settings", show);
  show();
  return button;
}

/** @param {App} app */
export function nextTheme(app) {
  theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
  saveSetting("theme", theme);
  document.documentElement.dataset.theme = theme;
  app.set({});
  app.say(`Theme: ${WORDS[theme]}`);
}

/** Calls `listener` when the system changes its mind. */
export const onSystemTheme = (listener) => system.addEventListener("change", listener);

/** Custom properties of the style sheets as colours that a canvas understands. */
export function colours(...names) {
  const probe = h("span", { hidden: true });
  document.body.append(probe);
  const colours = Object.fromEntries(names.map((name) => {
    probe.style.color = `var(--${name})`;
    return [name, getComputedStyle(probe).color];
  }));
  probe.remove();
  return colours;
}
