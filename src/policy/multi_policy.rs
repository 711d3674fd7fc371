//! Responses that name several limits: those of a policy whose limits have names, and those of
//! several policies that decide together.

use std::iter;

use crate::algorithm::{Algorithm, LimitStatus, LimitStatuses, Outcome};
use crate::policy::ban::Ban;
use crate::policy::decision::{self, Decision, Status, millis_until, reported_limit};
use crate::policy::policy_set::{PerPolicy, PolicySet};
use crate::policy::units::Units;
use crate::policy::{Policy, State};
use crate::short_list::ShortList;
use crate::time::Micros;

/// A decision, with a report of each limit if limits have names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The decision. Its numbers are those of one limit.
    pub decision: Decision,
    /// Reports of all limits; `None` for a single policy with one limit.
    pub limits: Option<Box<LimitReports>>,
    /// The blocks of a call that a block refused: for each limit that of its key, in the order of the
    /// reports.
    pub blocks: Option<Box<Blocks>>,
}

/// The block of each limit's key; `None` for a key that is not blocked.
pub type Blocks = ShortList<Option<Block>, 4>;

/// A block in force on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Its end.
    pub until: Micros,
    /// The number of the ban's length, from 1, if it is a ban of a limiter with a rule for bans;
    /// otherwise 0.
    pub ban_step: u64,
}

/// Reports of all limits after a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitReports {
    /// The index of the limit whose numbers the decision has.
    pub reported: usize,
    /// A report of each limit, in the order of declaration. Among several policies, a policy has
    /// one report, or one for each of its named limits. A policy without a key in this call has
    /// none.
    pub limits: ShortList<LimitReport, 4>,
}

/// The numbers of one limit after a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitReport {
    /// The limit as the user wrote it: see [`Algorithm::limit`].
    pub limit: u64,
    /// The largest cost that this limit can ever admit.
    pub capacity: u64,
    /// The largest cost that this limit would admit now, after the call.
    pub remaining: u64,
    /// Milliseconds, rounded up, after which this limit would admit the cost if no other call came.
    /// 0 if it admits the cost and its key is not blocked, `None` if it can never admit it.
    pub retry_after_ms: Option<u64>,
    /// Milliseconds, rounded up, until this limit would admit a cost of 1 if no other call came.
    pub next_after_ms: u64,
    /// Milliseconds, rounded up, until the key has its full allowance under this limit.
    pub reset_after_ms: u64,
    /// The mark of the key, if the call was admitted, else 0: see
    /// [`Mark`](crate::policy::mark::Mark).
    pub mark: u64,
}

/// The outcome of a call under one of several policies alone, and the status of its limits after
/// the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyOutcome {
    /// The cost under this policy.
    pub cost: u64,
    /// The outcome under this policy alone.
    pub outcome: Outcome,
    /// The end of the key's block; any time up to now if there is none.
    pub blocked_until: Micros,
    /// The number of the ban's length if the block is a ban, else 0.
    pub ban_step: u64,
    /// The end of the override in force.
    pub changes_at: Option<Micros>,
    /// The status of the limits by this outcome, without the block and the end of the override.
    pub statuses: LimitStatuses,
}

impl PolicyOutcome {
    /// The status of the limits, with the block and the override. A blocked key admits no call
    /// before the block's end, and is not fresh. At the end of an override the limiter's own
    /// numbers may admit the call, so no retry is later than that.
    fn limit_statuses(&self, now: Micros) -> impl Iterator<Item = LimitStatus> {
        let until = if self.blocked_until > now { self.blocked_until } else { 0 };
        let changes_at = self.changes_at.unwrap_or(Micros::MAX);
        self.statuses.iter().map(move |limit| LimitStatus {
            retry_at: limit.retry_at.min(changes_at).max(until),
            next_at: limit.next_at.min(changes_at).max(until),
            reset_at: limit.reset_at.max(until),
            ..*limit
        })
    }
}

/// The status of a call: allowed if all policies admit it and no key is blocked. `has` returns
/// whether one of the policies has an outcome.
fn joint_status(has: impl Fn(Outcome) -> bool, blocked: bool) -> Status {
    match blocked {
        _ if has(Outcome::Impossible) => Status::Impossible,
        true => Status::Blocked,
        false if has(Outcome::Refused) => Status::Refused,
        false => Status::Allowed,
    }
}

/// The index of the smallest limit that is below its cost; of the smallest one if none is.
#[cold]
fn impossible_limit(statuses: &[LimitStatus], costs: impl Iterator<Item = u64>) -> usize {
    let limits = statuses.iter().zip(costs).enumerate();
    let rank = |&(_, (limit, cost)): &(usize, (&LimitStatus, u64))| {
        (cost <= limit.capacity, limit.capacity)
    };
    limits.min_by_key(rank).map_or(0, |(index, _)| index)
}

impl LimitReports {
    /// The reports, each with the cost under its limit.
    fn of(
        statuses: &[LimitStatus],
        reported: usize,
        now: Micros,
        costs: impl Iterator<Item = u64>,
        status: Status,
    ) -> Self {
        let is_allowed = matches!(status, Status::Allowed | Status::AllowedLast);
        let numbers = |(limit, cost): (&LimitStatus, u64)| LimitReport {
            limit: limit.limit,
            capacity: limit.capacity,
            remaining: limit.remaining,
            retry_after_ms: (cost <= limit.capacity).then(|| millis_until(limit.retry_at, now)),
            next_after_ms: millis_until(limit.next_at, now),
            reset_after_ms: millis_until(limit.reset_at, now),
            mark: if is_allowed { limit.mark } else { 0 },
        };
        Self { reported, limits: statuses.iter().zip(costs).map(numbers).collect() }
    }
}

impl Response {
    /// The response to an outcome by the status of the limits. It reports each limit if `named`.
    #[must_use]
    pub fn of(
        named: bool,
        statuses: &[LimitStatus],
        now: Micros,
        cost: u64,
        outcome: Outcome,
    ) -> Self {
        let status = outcome.into();
        let reported = reported_limit(statuses, status);
        Self::of_status(named, statuses, reported, now, iter::repeat(cost), status)
    }

    fn of_status(
        named: bool,
        statuses: &[LimitStatus],
        reported: usize,
        now: Micros,
        costs: impl Iterator<Item = u64>,
        status: Status,
    ) -> Self {
        let limits = || Box::new(LimitReports::of(statuses, reported, now, costs, status));
        let decision = decision::decision_of_status(statuses, reported, now, status);
        Self { decision, limits: named.then(limits), blocks: None }
    }

    /// The response to a call under policies that decide together. It reports each limit if limits
    /// have names, and the blocks of keys. If the policies have a rule for bans, these may be bans.
    ///
    /// The call is impossible if one policy finds it so, otherwise blocked if one of the keys is,
    /// otherwise refused if one policy refuses it. [`decision::decision_of_limits`] chooses the
    /// reported limit among all; of a blocked call it is the one with the longest retry, and of an
    /// impossible call the smallest of those that are below their costs.
    #[must_use]
    pub fn of_policies(policies: &PolicySet, outcomes: &[PolicyOutcome], now: Micros) -> Self {
        let named = policies.named_limits() > 0;
        let statuses: PerPolicy<_> =
            outcomes.iter().flat_map(|one| one.limit_statuses(now)).collect();
        let blocked = outcomes.iter().any(|one| one.blocked_until > now);
        let status =
            joint_status(|outcome| outcomes.iter().any(|one| one.outcome == outcome), blocked);
        let costs = || outcomes.iter().flat_map(|one| iter::repeat_n(one.cost, one.statuses.len()));
        let reported = match status {
            Status::Impossible => impossible_limit(&statuses, costs()),
            _ => reported_limit(&statuses, status),
        };
        let response = Self::of_status(named, &statuses, reported, now, costs(), status);
        if status != Status::Blocked {
            return response;
        }
        let has_rule = policies.ban().is_some();
        let blocks = outcomes.iter().flat_map(|one| {
            let ban_step = if has_rule { one.ban_step } else { 0 };
            let block = Block { until: one.blocked_until, ban_step };
            let block = (block.until > now).then_some(block);
            one.statuses.iter().map(move |_| block)
        });
        Self { blocks: Some(Box::new(blocks.collect())), ..response }
    }

    /// The ban that refused the call; the last one to end, if there are several.
    #[must_use]
    pub fn ban(&self) -> Option<Ban> {
        let mut latest: Option<Ban> = None;
        for &Block { until, ban_step: step } in
            self.blocks.iter().flat_map(|all| all.iter()).flatten()
        {
            if step > 0 && latest.is_none_or(|ban| until > ban.until) {
                latest = Some(Ban { step, until });
            }
        }
        latest
    }

    /// The response to a call that has not been made. `takes_last` says whether one of the policies
    /// would be left without units by its own cost.
    #[must_use]
    pub fn of_preview(
        policies: &PolicySet,
        outcomes: &[PolicyOutcome],
        now: Micros,
        takes_last: bool,
    ) -> Self {
        // A policy without a cost, and without units, is without units after the call, too.
        let is_empty = |one: &PolicyOutcome| {
            one.cost == 0 && one.statuses.iter().any(|status| status.remaining == 0)
        };
        let takes = outcomes.iter().any(|one| one.cost > 0);
        let takes_last = takes_last || takes && outcomes.iter().any(is_empty);
        let response = Self::of_policies(policies, outcomes, now);
        Self { decision: response.decision.with_takes_last(takes_last), ..response }
    }
}

impl From<Decision> for Response {
    fn from(decision: Decision) -> Self {
        Self { decision, limits: None, blocks: None }
    }
}

/// [`decision::take`], with a report of each limit.
pub fn take<A: Algorithm>(policy: &A, state: &mut A::State, now: Micros, cost: u64) -> Response {
    let outcome = policy.charge(state, now, cost);
    let statuses = policy.limit_statuses(state, now, cost, outcome);
    Response::of(policy.named_limits() > 0, &statuses, now, cost, outcome)
}

/// The states of a key under several policies.
pub trait States {
    /// The state under the policy of this number.
    fn of(&mut self, number: usize) -> &mut State;
}

/// The cost of a call by policy.
pub trait Cost: Copy {
    /// Whether the costs under different policies may differ.
    const IS_BY_POLICY: bool;

    /// The cost under the policy of this number.
    fn of(&self, policy: usize) -> u64;
}

impl Cost for u64 {
    const IS_BY_POLICY: bool = false;

    fn of(&self, _: usize) -> u64 {
        *self
    }
}

impl Cost for &Units {
    const IS_BY_POLICY: bool = true;

    fn of(&self, policy: usize) -> u64 {
        Units::of(self, policy)
    }
}

/// Takes a cost under policies that all count by the same key: all charge their units of it, or none.
///
/// [`execute`](crate::policy::execute::execute) does the same to a key without metadata. Returns
/// `None` for a refused call that may be a strike, which would give the key metadata, and for an
/// impossible cost by policy; then only states have been normalized.
pub fn take_all<C: Cost>(
    policies: &PolicySet,
    states: &mut impl States,
    now: Micros,
    cost: C,
) -> Option<Response> {
    let by_number = || policies.named().iter().map(|named| &named.policy).enumerate();
    let outcome = |(number, policy): (usize, &Policy)| {
        let (state, cost) = (states.of(number), cost.of(number));
        // A cost of 0 only repairs the state.
        if cost > 0 {
            policy.normalize(state, now);
        } else {
            policy.charge(state, now, 0);
        }
        policy.outcome(state, now, cost)
    };
    let outcomes: PerPolicy<_> = by_number().map(outcome).collect();
    let status = joint_status(|outcome| outcomes.contains(&outcome), false);
    if status == Status::Refused && policies.ban().is_some()
        || status == Status::Impossible && C::IS_BY_POLICY
    {
        return None;
    }
    let mut statuses = PerPolicy::new();
    for ((number, policy), outcome) in by_number().zip(outcomes) {
        let (state, cost) = (states.of(number), cost.of(number));
        if status == Status::Allowed {
            policy.charge(state, now, cost);
        }
        statuses.extend(policy.limit_statuses(state, now, cost, outcome));
    }
    let named = policies.alone().is_none_or(|policy| policy.named_limits() > 0);
    let reported = reported_limit(&statuses, status);
    // The response needs the cost only for impossible calls.
    let cost = iter::repeat(if C::IS_BY_POLICY { 0 } else { cost.of(0) });
    Some(Response::of_status(named, &statuses, reported, now, cost, status))
}
