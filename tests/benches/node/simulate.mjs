/**
 * `tollgate-cli simulate` on a generated access log: lines per second of one core, memory, and correct
 * counts.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { writeLog } from './access-log.mjs'
import { minded } from './children.mjs'
import { median, printColumns, printTargets, targetsOf } from './report.mjs'

export const title = 'Simulate: an access log through a policy'

export const peers = []

export const paces = {
  full: { rounds: 3, lines: 5_000_000 },
  quick: { rounds: 1, lines: 500_000 },
}

const PROGRAM = fileURLToPath(new URL('../../../dist/cli/main.js', import.meta.url))
const REFERENCE = fileURLToPath(new URL('slow-simulation.mjs', import.meta.url))

const POLICY = ['--policy', 'gcra limit=5 period=1m burst=3']

/** For the comparison of counts: three different algorithms, and all refused keys. */
const COMPARED = ['fixedWindow limit=4 window=1m', 'slidingLog limit=4 window=1m'].flatMap((text) => ['--policy', text])

/**
 * The child reports its usage at the end, on a separate descriptor, because the command uses the
 * others.
 */
const TELLS = `import { writeSync } from 'node:fs'
process.on('exit', () => writeSync(3, JSON.stringify(process.resourceUsage())))`

/**
 * Logs of the same kind and the same clients with different numbers of lines, to show growth with
 * lines.
 */
const SCENES = [
  { name: 'combined, a tenth of the lines', part: 10, format: 'combined' },
  { name: 'combined', part: 1, format: 'combined' },
  { name: 'JSON, a tenth of the lines', part: 10, format: 'json' },
]

/**
 * The number of times to read the log for the memory figure. After these, V8's heap has its full
 * size.
 */
const TIMES = 3

/** @param {{ rounds: number, lines: number }} pace */
export async function run({ rounds, lines }) {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-simulate-'))
  try {
    const scenes = []
    for (const scene of SCENES) {
      const log = join(folder, `${scene.format}-${scene.part}.log`)
      await writeLog(log, lines / scene.part, scene.format)
      scenes.push({ ...scene, log, lines: lines / scene.part, bytes: (await stat(log)).size, turns: [] })
    }
    for (let round = 0; round < rounds; round++) {
      for (const { log, turns } of scenes) {
        turns.push(await timed([log, ...POLICY, '--format', 'json']))
      }
    }
    const [, all] = scenes
    const again = {
      ...all,
      name: `combined, ${TIMES} times over`,
      lines: all.lines * TIMES,
      bytes: all.bytes * TIMES,
      turns: [await timed([...Array(TIMES).fill(all.log), ...POLICY, '--format', 'json'])],
    }
    scenes.push(again)
    const compared = await compare(all.log, join(folder, 'report.json'))
    const figures = new Map([
      ['lines per second of CPU', all.turns.map(({ cpu }) => all.lines / cpu)],
      [
        'resident memory, three copies of the log / one copy',
        [again.turns[0].memory / median(all.turns.map(({ memory }) => memory))],
      ],
      ['counts that differ from those of the slow reference program', [compared.isEqual ? 0 : 1]],
    ])
    const targets = targetsOf(
      [
        { of: 'lines per second of CPU', atLeast: 500_000 },
        { of: 'resident memory, three copies of the log / one copy', atMost: 1.1 },
        { of: 'counts that differ from those of the slow reference program', atMost: 0 },
      ],
      figures,
    )
    return { scenes: scenes.map(({ log: _, ...scene }) => scene), compared: compared.said, targets }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/**
 * Runs the command. Returns seconds of wall time, CPU seconds of all its threads, and its peak
 * memory in MiB.
 */
async function timed(words) {
  const preload = ['--import', `data:text/javascript,${encodeURIComponent(TELLS)}`]
  const begin = performance.now()
  const child = minded(
    spawn(process.execPath, [...preload, PROGRAM, 'simulate', ...words], {
      stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
    }),
  )
  const [told] = await Promise.all([text(child.stdio[3]), succeeded(child)])
  const seconds = (performance.now() - begin) / 1_000
  const { userCPUTime, systemCPUTime, maxRSS } = JSON.parse(told)
  return { seconds, cpu: (userCPUTime + systemCPUTime) / 1e6, memory: maxRSS / 1_024 }
}

/** Counts the same log with the slow reference. */
async function compare(log, report) {
  const words = [log, ...POLICY, ...COMPARED, '--format', 'json', '--top', '1000000', '--output', report]
  await succeeded(minded(spawn(process.execPath, [PROGRAM, 'simulate', ...words], { stdio: 'inherit' })))
  const child = minded(spawn(process.execPath, ['--max-old-space-size=8192', REFERENCE, log, report]))
  const [said, complaint, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  return { isEqual: code === 0, said: `${said}${complaint}`.trim() }
}

async function succeeded(child) {
  const [code, signal] = await once(child, 'close')
  if (code !== 0) {
    throw new Error(`tollgate-cli simulate ended with ${code ?? signal}`)
  }
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ scenes, compared, targets }) {
  console.log(
    `  npx tollgate-cli simulate LOG ${POLICY[0]} '${POLICY[1]}' --format json, from start to end of the process`,
  )
  const rows = scenes.map(({ name, lines, bytes, turns }) => {
    const middle = (figure) => median(turns.map((turn) => turn[figure]))
    return [
      name,
      `${(lines / 1e6).toFixed(1)}M`,
      `${(bytes / 2 ** 20).toFixed(0)}`,
      middle('seconds').toFixed(2),
      middle('cpu').toFixed(2),
      `${(lines / middle('cpu') / 1e3).toFixed(0)}k`,
      middle('memory').toFixed(0),
    ]
  })
  printColumns(['log', 'lines', 'MiB', 'seconds', 'CPU seconds', 'lines per CPU second', 'memory, MiB'], rows)
  console.log(`\n  slow reference: ${compared}`)
  printTargets(targets)
}
