/**
 * Puts defects into the resend logic one by one, and checks that the simulation finds each.
 *
 *     node simulation/mutations.mjs [NAME]...
 *
 * It edits the sources in place and restores them. They must be unchanged since the last commit.
 */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { tryMutations } from '../scripts/test/mutations.mjs'

const SIMULATE = fileURLToPath(new URL('../scripts/simulate.mjs', import.meta.url))

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

tryMutations(MUTATIONS, process.argv.slice(2), () => {
  const args = [SIMULATE, '--seeds', SEEDS]
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', maxBuffer: 1 << 30 })
  const finding = /^seed \d+: \d+ violations; the first: .*$/m.exec(stdout)?.[0]
  if (status !== 0 && finding === undefined) {
    throw new Error(`${stdout}${stderr}`)
  }
  return finding
})
