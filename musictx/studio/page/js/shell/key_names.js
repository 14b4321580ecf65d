/** Names of key strokes: "Ctrl+Shift+Z", "ArrowLeft", "?". */

const MAC = typeof navigator !== "undefined" && /Mac|iP(hone|ad)/.test(navigator.platform ?? "");

/**
 * Return the name of a key event. The command key counts as Control. Shift is left out for characters that need it,
 * such as "?".
 * @param {{key: string, code?: string, ctrlKey?: boolean, metaKey?: boolean, altKey?: boolean, shiftKey?: boolean}} event
 */
export function strokeName({ key, code = "", ctrlKey, metaKey, altKey, shiftKey }) {
  // With Alt some systems produce another character, so the physical key counts.
  const letter = altKey && /^Key[A-Z]$/.test(code) ? code[3] : key;
  const name = letter === " " ? "Space" : letter.length === 1 ? letter.toUpperCase() : letter;
  const shift = shiftKey && (name.length > 1 || /\p{L}/u.test(name));
  return [(ctrlKey || metaKey) && "Ctrl", altKey && "Alt", shift && "Shift", name].filter(Boolean).join("+");
}

const SHOWN = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Delete: "Del", Escape: "Esc", PageUp: "Page up", PageDown: "Page down" };

/** Return the labels of a key stroke: ["Ctrl", "←"]. */
export const strokeLabels = (name) =>
  (name.endsWith("++") ? [...name.slice(0, -2).split("+"), "+"] : name === "+" ? ["+"] : name.split("+"))
    .map((part) => SHOWN[part] ?? (MAC && part === "Ctrl" ? "⌘" : part));
