/**
 * Puts defects into the sources one by one, and checks that the simulation finds each.
 *
 *     node simulation/mutations.mjs [NAME]...
 *
 * It edits the sources, or dist/, in place and restores them. They must be unchanged since the last commit.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { transformSync } from 'esbuild'
import { build } from '../scripts/build.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))

/** The seeds that each mutation gets: those of the gate. */
const SEEDS = { connections: '500', calls: '100' }

const SENDER = 'src/redis/connection/sender.rs'
const ROUTER = 'src/redis/cluster/router.rs'
const SENT_FLUSH = 'ts/wasm/redis/sent-flush.ts'
const TRANSPORT = 'ts/wasm/redis/flush-transport.ts'
const FALLBACK = 'ts/backends/fallback/fallback-backend.ts'

/** By name: the file, the current text, and the defective text. */
const MUTATIONS = {
  'a resend after an unknown result': [
    SENDER,
    `            state.report_broken(session_id);
            return pending.fail(&ScriptFailure::Broken(why));`,
    `            state.report_broken(session_id);
            let _ = why;
            return Some(pending);`,
  ],
  "a proxy's error that is taken for a refusal": [
    'src/redis/batch/pending_calls.rs',
    'Self::MayHaveRun => ScriptFailure::Failed(text.into()),',
    'Self::MayHaveRun => ScriptFailure::Refused(text.into()),',
  ],
  'a dropped deadline': [
    SENDER,
    'timeout_at(pending.deadline, &mut sending).await',
    'timeout_at(pending.deadline + RETRY_PAUSE * 1_000, &mut sending).await',
  ],
  'a swapped order': [
    SENDER,
    'for mut pending in std::mem::take(&mut retries) {',
    'for mut pending in std::mem::take(&mut retries).into_iter().rev() {',
  ],
  'a new request before the requests that are sent again': [
    SENDER,
    'let may_start = retries.is_empty() && in_flight.len() < MAX_IN_FLIGHT;',
    'let may_start = in_flight.len() < MAX_IN_FLIGHT;',
  ],
  'in a cluster, a resend after an unknown result': [
    ROUTER,
    `                    self.queues.complete(slot, []);
                    self.fail(request, &failure);
                    self.advance(slot);`,
    `                    let _ = &failure;
                    self.queues.complete(slot, [request]);
                    self.advance(slot);`,
  ],
  'in a cluster, a swapped order': [
    'src/redis/cluster/slot_queues.rs',
    'while let Some(request) = queue.retries.pop_back() {',
    'while let Some(request) = queue.retries.pop_front() {',
  ],
  'in a cluster, a call that is sent again after its deadline': [
    ROUTER,
    'if request.is_reported() {\n            self.queues',
    'if false {\n            self.queues',
  ],
  'through a client, a resend after an unknown result': [
    SENT_FLUSH,
    'this.#flush.onError(index, message, systemCode)',
    "this.#flush.onError(index, systemCode === 'ECONNRESET' ? 'LOADING' : message, systemCode)",
  ],
  'through a client, a dropped deadline': [
    SENT_FLUSH,
    'this.#timer = timers.setTimeout(() => this.#expire(), timeoutMs)',
    'this.#timer = timers.setTimeout(() => this.#expire(), timeoutMs * 4)',
  ],
  'through a client, a swapped order': [
    TRANSPORT,
    "const first = this.#pending.find(({ sent }) => sent.state === 'retry')",
    "const first = [...this.#pending].reverse().find(({ sent }) => sent.state === 'retry')",
  ],
  'through a client without order, a call that does not wait for the earlier one': [
    TRANSPORT,
    "if (sent.state === 'waiting' && !(before && sent.keys.some((key) => before.has(key)))) {",
    "if (sent.state === 'waiting') {",
  ],
  'a dropped deadline of the batcher': [
    'ts/backends/redis/batching/deadlines.ts',
    'const GRACE_MS = 40',
    'const GRACE_MS = 400',
  ],
  'a lease that is used after its end': [
    'ts/backends/local/lease.ts',
    'this.until = sentAt + lastsMs * (1 - CLOCK_MARGIN)',
    'this.until = sentAt + 20 * lastsMs * (1 - CLOCK_MARGIN)',
  ],
  'a refusal that is cached for too long': [
    'ts/backends/local/refusal-cache.ts',
    'const until = sentAt + Math.min(retryAfterMs - 1, this.#maxMs)',
    'const until = sentAt + (retryAfterMs > 0 ? this.#maxMs : 0)',
  ],
  'a permit that is held after its loss': [
    'ts/api/held-permit.ts',
    'if (isAboutToExpire({ expiresMs, since: this.#renewedAt }, now)) {',
    'if (isAboutToExpire({ expiresMs: 9 * expiresMs, since: this.#renewedAt }, now)) {',
  ],
  'a permit whose answer comes after its life': [
    'ts/api/permit-pool.ts',
    "decision.source !== 'none' && isAboutToExpire(asked, this.#time.elapsedMs())",
    "decision.source === 'fallback' && isAboutToExpire(asked, this.#time.elapsedMs())",
  ],
  'a fallback that answers although the store has answered': [
    FALLBACK,
    'return Promise.resolve(callStore()).then(onStoreResult, useFallback)',
    'return Promise.resolve(callStore()).then(Math.random() < 0.9 ? onStoreResult : callFallback, useFallback)',
  ],
}

if (execFileSync('git', ['status', '--porcelain', 'src', 'lua', 'ts'], { cwd: ROOT, encoding: 'utf8' }) !== '') {
  throw new Error('src, lua or ts have changes that are not committed')
}
build({ wasm: true })
const requested = process.argv.slice(2)
const names = requested.length > 0 ? requested : Object.keys(MUTATIONS)
let missed = 0
for (const name of names) {
  const found = findingOf(MUTATIONS[name] ?? fail(`no mutation is named ${JSON.stringify(name)}`))
  missed += found === undefined ? 1 : 0
  console.log(
    `${found === undefined ? 'MISSED' : 'found '}  ${name}${found === undefined ? '' : `: ${found.slice(0, 160)}`}`,
  )
}
console.log(`${names.length - missed} of ${names.length} found within the seeds of the gate`)
process.exitCode = missed > 0 ? 1 : 0

/** The first violation that the simulation finds in the mutated sources. */
function findingOf([file, text, other]) {
  const source = readFileSync(join(ROOT, file), 'utf8')
  const mutated = source.includes(text) ? source.replace(text, () => other) : fail(`${file} has no ${text}`)
  const isTypeScript = file.startsWith('ts/')
  // Node runs what was compiled. Types do not matter to the simulation.
  const path = join(ROOT, isTypeScript ? file.replace(/^ts/, 'dist').replace(/ts$/, 'js') : file)
  const original = readFileSync(path, 'utf8')
  const compiled = () => transformSync(mutated, { loader: 'ts', format: 'cjs', target: 'node20' }).code
  const program = isTypeScript
    ? ['simulation/calls/main.mjs', '--first', '--seeds', SEEDS.calls]
    : ['scripts/simulate.mjs', '--part', 'connections', '--seeds', SEEDS.connections]
  try {
    writeFileSync(path, isTypeScript ? compiled() : mutated)
    const options = { cwd: ROOT, encoding: 'utf8', maxBuffer: 1 << 30 }
    const { status, stdout, stderr } = spawnSync(process.execPath, program, options)
    const finding = /^seed \d+: \d+ violations; the first: .*$/m.exec(stdout)?.[0]
    if (status !== 0 && finding === undefined) {
      throw new Error(`${stdout}${stderr}`)
    }
    return finding
  } finally {
    writeFileSync(path, original)
  }
}

function fail(reason) {
  throw new Error(reason)
}
