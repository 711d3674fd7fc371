/**
 * Records `npm run demo` in a terminal of 80 columns and writes docs/plots/demo.svg, an animated picture with one frame
 * a second. It needs `script` (util-linux) and a built dist/:
 *
 *     node docs/plots/record-demo.mjs
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'

const COLUMNS = 80
const ROWS = 23
const CELL = { width: 8.4, height: 18 }
const PADDING = 16
const SECONDS_AT_END = 4

/** The colours of the styles that ts/cli/terminal.ts writes, as numbers of ECMA-48. */
const FILLS = { 2: '#8b949e', 31: '#ff7b72', 32: '#3fb950', 33: '#e69f00', 34: '#56b4e9' }

const ESC = '\u001b\\['
const REDRAW = new RegExp(`${ESC}\\d+A`, 'g')
const MOVES = new RegExp(`${ESC}(?:\\d+A|K|J|\\?25[hl])`, 'g')
const STYLE = new RegExp(`${ESC}(\\d+)m`)

/** The frames that the demo has drawn, each with the second of its drawing. */
async function record() {
  const command = `stty cols ${COLUMNS} rows ${ROWS + 1}; node dist/cli/main.js demo`
  const child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
    env: { ...process.env, NO_COLOR: '', TERM: 'xterm-256color' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  child.stdout.setEncoding('utf8')
  let output = ''
  const chunks = []
  const start = performance.now()
  child.stdout.on('data', (text) => {
    chunks.push({ from: output.length, second: (performance.now() - start) / 1_000 })
    output += text
  })
  const [code] = await once(child, 'close')
  if (code !== 0) {
    throw new Error(`the demo ended with code ${code}`)
  }
  // Each frame but the first moves the cursor to the first row.
  const starts = [0, ...[...output.matchAll(REDRAW)].map(({ index }) => index)]
  return starts.map((from, index) => ({
    second: chunks.findLast((chunk) => chunk.from <= from).second,
    lines: linesOf(output.slice(from, starts[index + 1])),
  }))
}

/** The lines of a frame: parts of one style each. */
function linesOf(text) {
  const lines = text
    .replace(MOVES, '')
    .replaceAll('\r', '')
    .split('\n')
    .map((line) => {
      let style = '0'
      return line.split(STYLE).flatMap((part, index) => {
        if (index % 2 === 1) {
          style = part
          return []
        }
        return part === '' ? [] : [{ style, part }]
      })
    })
  return lines.slice(0, ROWS)
}

/** One frame a second, and the last. */
function chosen(frames) {
  const last = frames.at(-1)
  const kept = []
  for (const frame of frames.slice(0, -1)) {
    if (Math.floor(frame.second) >= kept.length) {
      kept.push(frame)
    }
  }
  return [...kept.filter(({ second }) => second < last.second - 0.5), last]
}

function escaped(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}

function textOf(line, row) {
  let column = 0
  const parts = []
  for (const { style, part } of merged(line)) {
    const x = (PADDING + column * CELL.width).toFixed(1)
    const name = style === '1' ? ' font-weight="bold"' : FILLS[style] === undefined ? '' : ` fill="${FILLS[style]}"`
    // The length keeps columns aligned in fonts with other widths.
    const length = (part.length * CELL.width).toFixed(1)
    parts.push(`<tspan x="${x}" textLength="${length}" lengthAdjust="spacingAndGlyphs"${name}>${escaped(part)}</tspan>`)
    column += part.length
  }
  return `<text y="${PADDING + (row + 0.8) * CELL.height}">${parts.join('')}</text>`
}

/** Neighbours of one style become one part. */
function merged(line) {
  const parts = []
  for (const { style, part } of line) {
    const known = ['1', ...Object.keys(FILLS)].includes(style) ? style : '0'
    const last = parts.at(-1)
    if (last?.style === known) {
      last.part += part
    } else {
      parts.push({ style: known, part })
    }
  }
  return parts
}

function draw(frames) {
  const width = Math.ceil(2 * PADDING + COLUMNS * CELL.width)
  const height = Math.ceil(2 * PADDING + ROWS * CELL.height)
  const total = frames.length - 1 + SECONDS_AT_END
  const groups = frames.map(({ lines }, index) => {
    const isLast = index === frames.length - 1
    const end = isLast ? total : index + 1
    const [from, to] = [index, end].map((second) => ((second / total) * 100).toFixed(3))
    // Readers who turn animations off see the last frame.
    const name = `f${index}`
    const rule = `@keyframes ${name}{0%{opacity:${index === 0 ? 1 : 0}}${index === 0 ? '' : `${from}%{opacity:1}`}${
      isLast ? '' : `${to}%{opacity:0}`
    }100%{opacity:${isLast ? 1 : 0}}}`
    const text = lines.map(textOf).join('')
    return { rule, group: `<g class="frame" style="animation-name:${name};opacity:${isLast ? 1 : 0}">${text}</g>` }
  })
  const title =
    'The demo: a polite, a bursty and a flooding client at a limit of 10 requests a second with bursts of 20'
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img"><title>${title}</title>
<style>
.frame{animation:${total}s step-end infinite;white-space:pre}
text{font:14px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#e6edf3;white-space:pre}
${groups.map(({ rule }) => rule).join('\n')}
@media (prefers-reduced-motion:reduce){.frame{animation:none}}
</style>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
${groups.map(({ group }) => group).join('\n')}
</svg>
`
}

const frames = chosen(await record())
writeFileSync(new URL('demo.svg', import.meta.url), draw(frames))
console.log(`docs/plots/demo.svg: ${frames.length} frames`)
