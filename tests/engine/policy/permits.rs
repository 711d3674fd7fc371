//! Permits equal an oracle that keeps every permit and ticket, with calls that wait for short and long
//! times. The numbers of a refused call are exact for its caller: its own ticket does not count.

use proptest::prelude::*;
use tollgate::algorithm::{Algorithm as _, Concurrency, KeyState as _, PermitRequest};
use tollgate::policy::Policy;
use tollgate::policy::decision::{Decision, Status};
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::PolicySet;

use crate::algorithm::window_oracle::Expected;
use crate::laws::trace::START;
use crate::laws::twins::told;
use crate::policy::multi_policy::{Kept, on, unused};
use crate::policy::specs::{MILLI, SECOND};

const LIFE: u64 = 2 * SECOND;

/// A call for a permit, or the release of one, after some milliseconds.
#[derive(Debug, Clone, Copy)]
struct Step {
    after_ms: u64,
    cost: u64,
    /// The time for which the call has waited, in milliseconds.
    waited_ms: Option<u64>,
    /// The permit or ticket that is released, counted from the latest one; `None` for a call.
    releases: Option<u64>,
}

fn any_step() -> impl Strategy<Value = Step> {
    let waited = prop::option::weighted(0.7, 0..900_u64);
    let releases = prop::option::weighted(0.3, 0..8_u64);
    (0..400_u64, 1..5_u64, waited, releases).prop_map(|(after_ms, cost, waited_ms, releases)| {
        Step { after_ms, cost, waited_ms, releases }
    })
}

fn acquire(id: u64, cost: u64, waited_ms: Option<u64>) -> Operation {
    let waited = waited_ms.map(|millis| millis * MILLI);
    Operation::Acquire { cost: cost.into(), request: PermitRequest { id, waited }, hold: None }
}

/// Whether a new call that does not wait would get a permit.
fn is_admitted(policies: &PolicySet, kept: &[Kept], now: u64, cost: u64) -> bool {
    let mut kept = kept.to_vec();
    let executed = on(policies, &mut kept, |_| true, now, &acquire(1_000, cost, None));
    executed.units == cost
}

/// Units that count until a time, for a permit or for the call that waits for it.
#[derive(Debug, Clone, Copy)]
struct Counted {
    id: u64,
    units: u64,
    /// Since when the call has waited; of a permit it has no meaning.
    since: u64,
    until: u64,
}

/// What docs/algorithms.md and docs/operations.md say of `concurrency` and `acquire`.
#[derive(Debug, Default)]
struct PermitOracle {
    limit: u64,
    permits: Vec<Counted>,
    tickets: Vec<Counted>,
}

fn units_of<'a>(counted: impl IntoIterator<Item = &'a Counted>) -> u64 {
    counted.into_iter().map(|one| one.units).sum()
}

impl PermitOracle {
    fn pass(&mut self, now: u64) {
        self.permits.retain(|permit| now < permit.until);
        self.tickets.retain(|ticket| now < ticket.until);
    }

    /// Returns what the decision says.
    fn acquire(&mut self, now: u64, id: u64, cost: u64, waited_ms: Option<u64>) -> Expected {
        self.pass(now);
        let own = self.tickets.iter().position(|ticket| ticket.id == id);
        let own = own.map(|index| self.tickets.remove(index));
        let since = waited_ms.map(|waited| now - waited * MILLI);
        let since = since.map(|since| own.map_or(since, |own| own.since.min(since)));
        let is_before =
            |other: &&Counted| since.is_none_or(|own| (other.since, other.id) < (own, id));
        let before = units_of(self.tickets.iter().filter(is_before));
        let fits = units_of(&self.permits) + before + cost <= self.limit;
        if fits {
            self.permits.push(Counted { id, units: cost, since: now, until: now + LIFE });
        }
        let counted = || self.permits.iter().chain(&self.tickets);
        let remaining = self.limit.saturating_sub(units_of(counted()));
        let status = match (cost <= self.limit, fits) {
            (false, _) => Status::Impossible,
            (_, false) => Status::Refused,
            (..) if remaining > 0 => Status::Allowed,
            (..) => Status::AllowedLast,
        };
        let fits_at =
            |at: u64| units_of(counted().filter(|one| at < one.until)) + cost <= self.limit;
        let retry_at = counted().map(|one| one.until).filter(|&at| fits_at(at)).min();
        let reset_at = counted().map(|one| one.until).max().unwrap_or(now);
        let expected = Expected {
            status,
            limit: self.limit,
            remaining,
            retry_after_ms: match status {
                Status::Refused => (retry_at.unwrap() - now).div_ceil(MILLI),
                _ => 0,
            },
            reset_after_ms: (reset_at - now).div_ceil(MILLI),
        };
        if let (Status::Refused, Some(since)) = (status, since) {
            // It lives for a second, unless its call asks again in the second half of it.
            let is_young = |own: &Counted| {
                own.units == cost && own.since == since && own.until - now > SECOND / 2
            };
            let until = own.filter(is_young).map_or(now + SECOND, |own| own.until);
            self.tickets.push(Counted { id, units: cost, since, until });
        }
        expected
    }

    /// Returns whether the permit was held.
    fn release(&mut self, now: u64, id: u64) -> bool {
        self.pass(now);
        let count = self.permits.len();
        self.permits.retain(|permit| permit.id != id);
        self.tickets.retain(|ticket| ticket.id != id);
        self.permits.len() < count
    }

    fn renew(&mut self, now: u64, id: u64) -> bool {
        self.pass(now);
        let own = self.permits.iter_mut().find(|permit| permit.id == id);
        own.map(|permit| permit.until = now + LIFE).is_some()
    }
}

/// A call, a release or a renewal. Calls that wait ask again, some of them after a second.
fn any_turn() -> impl Strategy<Value = (u8, u64, u64, u64, Option<u64>)> {
    let after_ms = prop_oneof![3 => 0..30_u64, 1 => 0..700_u64];
    let waited_ms =
        prop_oneof![Just(None), (0..20_u64).prop_map(Some), (0..3_000_u64).prop_map(Some)];
    (0..16_u8, after_ms, 0..6_u64, 1..5_u64, waited_ms)
}

proptest! {
    #![proptest_config(crate::cases::cases(400))]

    // promise: permits-in-order
    #[test]
    fn permits_equal_the_oracle(limit in 1..9_u64, turns in prop::collection::vec(any_turn(), 100)) {
        let policies = PolicySet::from(Policy::Concurrency(Concurrency::new(limit, LIFE).unwrap()));
        let (mut kept, mut now, mut last) = (unused(&policies), START, 0_u64);
        let mut oracle = PermitOracle { limit, ..PermitOracle::default() };
        for (kind, after_ms, back, cost, waited_ms) in turns {
            now += after_ms * MILLI;
            let known = (last + 1).saturating_sub(back + 1).max(1);
            let is_held = oracle.permits.iter().any(|permit| permit.id == known);
            let mut execute = |operation: &Operation| on(&policies, &mut kept, |_| true, now, operation);
            match kind {
                0..=3 => {
                    let released = execute(&Operation::Release { permit: known });
                    prop_assert_eq!(released.units, u64::from(oracle.release(now, known)));
                }
                4 | 5 => {
                    let renewed = execute(&Operation::RenewPermit { permit: known });
                    prop_assert_eq!(renewed.units, u64::from(oracle.renew(now, known)));
                }
                6..=9 if is_held => continue,
                _ => {
                    // A call that waits asks again.
                    let id = if kind < 10 { known } else { last + 1 };
                    last = last.max(id);
                    let executed = execute(&acquire(id, cost, waited_ms));
                    let Decision { limit: written, at, .. } = executed.response.decision;
                    let expected = oracle.acquire(now, id, cost, waited_ms);
                    let is_admitted = matches!(expected.status, Status::Allowed | Status::AllowedLast);
                    prop_assert_eq!(told(executed.response.decision), expected);
                    prop_assert_eq!((written, at), (limit, now));
                    prop_assert_eq!(executed.units, if is_admitted { cost } else { 0 });
                }
            }
            let held = units_of(oracle.permits.iter().filter(|permit| now < permit.until));
            prop_assert!(held <= limit);
        }
    }

    // promise: retry-is-exact
    #[test]
    fn a_call_that_stops_waiting_gets_a_permit_after_its_retry_and_not_before(
        limit in 1..7_u64,
        steps in prop::collection::vec(any_step(), 1..30),
    ) {
        let own = Concurrency::new(limit, LIFE).unwrap();
        let policies = PolicySet::from(Policy::Concurrency(own));
        let (mut kept, mut now) = (unused(&policies), START);
        for (id, step) in (1..).zip(steps) {
            now += step.after_ms * MILLI;
            let Step { cost, waited_ms, releases, .. } = step;
            if let Some(latest) = releases {
                let permit = id - latest.min(id - 1);
                on(&policies, &mut kept, |_| true, now, &Operation::Release { permit });
                continue;
            }
            let asked = on(&policies, &mut kept, |_| true, now, &acquire(id, cost, waited_ms));
            let waited_ms = waited_ms.filter(|_| asked.response.decision.status == Status::Refused);
            let Some(waited_ms) = waited_ms else { continue };
            // It asks again for the last time, and then drops its ticket.
            now += 20 * MILLI;
            let last = acquire(id, cost, Some(waited_ms + 20));
            let refused = on(&policies, &mut kept, |_| true, now, &last).response.decision;
            if refused.status != Status::Refused {
                continue;
            }
            let mut after = kept.clone();
            on(&policies, &mut after, |_| true, now, &Operation::Release { permit: id });
            let retry_at = now + refused.retry_after_ms * MILLI;
            prop_assert!(is_admitted(&policies, &after, retry_at, cost));
            prop_assert!(!is_admitted(&policies, &after, retry_at - MILLI, cost));
            let most = refused.remaining;
            prop_assert!(most == 0 || is_admitted(&policies, &after, now, most));
            prop_assert!(!is_admitted(&policies, &after, now, most + 1));
            let reset_at = after[0].0.reset_at();
            prop_assert_eq!(now + refused.reset_after_ms * MILLI, reset_at.max(now));
            prop_assert_eq!(policies.named()[0].policy.limit(), refused.limit);
        }
    }
}
