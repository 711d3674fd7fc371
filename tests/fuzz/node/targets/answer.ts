/** Headers of servers: a delay is a whole number of milliseconds, at most a day. */
import { answerOf } from '../../../../ts/client/answer.js'

export const maxLength = 512

export const dictionary = [
  ...['retry-after: ', 'retry-after-ms: ', 'date: ', 'ratelimit: ', 'ratelimit-reset: ', 'x-ratelimit-reset: ', '\n'],
  ...[
    'Wed, 21 Oct 2026 07:28:00 GMT',
    '"default";r=0;t=30',
    'limit=10, remaining=0, reset=30',
    '1795219200',
    ';',
    ',',
    '1e9',
  ],
]

export const examples = [
  'retry-after: 30',
  'retry-after: Wed, 21 Oct 2026 07:28:00 GMT\ndate: Wed, 21 Oct 2026 07:27:00 GMT',
  'ratelimit: "a";r=0;t=30, "b";r=3;t=90',
  'ratelimit: limit=10, remaining=0, reset=30',
  'x-ratelimit-reset: 1795219200',
]

export function run(input: Buffer): void {
  const lines = input.toString('utf8').split('\n')
  const entries = lines.map((line) => {
    const colon = line.indexOf(':')
    return [colon < 0 ? line : line.slice(0, colon), colon < 0 ? '' : line.slice(colon + 1)] as const
  })
  const headers = Object.fromEntries(entries)
  const byGet = { get: (name: string) => headers[name] }
  for (const value of [headers, byGet]) {
    const { status, delayMs } = answerOf({ isError: true, error: { status: 429, headers: value } }, 1_795_219_000_000)
    const isDelay = delayMs === undefined || (Number.isInteger(delayMs) && delayMs > 0 && delayMs <= 86_400_000)
    if (status !== 429 || !isDelay) {
      throw new Error(`status ${status}, delay ${delayMs}`)
    }
  }
}
