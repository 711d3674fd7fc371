import type { Paint } from '../terminal.js'
import { COLUMN_MS, type DemoClient } from './clients.js'
import { BOUND_TEXT, boundOf, POLICY_TEXT } from './server.js'

export interface DemoState {
  readonly clients: readonly DemoClient[]
  readonly servers: number
  readonly seconds: number
  /** The seconds since its start; after its end, the total. */
  readonly elapsed: number
  readonly isOver: boolean
}

/** The narrowest terminal that a frame fits. */
export const FRAME_COLUMNS = 80

/** The rows of the last frame. With the prompt of a shell they fill a terminal of 24 rows. */
export const FRAME_ROWS = 23

const BLOCKS = '▁▂▃▄▅▆▇█'
const MARGIN = 17
const COLUMNS_PER_LABEL = 10

/** The header lines of a refusal that a client acts on. */
const HEADERS = ['RateLimit-Policy', 'RateLimit', 'Retry-After']

/** The whole picture as text: while the run lasts, and its end. */
export function frame(state: DemoState, columns: number, paint: Paint): string {
  const { clients, servers, seconds, elapsed, isOver } = state
  const total = Math.ceil((seconds * 1_000) / COLUMN_MS)
  const now = Math.min(Math.floor((elapsed * 1_000) / COLUMN_MS), total - 1)
  // The last column stays free, because a full line could wrap.
  const width = Math.max(columns - MARGIN - 1, 1)
  const first = Math.max(now + 1 - width, 0)
  const strip = (label: string, number: number, counts: readonly number[], style: 'blue' | 'yellow') => {
    const shown = Array.from({ length: now + 1 - first }, (_, column) =>
      block(counts[first + column] ?? 0, paint, style),
    )
    return `  ${label.padEnd(8)}${String(number).padStart(5)}  ${shown.join('')}`
  }
  const strips = (client: DemoClient) =>
    servers === 1
      ? [
          strip('allowed', client.allowed, client.allowedIn[0] ?? [], 'blue'),
          strip('refused', client.refused, client.refusedIn, 'yellow'),
        ]
      : [
          ...Array.from({ length: servers }, (_, server) =>
            strip(`server ${server + 1}`, client.allowedBy[server] ?? 0, client.allowedIn[server] ?? [], 'blue'),
          ),
          // For comparison: two counters that nothing shares.
          ...(client === clients.at(-1)
            ? [strip('separate', client.separatelyAllowed, client.separatelyIn, 'yellow')]
            : []),
        ]
  const where = servers === 1 ? 'one server' : `${servers} server processes, one limit in Redis`
  return [
    `${paint('bold', 'tollgate')}: ${where}, and three clients at once`,
    `  limit  ${POLICY_TEXT} for each client`,
    `  bound  at most ${BOUND_TEXT}, in any span of time`,
    '',
    ...clients.flatMap((client) => [
      `${paint('bold', client.name.padEnd(7))} ${paint('dim', mannerOf(client, servers))}`,
      ...strips(client),
    ]),
    paint('dim', `${' '.repeat(MARGIN)}${axis(first, width, total)}`),
    '',
    ...(isOver
      ? ending(state, paint)
      : [`${elapsed.toFixed(1)} s: at most ${boundOf(elapsed)} requests of each client may be allowed by now`]),
  ].join('\n')
}

function mannerOf({ manner, allowed, refused }: DemoClient, servers: number): string {
  return servers === 1 ? manner : `${manner}; allowed ${allowed}, refused ${refused}`
}

/** The broken promises, as sentences: that no client exceeds the bound, and that a client below the limit is never refused. */
export function violationsOf({ clients, elapsed }: DemoState): readonly string[] {
  const most = boundOf(elapsed)
  return clients.flatMap(({ name, allowed, refused }) => [
    ...(allowed > most ? [`${name} got ${allowed}, more than the bound of ${most}`] : []),
    ...(name === 'polite' && refused > 0 ? [`${name} kept below the limit and was refused ${refused} times`] : []),
  ])
}

/** The check of the bound, one complete refusal, and the next step. */
function ending(state: DemoState, paint: Paint): readonly string[] {
  const { clients, servers, elapsed } = state
  const most = boundOf(elapsed)
  const found = violationsOf(state)
  const flood = clients.at(-1) as DemoClient
  const held = [
    `${paint('green', '✓')} In ${elapsed.toFixed(2)} s no client got more than ${most} (${BOUND_TEXT}).`,
    servers === 1
      ? `${paint('green', '✓')} The polite client stayed below the limit and was never refused.`
      : `${paint('green', '✓')} ${flood.name} got ${flood.allowed}; separate counters would have let ${flood.separatelyAllowed} through.`,
  ]
  const { refusal } = clients.findLast((client) => client.refusal !== undefined) ?? {}
  return [
    ...(found.length === 0 ? held : found.map((violation) => paint('red', `✗ ${violation}`))),
    ...(refusal === undefined
      ? []
      : [
          `  HTTP/1.1 ${refusal.status} ${refusal.statusText}`,
          ...HEADERS.map((name) => `  ${name}: ${refusal.headers.get(name) ?? ''}`),
        ]),
    ...(servers === 1 ? [''] : []),
    `Next: ${paint('bold', 'npx tollgate-cli playground')} compares algorithms and numbers.`,
  ]
}

/** A count as a block, on a logarithmic scale that shows both 2 and 50. */
function block(number: number, paint: Paint, style: 'blue' | 'yellow'): string {
  return number === 0
    ? paint('dim', '·')
    : paint(style, BLOCKS[Math.min(Math.floor(Math.log2(number)), BLOCKS.length - 1)] as string)
}

/** The seconds below the columns from `first` on, as far as they fit. */
function axis(first: number, width: number, total: number): string {
  let text = ''
  const start = Math.ceil(first / COLUMNS_PER_LABEL) * COLUMNS_PER_LABEL
  for (let column = start; column <= total; column += COLUMNS_PER_LABEL) {
    const label = `${(column * COLUMN_MS) / 1_000} s`
    if (column - first + label.length > width) {
      break
    }
    text = text.padEnd(column - first) + label
  }
  return text
}
