/** Builds the programs, and counts their instructions with callgrind. */
import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

/** The counted functions, by their names in callgrind: see main.rs, and src/node/hot.rs. */
const COUNTED = 'guard::counted'
const BOUND = 'tollgate::node::hot::call'

/**
 * The C library copies memory differently on each kind of processor. This selects the way of all
 * x86-64.
 */
const ONE_PROCESSOR = '-AVX2,-AVX,-ERMS,-FSRM,-BMI2,-BMI1,-LZCNT,-MOVBE,-SSE4_2,-SSE4_1,-SSSE3'

/**
 * Instructions per call, by case.
 *
 * @returns {import('./judge.mjs').Figures}
 */
export function countAll() {
  const { program, addon } = build()
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-guard-'))
  try {
    return { ...countEngine(program, folder), ...countAddon(addon, folder) }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** The part of the compiler's version that determines the instructions. */
export function compiler() {
  return /^release: (.*)$/m.exec(run('rustc', ['-vV']))?.[1] ?? 'unknown'
}

/** The benchmark, and the addon of the same build, which still has its function names. */
function build() {
  const words = ['bench', '--bench', 'guard', '--no-run', '--message-format=json-render-diagnostics']
  const messages = run('cargo', words)
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line))
  const program = messages.find(({ target, executable }) => target?.name === 'guard' && executable)?.executable
  const files = messages.filter(({ target }) => target?.name === 'tollgate').flatMap(({ filenames }) => filenames)
  const library = files.find((file) => file.endsWith('.so'))
  if (program === undefined || library === undefined) {
    throw new Error('cargo does not say where it put the benchmark and the addon')
  }
  mkdirSync(join(ROOT, 'target', 'guard'), { recursive: true })
  const addon = join(ROOT, 'target', 'guard', 'tollgate.node')
  copyFileSync(library, addon)
  return { program, addon }
}

/**
 * callgrind writes a file after each case. The program prints the names of the cases in the same
 * order.
 */
function countEngine(program, folder) {
  const out = join(folder, 'engine')
  const printed = callgrind(out, COUNTED, [`--dump-after=${COUNTED}`, program])
  const cases = printed.trim().split('\n')
  return Object.fromEntries(
    cases.map((line, index) => {
      const [, calls, name] = /^(\d+) (.*)$/.exec(line)
      const whole = [...instructions(`${out}.${index + 1}`).values()]
      return [name, perCall(whole, calls)]
    }),
  )
}

/**
 * Calls from JavaScript. Counts only the addon and the C library, because Node's part differs by
 * version.
 */
function countAddon(addon, folder) {
  return {
    'takeSync, from JavaScript': callsOf(addon, join(folder, 'addon'), []),
    'takeSync with a tier, from JavaScript': callsOf(addon, join(folder, 'addon-tier'), ['--tier']),
  }
}

function callsOf(addon, out, args) {
  const program = fileURLToPath(new URL('calls.mjs', import.meta.url))
  const calls = callgrind(out, BOUND, [process.execPath, program, ...args], { NAPI_RS_NATIVE_LIBRARY_PATH: addon })
  const isOurs = (object) => object === addon || /\/libc[.-][^/]*$/.test(object)
  const counts = [...instructions(out)].filter(([object]) => isOurs(object)).map(([, count]) => count)
  return perCall(counts, calls)
}

function perCall(counts, calls) {
  const whole = counts.reduce((sum, count) => sum + count, 0)
  return Math.round((whole / Number(calls)) * 10) / 10
}

/**
 * The output of a program, while callgrind counts a function including the functions that it calls.
 */
function callgrind(out, counted, words, environment = {}) {
  const options = ['-q', '--tool=callgrind', `--callgrind-out-file=${out}`, `--toggle-collect=${counted}`]
  const tunables = `glibc.cpu.hwcaps=${ONE_PROCESSOR}`
  return run('valgrind', [...options, ...words], { GLIBC_TUNABLES: tunables, ...environment })
}

/**
 * Reads a callgrind file: the instructions of each object, without those of calls to other objects.
 * https://valgrind.org/docs/manual/cl-format.html
 */
function instructions(file) {
  const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
  if (!/^totals: [1-9]/m.test(text)) {
    throw new Error(`callgrind counted nothing. Are the functions still called ${COUNTED} and ${BOUND}?`)
  }
  const [names, counts] = [new Map(), new Map()]
  let object = ''
  let isOfCall = false
  for (const line of text.split('\n')) {
    const [, id, name] = /^ob=(\(\d+\))(?: (.*))?$/.exec(line) ?? []
    const [, count] = /^[+\-*\d]\S* (\d+)$/.exec(line) ?? []
    if (id !== undefined) {
      // A name is written out at its first use, also if that is the name of a called object.
      object = name ?? names.get(id)
      names.set(id, object)
    } else if (count !== undefined && !isOfCall) {
      counts.set(object, (counts.get(object) ?? 0) + Number(count))
    }
    const [, other, called] = /^cob=(\(\d+\)) (.*)$/.exec(line) ?? []
    if (other !== undefined) {
      names.set(other, called)
    }
    isOfCall = line.startsWith('calls=')
  }
  return counts
}

/**
 * The output of a program. A failure ends this process; the program itself has printed the reason.
 */
function run(command, words, environment = {}) {
  const options = { cwd: ROOT, encoding: 'utf8', env: { ...process.env, ...environment }, maxBuffer: 2 ** 28 }
  const { status, signal, error, stdout } = spawnSync(command, words, {
    ...options,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  if (status !== 0) {
    throw new Error(`${command} failed: ${error?.message ?? signal ?? `exit code ${status}`}`)
  }
  return stdout
}
