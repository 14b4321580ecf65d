/** Tempo, meter and key of a piece at a time. */

const NEAR = 1e-3; // seconds that count as the same moment

/** Return the timing that holds at a time. @param {Piece} piece @param {number} [time] @returns {Timing} */
export const timingAt = ({ timings }, time = 0) => timings.findLast((each) => each.time <= time + NEAR) ?? timings[0];
