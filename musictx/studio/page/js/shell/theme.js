/** The theme: light, dark or that of the system. */

import { fill, h, icon, set } from "../core/dom.js";
import { saveSetting, loadSetting } from "../core/storage.js";

const WORDS = { auto: "as the system", light: "light", dark: "dark" };
const system = matchMedia("(prefers-color-scheme: dark)");

let theme = loadSetting("theme", "auto");
if (!(theme in WORDS)) theme = "auto";
document.documentElement.dataset.theme = theme;

/** Is the current theme dark? */
export const isDark = () => theme === "dark" || (theme === "auto" && system.matches);

/** Make a button that switches to the next theme. @param {App} app */
export function themeButton(app) {
  const button = h("button.icon.theme", { onclick: () => nextTheme(app) });
  const show = () => {
    set(button, { title: `Theme: ${WORDS[theme]}`, "aria-label": `Theme: ${WORDS[theme]}` });
    fill(button, icon(theme));
  };
  app.on("settings", show);
  system.addEventListener("change", () => app.changeSettings({}));
  show();
  return button;
}

/** @param {App} app */
export function nextTheme(app) {
  theme = { auto: "light", light: "dark", dark: "auto" }[theme];
  saveSetting("theme", theme);
  document.documentElement.dataset.theme = theme;
  app.changeSettings({});
  app.announce(`Theme: ${WORDS[theme]}`);
}
