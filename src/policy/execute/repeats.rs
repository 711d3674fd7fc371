//! Calls that may be repeated: see
//! [`Operation::Repeatable`](crate::policy::operation::Operation::Repeatable).
//!
//! The decisions on the first calls are stored with the key of the first policy, beside its holds. A
//! refused call has charged nothing and is not stored, so that a later call with its identifier can be
//! admitted.

use std::sync::Arc;

use super::{Execution, FirstCall, KeyMetadata, PolicyEntry, holds, permits, take};
use crate::algorithm::PermitRequest;
use crate::policy::multi_policy::Response;
use crate::policy::operation::{HoldId, NewHold, RepeatableCall, permit_of};
use crate::policy::policy_set::PolicySet;
use crate::policy::units::Units;
use crate::time::{Micros, end_of};

/// The kind of a call, the length of its identifier, and the identifier. The script sorts by the same
/// bytes.
pub(super) type CallKey = Box<[u8]>;

/// The calls of a key that may be repeated. Some may have expired.
///
/// Both lists are sorted. With 10,000 calls, an insertion moves 80 kB; trees would take five kilobytes
/// of WebAssembly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RememberedCalls {
    by_key: Vec<Arc<RememberedCall>>,
    by_end: Vec<Arc<RememberedCall>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RememberedCall {
    pub(super) key: CallKey,
    /// From this time on the call is decided anew.
    pub(super) expires_at: Micros,
    /// The first decision.
    response: Response,
    /// The units that were charged.
    units: Units,
    /// The hold, and its end.
    hold: Option<(HoldId, Micros)>,
}

/// An index of a sorted list.
type Index = Result<usize, usize>;

impl RememberedCalls {
    /// The time from which all have expired.
    pub(super) fn end(&self) -> Micros {
        self.by_end.last().map_or(0, |call| call.expires_at)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_end.is_empty()
    }

    /// The number of calls.
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// The number of calls that have not expired.
    #[must_use]
    pub fn open(&self, now: Micros) -> usize {
        self.by_end.len() - self.by_end.partition_point(|call| call.expires_at <= now)
    }

    /// Those that have expired, the earliest first.
    pub(super) fn ended(&self, now: Micros) -> impl Iterator<Item = &Arc<RememberedCall>> {
        self.by_end.iter().take_while(move |call| call.expires_at <= now)
    }

    pub(super) fn remove(&mut self, key: &[u8]) {
        if let Ok(index) = self.index_of(key) {
            let call = self.by_key.remove(index);
            if let Ok(index) = self.end_index_of(&call) {
                self.by_end.remove(index);
            }
        }
    }

    /// Adds a call whose key is new.
    fn insert(&mut self, call: RememberedCall) {
        let call = Arc::new(call);
        let (Ok(index) | Err(index)) = self.index_of(&call.key);
        self.by_key.insert(index, Arc::clone(&call));
        let (Ok(index) | Err(index)) = self.end_index_of(&call);
        self.by_end.insert(index, call);
    }

    fn index_of(&self, key: &[u8]) -> Index {
        self.by_key.binary_search_by(|call| (*call.key).cmp(key))
    }

    fn end_index_of(&self, call: &RememberedCall) -> Index {
        self.by_end.binary_search_by(|other| {
            other.expires_at.cmp(&call.expires_at).then_with(|| other.key.cmp(&call.key))
        })
    }
}

impl RepeatableCall {
    fn key(&self) -> CallKey {
        let length = u8::try_from(self.id.len()).unwrap_or(u8::MAX);
        [&[self.kind(), length], &self.id[..]].concat().into_boxed_slice()
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
    let RepeatableCall { lasting, cost, hold, request, .. } = call;
    let executed = match (*hold, *request) {
        (Some((id, lasting)), Some(request)) => {
            let hold = Some(NewHold { id, lasting }).filter(|hold| hold.lasting > 0);
            permits::acquire(policies, entries, now, cost, (request, hold))
        }
        (Some(hold), None) => holds::reserve(policies, entries, now, cost, hold),
        (None, _) => take(policies, entries, now, cost, policies.ban()),
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
    if let (Some((id, _)), Some((_, lasting)), Some(request)) = (hold, call.hold, call.request) {
        if let Some(refused) = hold_permit(policies, entries, now, &units, (id, request)) {
            return Some(refused);
        }
        holds::renew(entries, now, (id, lasting));
    }
    let hold = hold.map(|(id, end)| {
        // It may have been renewed.
        let current = holds::find(entries, now, id).map_or(end, |hold| hold.expires_at);
        (id, current)
    });
    Some(Execution::repeating(response, FirstCall { units, hold, repeated_at: now }))
}

/// Renews the permit of a hold. If it is no longer held, takes it again under the policies for
/// concurrency alone, and returns the refusal if they refuse it. A call that waits has a ticket of its own
/// number, because others may wait for the same permit.
fn hold_permit(
    policies: &PolicySet,
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    units: &Units,
    (hold, request): (HoldId, PermitRequest),
) -> Option<Execution> {
    let permit = permit_of(&hold);
    entries.iter_mut().for_each(|entry| entry.repair(now));
    if permits::renew(entries, now, permit) == Some(true) {
        // The call waits no more.
        permits::drop_ticket(entries, now, request.id);
        return None;
    }
    // It may still be held under one of several policies.
    permits::release(entries, now, permit);
    let cost = policies.only_permits(units);
    let executed = permits::acquire(policies, entries, now, &cost, (request, None));
    if executed.units < cost.when_charged() {
        return Some(executed);
    }
    permits::rename(entries, now, (request.id, permit));
    None
}
