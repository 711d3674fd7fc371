/** The server's limits of the benchmark of outgoing calls. */
export const LIMITS = {
  '50 a second, in windows': { perSecond: 50 },
  '10 at a time, of 100 ms': { atATime: 10 },
}

export const PROCESSES = 3
