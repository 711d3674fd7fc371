// Draws the run: live on a terminal, otherwise one plain line per client and second.
import { stdout } from 'node:process'
import { styleText } from 'node:util'
import logUpdate from 'log-update'
import { bound, LAW, POLICY } from './server.mjs'
import { COLUMN_MS } from './traffic.mjs'

// A terminal that does not report its size, such as that of script(1), has 0 rows: nothing fits.
const LIVE = stdout.isTTY && stdout.rows > 0 && process.env.TERM !== 'dumb'
// hasColors respects NO_COLOR and similar variables.
const COLOURS = stdout.isTTY && stdout.hasColors()
const BLOCKS = '▁▂▃▄▅▆▇█'
const MARGIN = 17
const COLUMNS_PER_LABEL = 10

/** Text in a style of node:util, if the terminal has colours and the user wants them. */
export function paint(style, text) {
  // hasColors has decided already: styleText must not decide again.
  return COLOURS ? styleText(style, text, { validateStream: false }) : text
}

/**
 * Starts to show the run.
 *
 * @returns A function that stops it, and on a terminal draws the last state.
 */
export function startScreen(clients, run) {
  const draw = LIVE ? () => logUpdate(frame(clients, run)) : () => console.log(lines(clients, run))
  if (LIVE) draw()
  else console.log(heading().join('\n'))
  const timer = setInterval(draw, LIVE ? 100 : 1000)
  return () => {
    clearInterval(timer)
    if (!LIVE) return
    draw()
    logUpdate.done()
  }
}

function heading() {
  return [
    '',
    `  ${paint('bold', 'tollgate')}: an Express app, its rate limit, and three clients at once`,
    '',
    `  limit   ${paint('cyan', POLICY)} for each client`,
    `  law     ${paint('cyan', LAW)}, however it asks`,
    '',
  ]
}

function lines(clients, run) {
  const time = `${run.elapsed().toFixed(1).padStart(6)} s`
  return clients
    .map(
      ({ name, allowed, refused }) =>
        `${time}   ${name.padEnd(8)} ${count('allowed', allowed)} ${count('refused', refused)}`,
    )
    .join('\n')
}

function count(outcome, number) {
  return `  ${outcome}${String(number).padStart(6)}`
}

function frame(clients, run) {
  const total = Math.ceil((run.seconds * 1000) / COLUMN_MS)
  const now = Math.min(Math.floor((run.elapsed() * 1000) / COLUMN_MS), total - 1)
  // The last column stays free, because a full line could wrap.
  const room = Math.max(stdout.columns - MARGIN - 1, 1)
  const first = Math.max(now + 1 - room, 0)
  const strip = (client, outcome, colour) => {
    const numbers = Array.from({ length: now + 1 - first }, (_, i) => client.columns[first + i]?.[outcome] ?? 0)
    return `${count(outcome, client[outcome])}  ${numbers.map((number) => block(number, colour)).join('')}`
  }
  return [
    ...heading(),
    ...clients.flatMap((client) => [
      `  ${paint('bold', client.name.padEnd(7))} ${paint('dim', client.manner)}`,
      strip(client, 'allowed', 'green'),
      strip(client, 'refused', 'red'),
      '',
    ]),
    paint('dim', `${' '.repeat(MARGIN)}${axis(first, room, total)}`),
    paint('dim', `  each column is ${COLUMN_MS} ms, in requests: ${legend()}`),
    `  ${run.elapsed().toFixed(1).padStart(4)} s: the law allows each client ${paint('cyan', String(bound(run.elapsed())))} by now`,
  ].join('\n')
}

/** A count as a block, on a logarithmic scale that shows both 2 and 50. */
function block(number, colour) {
  if (number === 0) return paint('dim', '·')
  return paint(colour, BLOCKS[Math.min(Math.floor(Math.log2(number)), BLOCKS.length - 1)])
}

function legend() {
  return [...BLOCKS.slice(0, 7)].map((shape, i) => `${shape} ${2 ** i}`).join('  ')
}

/** The seconds below the columns from `first` on, as far as they fit. */
function axis(first, room, total) {
  let text = ''
  const start = Math.ceil(first / COLUMNS_PER_LABEL) * COLUMNS_PER_LABEL
  for (let column = start; column <= total; column += COLUMNS_PER_LABEL) {
    const label = `${(column * COLUMN_MS) / 1000} s`
    if (column - first + label.length > room) break
    text = text.padEnd(column - first) + label
  }
  return text
}
