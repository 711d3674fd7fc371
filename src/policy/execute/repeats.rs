//! Calls that may be repeated: see
//! [`Operation::Repeatable`](crate::policy::operation::Operation::Repeatable).
//!
//! The decisions on the first calls are stored with the key of the first policy, beside its holds. A
//! refused call has charged nothing and is not stored, so that a later call with its identifier can be
//! admitted.

use super::stored::{CallKey, RememberedCall, RememberedCalls};
use super::{Execution, FirstCall, KeyMetadata, PolicyEntry, holds, take};
use crate::policy::operation::RepeatableCall;
use crate::policy::policy_set::PolicySet;
use crate::protocol::operation;
use crate::time::{Micros, end_of};

impl RepeatableCall {
    fn key(&self) -> CallKey {
        let kind = if self.hold.is_some() { operation::RESERVE } else { operation::TAKE };
        let length = u8::try_from(self.id.len()).unwrap_or(u8::MAX);
        [&[kind, length], &self.id[..]].concat().into_boxed_slice()
    }

    /// Whether the first call is remembered in a key's metadata.
    pub(crate) fn is_repeated(
        &self,
        policies: &PolicySet,
        metadata: &KeyMetadata,
        now: Micros,
    ) -> bool {
        let calls = metadata.repeats.as_ref();
        calls.is_some_and(|calls| self.find(policies, calls, now).is_some())
    }

    /// The first call, if it has not expired. Policies of another number of limits have no use for it.
    fn find<'a>(
        &self,
        policies: &PolicySet,
        calls: &'a RememberedCalls,
        now: Micros,
    ) -> Option<&'a RememberedCall> {
        let call = &calls.by_key[calls.index_of(&self.key()).ok()?];
        if call.expires_at <= now {
            return None;
        }
        let limits = call.response.limits.as_ref().map_or(0, |reports| reports.limits.len());
        (limits == policies.named_limits() && call.units.is_like(&self.cost)).then_some(call)
    }
}

/// See [`Operation::Repeatable`](crate::policy::operation::Operation::Repeatable).
pub(super) fn execute(
    policies: &PolicySet,
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    call: &RepeatableCall,
) -> Execution {
    if let Some(executed) = repeat(policies, entries, now, call) {
        entries.iter_mut().for_each(|entry| entry.repair(now));
        return executed;
    }
    let RepeatableCall { lasting, cost, hold, .. } = call;
    let executed = match hold {
        Some(hold) => holds::reserve(policies, entries, now, cost, *hold),
        None => take(policies, entries, now, cost, policies.ban()),
    };
    if executed.units > 0
        && let Some(metadata) = holds::metadata(entries)
    {
        let key = call.key();
        let mut calls = metadata.repeats.take().unwrap_or_default();
        // One that has expired, or that was made under other policies.
        calls.remove(&key);
        metadata.repeats = Some(calls);
        holds::drop_ended(metadata, now);
        let remembered = RememberedCall {
            key,
            expires_at: end_of(now, *lasting),
            response: executed.response.clone(),
            units: cost.clone(),
            hold: hold.map(|(id, lasting)| (id, end_of(now, lasting))),
        };
        metadata.repeats.get_or_insert_default().insert(remembered);
    }
    executed
}

/// The result of the first call, if it is remembered.
fn repeat(
    policies: &PolicySet,
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    call: &RepeatableCall,
) -> Option<Execution> {
    let calls = holds::metadata(entries)?.repeats.as_ref()?;
    let RememberedCall { response, units, hold, .. } = call.find(policies, calls, now)?;
    let (response, hold) = (response.clone(), *hold);
    // A single number may be that of the only policy.
    let units = call.cost.with_numbers(|policy| units.of(policy));
    let hold = hold.map(|(id, end)| {
        // It may have been renewed.
        let current = holds::find(entries, now, id).map_or(end, |hold| hold.expires_at);
        (id, current)
    });
    Some(Execution::repeating(response, FirstCall { units, hold }))
}
