/** Milliseconds of a clock that all processes of a machine share, and that no change of the date moves. */
export function now() {
  return Number(process.hrtime.bigint()) / 1e6
}
