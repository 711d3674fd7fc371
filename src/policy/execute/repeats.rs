//! Calls that may be repeated: see
//! [`Operation::Repeatable`](crate::policy::operation::Operation::Repeatable).
//!
//! The decisions on the first calls are stored with the key of the first policy, beside its holds. A
//! refused call has charged nothing and is not stored, so that a later call with its identifier can be
//! admitted.

use super::stored::{CallKey, RememberedCall, RememberedCalls};
use super::{Execution, FirstCall, KeyMetadata, PolicyEntry, holds, permits, take};
use crate::algorithm::PermitRequest;
use crate::policy::operation::{HoldId, NewHold, RepeatableCall, permit_of};
use crate::policy::policy_set::PolicySet;
use crate::policy::units::Units;
use crate::time::{Micros, end_of};

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
