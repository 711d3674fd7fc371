/**
 * Puts defects into the resend logic one by one, and checks that the simulation finds each.
 *
 *     node simulation/mutations.mjs [NAME]...
 *
 * It edits the sources in place and restores them. They must be unchanged since the last commit.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))

/** The seeds that each mutation gets. */
const SEEDS = '1000'

const SENDER = 'src/redis/connection/sender.rs'
const ROUTER = 'src/redis/cluster/router.rs'

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
}

if (execFileSync('git', ['status', '--porcelain', 'src', 'lua'], { cwd: ROOT, encoding: 'utf8' }) !== '') {
  throw new Error('src or lua have changes that are not committed')
}
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
console.log(`${names.length - missed} of ${names.length} found within ${SEEDS} seeds`)
process.exitCode = missed > 0 ? 1 : 0

/** The first violation that the simulation finds in the mutated sources. */
function findingOf([file, text, other]) {
  const path = join(ROOT, file)
  const source = readFileSync(path, 'utf8')
  try {
    writeFileSync(path, source.includes(text) ? source.replace(text, () => other) : fail(`${file} has no ${text}`))
    const args = [join(ROOT, 'scripts', 'simulate.mjs'), '--seeds', SEEDS]
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', maxBuffer: 1 << 30 })
    const finding = /^seed \d+: \d+ violations; the first: .*$/m.exec(stdout)?.[0]
    if (status !== 0 && finding === undefined) {
      throw new Error(`${stdout}${stderr}`)
    }
    return finding
  } finally {
    writeFileSync(path, source)
  }
}

function fail(reason) {
  throw new Error(reason)
}
