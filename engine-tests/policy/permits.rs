//! The numbers of a refused call for a permit are exact for its caller: its own ticket does not count.

use proptest::prelude::*;
use tollgate::algorithm::{Algorithm as _, Concurrency, KeyState as _, PermitRequest};
use tollgate::policy::Policy;
use tollgate::policy::decision::Status;
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::PolicySet;

use crate::laws::trace::START;
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
    Operation::Acquire { cost, request: PermitRequest { id, waited } }
}

/// Whether a new call that does not wait would get a permit.
fn is_admitted(policies: &PolicySet, kept: &[Kept], now: u64, cost: u64) -> bool {
    let mut kept = kept.to_vec();
    let executed = on(policies, &mut kept, |_| true, now, &acquire(1_000, cost, None));
    executed.units == cost
}

proptest! {
    #![proptest_config(crate::cases::cases(400))]

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
