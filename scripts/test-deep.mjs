/**
 * Searches for faults that nobody has found yet: draws new cases, which it prints, and runs for long.
 *
 *     npm run test:deep                       all parts, about eight hours on two cores
 *     npm run test:deep -- --hours 1          a share of their cases
 *     npm run test:deep -- PART...            some parts; --list prints them
 *
 * --seed N   the cases of an earlier run, which printed N
 *
 * A part that runs whole or not at all, and takes too long, is not run; the table says so. Make each
 * finding a fixed case of the gate. Each step's output is in target/test-logs/.
 */
import { execFileSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { build } from './build.mjs'
import { ROOT } from './content.mjs'
import { install } from './install.mjs'
import { PARTS } from './test/search.mjs'
import { runSteps } from './test/steps.mjs'

const { values: options, positionals: names } = parseArgs({
  allowPositionals: true,
  options: { hours: { type: 'string' }, seed: { type: 'string' }, list: { type: 'boolean', default: false } },
})

if (options.list) {
  for (const { name, title, minutes } of PARTS) {
    console.log(`${name.padEnd(12)} ${`${minutes}`.padStart(3)} min  ${title}`)
  }
} else {
  await main()
}

async function main() {
  const unknown = names.filter((name) => !PARTS.some((part) => part.name === name))
  if (unknown.length > 0) {
    throw new Error(`no such part: ${unknown.join(', ')}. There are ${PARTS.map(({ name }) => name).join(', ')}.`)
  }
  const chosen = PARTS.filter(({ name }) => names.length === 0 || names.includes(name))
  const seed = number('seed', options.seed ?? `${randomInt(2 ** 31)}`, 0)
  const { parts, left, fraction } = within(chosen)
  console.log(`Seed ${seed}: repeat these cases with --seed ${seed}`)
  install('__tests__', 'docs')
  execFileSync(process.execPath, ['scripts/ensure-redis.mjs'], { cwd: ROOT, stdio: 'inherit' })
  build({ profile: 'release', wasm: true })
  const share = (count) => Math.max(1, Math.round(count * fraction))
  const start = performance.now()
  const results = []
  for (const part of parts) {
    // Later parts find the addon of the release profile, which some of them replace.
    build({ profile: 'release', wasm: true })
    results.push(...(await runSteps(part.steps({ seed, share }), { root: ROOT, jobs: 1, verbose: false })))
  }
  console.log('\nseconds  step')
  for (const { step, status, seconds } of results) {
    console.log(`${seconds.toFixed(1).padStart(7)}  ${step.name}${status === 'passed' ? '' : `: ${status}`}`)
  }
  for (const { name, minutes } of left) {
    console.log(`      -  ${name}: not run, because it takes ${minutes} minutes`)
  }
  const failed = results.filter(({ status }) => status !== 'passed').length
  console.log(`\n${((performance.now() - start) / 60_000).toFixed(1)} minutes, seed ${seed}`)
  console.log(`${results.length - failed} passed, ${failed} failed`)
  process.exitCode = failed > 0 ? 1 : 0
}

/**
 * The parts that fit into the requested hours, the others, and the fraction of cases that the
 * divisible parts can run. Whole parts may use half of the time.
 */
function within(chosen) {
  if (options.hours === undefined) {
    return { parts: chosen, left: [], fraction: 1 }
  }
  const minutes = 60 * number('hours', options.hours, 0)
  let forWhole = minutes / 2
  const left = []
  for (const part of chosen.filter(({ isWhole }) => isWhole)) {
    if (part.minutes > forWhole) {
      left.push(part)
    } else {
      forWhole -= part.minutes
    }
  }
  const sum = (parts) => parts.reduce((total, part) => total + part.minutes, 0)
  const parts = chosen.filter((part) => !left.includes(part))
  const divisible = sum(parts.filter(({ isWhole }) => !isWhole))
  const whole = sum(parts) - divisible
  return { parts, left, fraction: Math.min(1, (minutes - whole) / Math.max(divisible, 1)) }
}

function number(name, text, min) {
  const value = Number(text)
  if (
    text.trim() === '' ||
    !Number.isFinite(value) ||
    value < min ||
    (name === 'seed' && !Number.isSafeInteger(value))
  ) {
    throw new Error(`--${name} must be a number from ${min}, got ${JSON.stringify(text)}`)
  }
  return value
}
