//! Executes an operation on a key, or on several keys that are decided together.
//!
//! This code is pure, like the algorithms: a store calls it under its locks, and the Lua scripts
//! are tested against it.
//!
//! **Several policies** all charge a call, or none does. Each policy normalizes its state and
//! decides by itself. If all admit the cost and no key is blocked, all charge it; otherwise none
//! does.
//!
//! **Costs by policy.** Each policy decides on its own cost and charges it. One whose cost is 0 admits
//! the call and charges nothing, but a block of its key refuses the call, too.
//!
//! **A block** refuses every call until it ends. Charged units stay charged, drain, and may be
//! refunded or added to meanwhile. A call that a block refuses is not counted, even where refused
//! calls count.
//!
//! **An override** replaces the limiter's numbers until it ends. When it starts, and by the first call
//! after its end, the state is read as for changed numbers.
//!
//! **A ban** is a block that a key gets for refused calls: see [`BanRule`]. A reset forgets strikes
//! and bans; the end of a block does not.
//!
//! **Owed units** are paid before each operation on their key, and after one that gives units back: see
//! [`crate::policy::owed`].
//!
//! **A reset, a block and an override** concern the key, whichever [variant](crate::policy::variants) of
//! the policies decides on it. So they, and their ends, pay no owed units, and leave a state whose repair
//! would rewrite units of calls to the next call: a window that ends too late for one variant may be that
//! of another one, whose window is longer.
//!
//! A block, an override and a ban end at a fixed time. A clock that steps back makes them last longer by
//! the step: the caller chooses their length, so an end far ahead is not a sign of a clock step. The
//! first operation after the end, unless it is a peek, drops what has ended. From then on it does not
//! come back, even if the clock steps back.

use crate::algorithm::{
    Algorithm as _, Concurrency, LimitStatuses, Outcome, PermitRequest, Preview, Rewrites,
};
use crate::policy::ban::{BanRecord, BanRule};
use crate::policy::multi_policy::{PolicyOutcome, Response};
use crate::policy::operation::{Operation, permit_of};
use crate::policy::owed::Owed;
use crate::policy::policy_set::{NamedPolicy, PolicySet};
use crate::policy::units::Units;
use crate::policy::{Policy, State};
use crate::time::{Micros, end_of};

mod execution;
pub mod holds;
mod metadata;
mod moved_units;
mod owed;
mod permits;
pub mod repeats;
mod scheduled;
mod stored;

use moved_units::{MovedUnits, refund_charge};
use owed::{charge_or_owe, peek_as_paid};

pub use execution::{Execution, FirstCall, MoreUnits, SettledUnits};
use metadata::override_until;
pub use metadata::{KeyMetadata, Override};
pub use stored::{Hold, LATE, RememberedCalls};

/// The state and metadata of a key under one policy, to change in place.
#[derive(Debug)]
pub struct KeyEntry<'a> {
    /// The state.
    pub state: &'a mut State,
    /// The block, the override and the bans.
    pub metadata: &'a mut KeyMetadata,
    /// Whether refusals may be strikes. A store may lack the capacity, or the state may be shared.
    pub may_strike: bool,
    /// Whether units may be owed. A store may lack the capacity.
    pub may_owe: bool,
    /// Whether the state also counts the units of other keys. Then nothing is refunded.
    pub is_shared: bool,
}

/// Executes an operation on the keys of the policies, in their order, at the time `now`.
///
/// At least one policy has a key. A policy without a key does not take part. An operation's data
/// per policy (a [`ChargeRecord`](crate::algorithm::ChargeRecord), an override's numbers) is indexed
/// by the policy's number, whether or not the policy has a key. Without such data nothing is
/// refunded or changed. Numbers of another algorithm are ignored: see
/// [`PolicySet::check_override`].
pub fn execute(
    policies: &PolicySet,
    parts: &mut [Option<KeyEntry<'_>>],
    now: Micros,
    operation: &Operation,
) -> Execution {
    let mut entries = entries(policies, parts);
    let concerns_key_alone = operation.concerns_key_alone();
    if !matches!(operation, Operation::Peek { .. }) {
        for entry in &mut entries {
            entry.part.metadata.drop_ended(now);
            entry.part.state.drop_ended_mark(now);
            if concerns_key_alone {
                entry.repair_own(now);
            } else {
                entry.pay(now);
            }
        }
    }
    let mut more = MoreUnits::default();
    let units = match operation {
        Operation::Take { cost } => {
            return take(policies, &mut entries, now, cost, policies.ban());
        }
        Operation::Reserve { cost, hold, lasting } => {
            return holds::reserve(policies, &mut entries, now, cost, (*hold, *lasting));
        }
        Operation::Repeatable(call) => {
            return repeats::execute(policies, &mut entries, now, call);
        }
        Operation::Extend { hold, cost, lasting } => {
            let hold = (*hold, *lasting);
            if let Some(execution) = holds::extend(policies, &mut entries, now, cost, hold) {
                return execution;
            }
            entries.iter_mut().for_each(|entry| entry.repair(now));
            more.held = Some(cost.none());
            0
        }
        Operation::TakeUpTo { units } => return take_up_to(policies, &mut entries, now, *units),
        Operation::Peek { cost } => {
            let response = peek_as_paid(policies, &mut entries, now, cost);
            return Execution::new(response, 0);
        }
        Operation::Settle { hold, actual, charges } => {
            entries.iter_mut().for_each(|entry| entry.repair(now));
            let settled = holds::settle(policies, &mut entries, now, *hold, actual, charges);
            permits::release(&mut entries, now, permit_of(hold));
            let settled = settled.unwrap_or_else(|| holds::Settled::none(actual));
            let units = settled.moved.most();
            more = settled.into_more_units(policies, actual);
            units
        }
        Operation::Acquire { cost, request, hold } => {
            return permits::acquire(policies, &mut entries, now, cost, (*request, *hold));
        }
        Operation::Release { permit } => {
            entries.iter_mut().for_each(|entry| entry.repair(now));
            u64::from(permits::release(&mut entries, now, *permit))
        }
        Operation::RenewPermit { permit } => {
            entries.iter_mut().for_each(|entry| entry.repair(now));
            u64::from(permits::renew(&mut entries, now, *permit).unwrap_or(false))
        }
        Operation::Renew { hold, lasting } => {
            entries.iter_mut().for_each(|entry| entry.repair(now));
            let is_renewed = holds::renew(&mut entries, now, (*hold, *lasting));
            match (is_renewed, permits::renew(&mut entries, now, permit_of(hold))) {
                (true, None | Some(true)) => 1,
                (false, Some(true)) => 2,
                (true, Some(false)) => 3,
                (false, None | Some(false)) => 0,
            }
        }
        Operation::Penalize { units } => {
            let limit_of = |number| policies.owed_penalty_limit(number);
            let charged = charge_or_owe(&mut entries, now, units, limit_of).moved;
            more.moved = charged.by_policy(policies, units);
            charged.most()
        }
        Operation::Refund { units, taken } => {
            let mut refunded = MovedUnits::default();
            for entry in &mut entries {
                let units = units.of(entry.number);
                refunded.add(entry.number, refund_charge(entry, now, units, taken));
            }
            more.moved = refunded.by_policy(policies, units);
            refunded.most()
        }
        Operation::Schedule { cost, max_wait } => {
            return scheduled::schedule(policies, &mut entries, now, cost, *max_wait);
        }
        Operation::CancelScheduled { scheduled } => scheduled::cancel(&mut entries, now, scheduled),
        Operation::Reset => {
            for PolicyEntry { own, part, .. } in &mut entries {
                *part.state = own.reset(part.state, now);
                part.metadata.blocked_until = 0;
                part.metadata.bans = BanRecord::default();
                part.metadata.owed = Owed::default();
                part.metadata.holds.clear();
                part.metadata.repeats = None;
            }
            0
        }
        Operation::Block { lasting } => {
            let end = end_of(now, *lasting);
            for PolicyEntry { part, .. } in &mut entries {
                part.metadata.blocked_until = part.metadata.blocked_until.max(end);
                part.metadata.drop_ended(now);
            }
            0
        }
        Operation::Unblock => {
            entries.iter_mut().for_each(|entry| entry.part.metadata.blocked_until = 0);
            0
        }
        Operation::Override { policies, lasting } => {
            override_until(&mut entries, now, policies, end_of(now, *lasting));
            0
        }
        Operation::ClearOverride => {
            for entry in &mut entries {
                entry.part.metadata.numbers = None;
                entry.repair_own(now);
            }
            0
        }
    };
    if !concerns_key_alone {
        // Units that came back may pay more of the owed units.
        entries.iter_mut().for_each(|entry| entry.pay(now));
    }
    Execution::new(peek(policies, &entries, now), units).with_more(more)
}

/// A policy and its key.
struct PolicyEntry<'s, 'a> {
    number: usize,
    /// The limiter's numbers.
    own: &'s Policy,
    part: &'s mut KeyEntry<'a>,
    /// The cost of the call under this policy.
    cost: u64,
    /// The call for a permit, if the operation is one.
    request: Option<PermitRequest>,
}

impl PolicyEntry<'_, '_> {
    /// The policy in force.
    fn policy(&self, now: Micros) -> &Policy {
        self.part.metadata.in_force(self.own, now)
    }

    /// The policy in force, and the state for it to change.
    fn policy_and_state(&mut self, now: Micros) -> (&Policy, &mut State) {
        (self.part.metadata.in_force(self.own, now), self.part.state)
    }

    fn normalize(&mut self, now: Micros) {
        let (policy, state) = self.policy_and_state(now);
        policy.normalize(state, now);
    }

    /// Normalizes the state before a call with a cost. A cost of 0 only repairs it.
    fn prepare(&mut self, now: Micros, cost: u64) {
        if cost > 0 { self.normalize(now) } else { self.repair(now) }
    }

    /// Repairs the state. If an override shortens a window, the window then ends one window after the
    /// override, and not after the next call.
    fn repair(&mut self, now: Micros) {
        let (policy, state) = self.policy_and_state(now);
        policy.charge(state, now, 0);
    }

    /// Repairs the state unless that rewrites the units of earlier calls.
    fn repair_own(&mut self, now: Micros) {
        if self.policy(now).rewrites(self.part.state, now) != Rewrites::Always {
            self.repair(now);
        }
    }

    /// Charges a cost, if it fits.
    fn charge(&mut self, now: Micros, cost: u64) -> Outcome {
        let request = self.request;
        // An override changes the limit alone: holders renew permits by the limiter's numbers.
        let length = self.own.concurrency().map_or(0, Concurrency::expires);
        let (policy, state) = self.policy_and_state(now);
        if let (Policy::Concurrency(own), State::Permits(permits)) = (policy, &mut *state) {
            own.normalize(permits, now);
            let outcome = own.outcome_of(permits, now, cost, request);
            if outcome == Outcome::Admitted && cost > 0 {
                // A take has no request, and its permit no number.
                own.acquire(permits, now, cost, request.map_or(0, |request| request.id), length);
            }
            return outcome;
        }
        policy.charge(state, now, cost)
    }

    fn is_blocked(&self, now: Micros) -> bool {
        self.part.metadata.blocked_until > now
    }

    /// The outcome that a cost would have. The state has been normalized.
    fn outcome(&self, now: Micros, cost: u64) -> Outcome {
        if let (Policy::Concurrency(own), State::Permits(permits)) =
            (self.policy(now), &*self.part.state)
        {
            return own.outcome_of(permits, now, cost, self.request);
        }
        self.policy(now).outcome(self.part.state, now, cost)
    }

    /// The largest cost that the policy would admit. The state has been normalized.
    fn remaining(&self, now: Micros) -> u64 {
        self.policy(now).remaining(self.part.state, now)
    }

    /// The policy's outcome, with the status of its limits now.
    fn policy_outcome(&self, now: Micros, outcome: Outcome) -> PolicyOutcome {
        self.outcome_by(self.part.state, now, outcome)
    }

    fn outcome_by(&self, state: &State, now: Micros, outcome: Outcome) -> PolicyOutcome {
        let cost = self.cost;
        let owed = self.part.metadata.owed;
        let statuses = match (self.policy(now), state, self.request) {
            (policy, ..) if owed.units > 0 => owed.statuses(policy, state, now, cost, outcome),
            (Policy::Concurrency(own), State::Permits(permits), Some(request)) => {
                let status = own.status_for(permits, now, cost, outcome, request.id);
                LimitStatuses::from_iter([status])
            }
            (policy, ..) => policy.limit_statuses(state, now, cost, outcome),
        };
        self.outcome_of(now, outcome, statuses)
    }

    fn outcome_of(&self, now: Micros, outcome: Outcome, statuses: LimitStatuses) -> PolicyOutcome {
        let KeyMetadata { blocked_until, bans, .. } = *self.part.metadata;
        let changes_at = self.part.metadata.override_at(now).map(|numbers| numbers.until);
        let ban_step = bans.step_of(blocked_until);
        let cost = self.cost;
        PolicyOutcome { cost, outcome, blocked_until, ban_step, changes_at, statuses }
    }

    /// Counts a strike. It may ban the key.
    fn strike(&mut self, rule: &BanRule, now: Micros) {
        if self.part.may_strike {
            let metadata = &mut *self.part.metadata;
            let changes_at = metadata.override_at(now).map(|numbers| numbers.until);
            if let Some(until) = rule.strike(&mut metadata.bans, now, changes_at) {
                metadata.blocked_until = until;
            }
        }
    }
}

fn entries<'s, 'a>(
    policies: &'s PolicySet,
    parts: &'s mut [Option<KeyEntry<'a>>],
) -> Vec<PolicyEntry<'s, 'a>> {
    let numbered = policies.named().iter().zip(parts).enumerate();
    let entry = |(number, (NamedPolicy { policy, .. }, part)): (usize, (&'s NamedPolicy, _))| {
        let part: &'s mut Option<KeyEntry<'a>> = part;
        part.as_mut().map(|part| PolicyEntry { number, own: policy, part, cost: 0, request: None })
    };
    numbered.filter_map(entry).collect()
}

/// Sets the cost of the call under each policy.
fn set_cost(entries: &mut [PolicyEntry<'_, '_>], cost: &Units) {
    entries.iter_mut().for_each(|entry| entry.cost = cost.of(entry.number));
}

fn take(
    policies: &PolicySet,
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    cost: &Units,
    ban: Option<&BanRule>,
) -> Execution {
    set_cost(entries, cost);
    let blocked = entries.iter().any(|entry| entry.is_blocked(now));
    if let ([entry], false) = (&mut *entries, blocked) {
        // This also serves a policy that counts refused calls: such a policy is the only one.
        let outcome = entry.charge(now, entry.cost);
        if let Some(rule) = ban {
            strike(entries, &[outcome], rule, now);
        }
        let entry = &mut entries[0];
        let is_charged = outcome == Outcome::Admitted && entry.cost > 0;
        if is_charged {
            entry.part.metadata.bans.excused_from = 0;
        }
        return Execution::new(
            Response::of_policies(policies, &[entry.policy_outcome(now, outcome)], now),
            cost.if_charged(is_charged),
        );
    }
    entries.iter_mut().for_each(|entry| entry.prepare(now, entry.cost));
    let (response, is_charged) = take_normalized(policies, entries, now, !blocked, ban);
    Execution::new(response, cost.if_charged(is_charged))
}

/// Charges each policy its cost, if `may` is set and all policies admit theirs. The states have been
/// normalized. If `may` is set and the call is refused, it is a strike by the rule `ban`. Returns also
/// whether it charged the cost.
fn take_normalized(
    policies: &PolicySet,
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    may: bool,
    ban: Option<&BanRule>,
) -> (Response, bool) {
    let outcomes: Vec<_> = entries.iter().map(|entry| entry.outcome(now, entry.cost)).collect();
    let takes = may && outcomes.iter().all(|&outcome| outcome == Outcome::Admitted);
    if takes {
        for entry in &mut *entries {
            entry.charge(now, entry.cost);
            if entry.cost > 0 {
                entry.part.metadata.bans.excused_from = 0;
            }
        }
    }
    if let Some(rule) = ban.filter(|_| may && !outcomes.contains(&Outcome::Impossible)) {
        strike(entries, &outcomes, rule, now);
    }
    let outcomes =
        entries.iter().zip(outcomes).map(|(entry, outcome)| entry.policy_outcome(now, outcome));
    let outcomes: Vec<_> = outcomes.collect();
    (Response::of_policies(policies, &outcomes, now), takes)
}

/// Counts the refusals of a call as strikes: one against the key of each policy that refuses, or one
/// against that of the rule's target.
fn strike(entries: &mut [PolicyEntry<'_, '_>], outcomes: &[Outcome], rule: &BanRule, now: Micros) {
    let refuses = |(entry, outcome): (&PolicyEntry<'_, '_>, &Outcome)| {
        *outcome == Outcome::Refused && rule.applies_to(entry.number)
    };
    if let Some(target) = rule.target() {
        if entries.iter().zip(outcomes).any(refuses)
            && let Some(entry) = entries.iter_mut().find(|entry| entry.number == target)
        {
            entry.strike(rule, now);
        }
        return;
    }
    for (entry, outcome) in entries.iter_mut().zip(outcomes) {
        if refuses((entry, outcome)) {
            entry.strike(rule, now);
        }
    }
}

fn take_up_to(
    policies: &PolicySet,
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    units: u64,
) -> Execution {
    entries.iter_mut().for_each(|entry| entry.prepare(now, units));
    let blocked = entries.iter().any(|entry| entry.is_blocked(now));
    let most = if blocked { 0 } else { units };
    let granted = entries.iter().map(|entry| entry.remaining(now)).fold(most, u64::min);
    // If nothing fits, the response is that of a call for one unit, which is not counted.
    let cost = granted.max(units.min(1));
    entries.iter_mut().for_each(|entry| entry.cost = cost);
    let (response, is_charged) = take_normalized(policies, entries, now, granted > 0, None);
    Execution::new(response, if is_charged { cost } else { 0 })
}

fn peek(policies: &PolicySet, entries: &[PolicyEntry<'_, '_>], now: Micros) -> Response {
    let mut takes_last = false;
    let mut outcome_of = |entry: &PolicyEntry<'_, '_>| {
        let (policy, state) = (entry.policy(now), &*entry.part.state);
        let is_uncounted = entry.is_blocked(now) && policy.counts_refused();
        if is_uncounted || entry.part.metadata.owed.units > 0 {
            // A blocked call is not counted, but `preview` would count it.
            let mut normalized = state.clone();
            policy.normalize(&mut normalized, now);
            let outcome = policy.outcome(&normalized, now, entry.cost);
            return entry.outcome_by(&normalized, now, outcome);
        }
        let Preview { outcome, takes_last: last, statuses } =
            policy.preview(state, now, entry.cost);
        takes_last |= last;
        entry.outcome_of(now, outcome, statuses)
    };
    let outcomes: Vec<_> = entries.iter().map(&mut outcome_of).collect();
    Response::of_preview(policies, &outcomes, now, takes_last)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod units_tests;
