/** Settings kept by the browser, if it allows localStorage. */

export function loadSetting(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(`musictx.${name}`) ?? "null") ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function saveSetting(name, value) {
  try {
    localStorage.setItem(`musictx.${name}`, JSON.stringify(value));
  } catch { /* a private window keeps nothing */ }
}
