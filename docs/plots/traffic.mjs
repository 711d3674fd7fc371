/** The traffic that is sent through every algorithm. Times are in milliseconds from the plot's beginning. */

/** Evenly spaced calls. */
function evenly(count, from, to) {
  return Array.from({ length: count }, (_, number) => from + ((to - from) * number) / count)
}

/** A minute with bursts, a steady stretch above the limit, one below it, and pauses. */
export const BURSTY = {
  seconds: 60,
  times: [
    ...evenly(15, 2_000, 2_500),
    ...evenly(15, 9_200, 9_900),
    ...evenly(15, 10_100, 10_800),
    ...evenly(48, 16_000, 28_000),
    ...evenly(60, 34_000, 35_000),
    ...evenly(18, 40_000, 52_000),
    ...evenly(40, 55_000, 55_400),
  ],
}

/**
 * What tells a window that is fixed from one that slides: a call that opens the window, a burst just before
 * its end, and a burst just after it.
 */
export const WINDOW_EDGE = {
  seconds: 30,
  times: [0, ...evenly(30, 9_000, 9_900), ...evenly(30, 10_050, 10_950), ...evenly(30, 19_000, 19_900)],
}
