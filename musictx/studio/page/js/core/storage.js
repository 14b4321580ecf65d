/** Settings in localStorage, if the browser allows it. */

export function loadSetting(name, fallback) {
  try {
    return JSON.parse(localStorage.getItem(`musictx.${name}`) ?? "null") ?? fallback;
  } catch {
    return fallback;
  }
}

export function saveSetting(name, value) {
  try {
    localStorage.setItem(`musictx.${name}`, JSON.stringify(value));
  } catch { /* not allowed, as in some private windows */ }
}
