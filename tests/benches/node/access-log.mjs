/**
 * Writes an access log in the combined format, like that of a busy day: few clients make most
 * requests, with bursts, lines that are a few seconds late, some that are far too late, and broken
 * ones.
 *
 *     node tests/benches/node/access-log.mjs FILE LINES [combined|json]
 *
 * The same LINES give the same log.
 */
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The time of the first request. */
const START = Date.UTC(2026, 0, 31)

const CLIENTS = 20_000
const LINES_PER_SECOND = 50
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
const AGENTS = [
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36',
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15',
  'curl/8.14.1',
  'Go-http-client/2.0',
]
const BROKEN = [
  'Segmentation fault (core dumped)',
  '198.51.100.7 - - [31/Feb/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 10',
  '198.51.100.7 - - [31/Jan/2026:10:00:00 +0000] "GET / HTTP',
  '{"half": "an object',
]

/** Whole numbers from 0 to 2^32 − 1, the same for the same seed (xorshift32). */
export function randomNumbers(seed) {
  let state = seed
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state >>> 0
  }
}

/** Writes the log, in one of the formats. */
export async function writeLog(file, lines, format = 'combined') {
  const next = randomNumbers(20_260_131)
  const line = format === 'json' ? jsonLine : combinedLine
  const stream = createWriteStream(file)
  let text = ''
  let time = START
  for (let number = 0; number < lines; number++) {
    // Bursts: most seconds have few requests, some have ten times as many.
    time += next() % 10 === 0 ? Math.floor((next() % 20_000) / LINES_PER_SECOND) * 10 : 0
    const chance = next() % 100_000
    if (chance < 2) {
      text += `${BROKEN[next() % BROKEN.length]}\n`
    } else {
      const delay = chance < 5 ? 200_000 : chance < 1_000 ? next() % 5_000 : 0
      text += line(Math.max(START, time - delay), clientOf(next()), next())
    }
    if (text.length > 1 << 20) {
      if (!stream.write(text)) {
        await once(stream, 'drain')
      }
      text = ''
    }
  }
  stream.end(text)
  await once(stream, 'close')
}

/** A third of the requests come from a hundredth of the clients. */
function clientOf(random) {
  const place = (random % 1_000_000) / 1_000_000
  return Math.floor(CLIENTS * place ** 4)
}

function addressOf(client) {
  return client % 50 === 0
    ? `2001:db8:${(client >> 8).toString(16)}:${((client & 255) << 8).toString(16)}::1`
    : `10.${(client >> 16) & 255}.${(client >> 8) & 255}.${client & 255}`
}

let lastSecond = -1
let lastText = ''

function combinedLine(time, client, random) {
  const second = Math.floor(time / 1_000)
  if (second !== lastSecond) {
    const date = new Date(second * 1_000)
    const [clock] = date.toISOString().slice(11).split('.')
    lastText = `${String(date.getUTCDate()).padStart(2, '0')}/${MONTHS[date.getUTCMonth()]}/${date.getUTCFullYear()}:${clock} +0000`
    lastSecond = second
  }
  const agent = AGENTS[client % AGENTS.length]
  const user = client % 7 === 0 ? `user${client}` : '-'
  return `${addressOf(client)} - ${user} [${lastText}] "GET /api/v1/items/${random % 10_000}?page=${random % 7} HTTP/1.1" ${random % 9 === 0 ? 404 : 200} ${random % 50_000} "https://shop.example/" "${agent}"\n`
}

function jsonLine(time, client, random) {
  const uri = `/api/v1/items/${random % 10_000}`
  return `{"time":"${new Date(time).toISOString()}","remote_addr":"${addressOf(client)}","method":"GET","uri":"${uri}","status":200,"bytes":${random % 50_000},"user_agent":"${AGENTS[client % AGENTS.length]}"}\n`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [file, lines, format] = process.argv.slice(2)
  await writeLog(file, Number(lines), format)
}
