/** Search in sorted lists. */

/** The first index whose value is not below `least`; the length of the list where there is none. */
export function lowerBound(/** @type {ArrayLike<any>} */ list, /** @type {number} */ least, value = (one) => one) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (value(list[middle]) < least) low = middle + 1;
    else high = middle;
  }
  return low;
}
