/** Defects of connections and clusters. The simulation of connections finds each within the seeds of the gate. */

const SENDER = 'src/redis/connection/sender.rs'
const ROUTER = 'src/redis/cluster/router.rs'

export default {
  'a resend after an unknown result': [
    SENDER,
    `            return pending.fail(&failure);
        }
    };`,
    `            let _ = failure;
            return Some(pending);
        }
    };`,
  ],
  "a proxy's error that is taken for a refusal": [
    'src/redis/batch/pending_calls.rs',
    'Self::MayHaveRun => ScriptFailure::Failed(text.into()),',
    'Self::MayHaveRun => ScriptFailure::Refused(text.into()),',
  ],
  'a dropped deadline': [
    SENDER,
    'timeout_at(pending.request.deadline, &mut sending).await',
    'timeout_at(pending.request.deadline + RETRY_PAUSE * 1_000, &mut sending).await',
  ],
  'a swapped order': [
    SENDER,
    'for mut pending in mem::take(&mut retries) {',
    'for mut pending in mem::take(&mut retries).into_iter().rev() {',
  ],
  'a new request before the requests that are sent again': [
    SENDER,
    'let may_start = retries.is_empty() && in_flight.len() < MAX_IN_FLIGHT;',
    'let may_start = in_flight.len() < MAX_IN_FLIGHT;',
  ],
  'in a cluster, a resend after an unknown result': [
    ROUTER,
    `                    self.queues.complete(slot, []);
                    self.fail(request.part, &failure);
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
    'if request.part.is_reported {\n            self.queues',
    'if false {\n            self.queues',
  ],
}
