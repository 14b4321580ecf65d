/** Numbers: bounds and binary search. */

/** Return the number in [low, high] that is nearest to a value; `low` if the interval is empty. */
export const clamp = (value, low, high) => Math.max(Math.min(value, high), low);

/** Return the first index of a sorted list whose value is at least `bound`, or the list's length. @param {ArrayLike<any>} list @param {number} bound */
export function lowerBound(list, bound, value = (item) => item) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (value(list[middle]) < bound) low = middle + 1;
    else high = middle;
  }
  return low;
}
