//! Calls that may be repeated: see
//! [`Operation::Repeatable`](crate::policy::operation::Operation::Repeatable).
//!
//! The decisions on the first calls are stored with the key of the first policy, beside its holds. A
//! refused call has charged nothing and is not stored, so that a later call with its identifier can be
//! admitted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Execution, FirstCall, KeyMetadata, PolicyEntry, holds, take};
use crate::policy::multi_policy::Response;
use crate::policy::operation::{HoldId, RepeatableCall};
use crate::policy::policy_set::PolicySet;
use crate::policy::units::Units;
use crate::protocol::operation;
use crate::time::{Micros, end_of};

/// The kind of a call, the length of its identifier, and the identifier. The script sorts by the same
/// bytes.
pub(super) type CallKey = Arc<[u8]>;

/// The calls of a key that may be repeated. Some may have expired.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RememberedCalls {
    calls: BTreeMap<CallKey, RememberedCall>,
    /// The ends of all calls, in order.
    ends: BTreeSet<(Micros, CallKey)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct RememberedCall {
    /// From this time on the call is decided anew.
    expires_at: Micros,
    /// The first decision.
    response: Response,
    /// The units that were charged.
    units: Units,
    /// The hold, and its end.
    hold: Option<(HoldId, Micros)>,
}

impl RememberedCalls {
    /// The time from which all have expired.
    pub(super) fn end(&self) -> Micros {
        self.ends.last().map_or(0, |(end, _)| *end)
    }

    /// The number of calls.
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// The number of calls that have not expired.
    #[must_use]
    pub fn open(&self, now: Micros) -> usize {
        self.calls.len() - self.ended(now).count()
    }

    /// Those that have expired, the earliest first.
    pub(super) fn ended(&self, now: Micros) -> impl Iterator<Item = &(Micros, CallKey)> {
        self.ends.iter().take_while(move |(end, _)| *end <= now)
    }

    pub(super) fn remove(&mut self, key: &CallKey) {
        if let Some(call) = self.calls.remove(key) {
            self.ends.remove(&(call.expires_at, Arc::clone(key)));
        }
    }

    fn insert(&mut self, key: CallKey, call: RememberedCall) {
        self.ends.insert((call.expires_at, Arc::clone(&key)));
        self.calls.insert(key, call);
    }
}

impl RepeatableCall {
    fn key(&self) -> CallKey {
        let kind = if self.hold.is_some() { operation::RESERVE } else { operation::TAKE };
        let length = u8::try_from(self.id.len()).unwrap_or(u8::MAX);
        [&[kind, length], &self.id[..]].concat().into()
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
        let call = calls.calls.get(&self.key()).filter(|call| call.expires_at > now)?;
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
            expires_at: end_of(now, *lasting),
            response: executed.response.clone(),
            units: cost.clone(),
            hold: hold.map(|(id, lasting)| (id, end_of(now, lasting))),
        };
        metadata.repeats.get_or_insert_default().insert(key, remembered);
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
