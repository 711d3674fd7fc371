//! The fixed window in which refused calls count.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::{Algorithm as _, FixedWindow, KeyState as _, Outcome};
use tollgate::policy::decision::Status;
use tollgate::policy::{Policy, State};

use crate::algorithm::window_oracle::{Expected, Oracle};
use crate::laws::exactness;
use crate::laws::max_admission;
use crate::laws::trace::{START, Step, any_trace, most_in_any_window};
use crate::laws::twins;
use crate::policy::specs::{HOUR, WindowSpec, any_window};
use crate::redis::twins as redis_twins;
use crate::redis::{Server, key_names};

/// A window, and whether refused calls count: both kinds may be versions of one policy.
pub(crate) type Spec = (WindowSpec, bool);

pub(crate) fn policy((spec, counts_refused): Spec) -> Policy {
    let window = FixedWindow::new(spec.limit, spec.window).unwrap();
    Policy::FixedWindow(window.counting_refused(counts_refused))
}

fn counting(spec: WindowSpec) -> Policy {
    policy((spec, true))
}

/// The attempts of the open window, and its end in milliseconds.
struct AttemptsOracle {
    attempts: Vec<u64>,
    ends_ms: u64,
}

impl AttemptsOracle {
    fn new() -> Self {
        Self { attempts: Vec::new(), ends_ms: 0 }
    }

    fn used(&self, now: u64) -> u64 {
        if self.ends_ms * 1_000 > now { self.attempts.iter().sum() } else { 0 }
    }
}

impl Oracle for AttemptsOracle {
    type Spec = Spec;

    fn take(&mut self, (spec, counts_refused): Spec, now: u64, cost: u64) -> Expected {
        let WindowSpec { limit, window } = spec;
        let opened_now_ends = (now + window).div_ceil(1_000);
        if self.ends_ms > opened_now_ends {
            // A clock step or a longer window: the count stays, and the window ends one window from
            // now.
            self.ends_ms = opened_now_ends;
        }
        let used = self.used(now);
        let admitted = used + cost <= limit;
        if admitted {
            if self.ends_ms * 1_000 <= now {
                (self.attempts, self.ends_ms) = (Vec::new(), opened_now_ends);
            }
            self.attempts.push(cost);
        } else if cost <= limit && counts_refused {
            self.attempts.push(cost.min(limit.saturating_sub(used)));
        }
        let remaining = limit.saturating_sub(self.used(now));
        let status = match (admitted, remaining) {
            (true, 0) => Status::AllowedLast,
            (true, _) => Status::Allowed,
            (false, _) if cost > limit => Status::Impossible,
            (false, _) => Status::Refused,
        };
        let reset_after_ms = (self.ends_ms * 1_000).saturating_sub(now).div_ceil(1_000);
        let retry_after_ms = if status == Status::Refused { reset_after_ms } else { 0 };
        Expected { status, limit, remaining, retry_after_ms, reset_after_ms }
    }
}

// promise: refusal-changes-nothing
/// A refused call uses up the window and keeps its end. A call that can never fit changes nothing.
fn a_refused_call_uses_up_the_window(policy: &Policy, trace: &[Step]) -> TestCaseResult {
    let (mut now, mut retry_at) = (START, START);
    let mut state = policy.initial_state();
    for step in trace {
        now = step.time.onward_from(now, state.reset_at(), retry_at);
        let cost = step.cost.of(policy.capacity());
        let before = state.clone();
        match policy.charge(&mut state, now, cost) {
            Outcome::Admitted => {}
            Outcome::Refused => {
                retry_at = policy.retry_at(&state, now, cost);
                let (State::Window(before), State::Window(after)) = (before, &state) else {
                    panic!("not the state of a window");
                };
                prop_assert_eq!((after.ends_ms, after.count), (before.ends_ms, policy.capacity()));
                prop_assert_eq!(policy.remaining(&state, now), 0);
            }
            Outcome::Impossible => prop_assert_eq!(before, state.clone()),
        }
    }
    Ok(())
}

pub(crate) fn any_specs() -> impl Strategy<Value = Vec<Spec>> {
    prop::collection::vec((any_window(), prop_oneof![3 => Just(true), 1 => Just(false)]), 1..4)
}

proptest! {
    #![proptest_config(crate::cases::cases(256))]

    #[test]
    fn its_law_is_that_of_the_window(spec in any_window(), trace in any_trace(max_admission::STEPS)) {
        let admitted = max_admission::admitted(&[counting(spec)], &trace);
        prop_assert!(most_in_any_window(&admitted, spec.window) < 2 * spec.limit);
    }

    #[test]
    fn its_retries_are_exact(
        specs in (any_window(), any_window()),
        trace in any_trace(exactness::STEPS),
    ) {
        exactness::retry_after_is_exact(&[counting(specs.0), counting(specs.1)], &trace)?;
    }

    /// As `exactness::is_exact`, except for the effect of a refused call.
    #[test]
    fn it_is_exact(spec in any_window(), trace in any_trace(exactness::STEPS)) {
        let policy = counting(spec);
        exactness::remaining_is_the_largest_cost_that_would_be_admitted(&policy, &trace)?;
        exactness::after_the_reset_a_key_is_as_if_never_used(&policy, &trace)?;
        exactness::a_peek_answers_what_take_then_does(&policy, &trace)?;
        exactness::dropping_what_is_settled_changes_no_decision(&policy, &trace)?;
        a_refused_call_uses_up_the_window(&policy, &trace)?;
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(twins::TRACES))]

    #[test]
    fn it_equals_the_oracle(specs in any_specs(), trace in any_trace(twins::STEPS)) {
        twins::equals(AttemptsOracle::new(), &specs, policy, &trace)?;
    }
}

#[test]
fn in_lua_it_equals_rust_and_the_oracle() {
    redis_twins::proven((any_specs(), any_trace(redis_twins::STEPS)), |server, (specs, trace)| {
        redis_twins::equal(server, AttemptsOracle::new, &specs, policy, &trace)
    });
}

/// In both forms of a window's value: the value is written once, and the TTL stays.
#[test]
fn in_redis_a_refused_call_writes_the_count_once_and_no_ttl() {
    let mut server = Server::start();
    for limit in [10, 10_000] {
        let policy = counting(WindowSpec { limit, window: HOUR });
        let key = format!("key of {limit}");
        let name = key_names::name(&policy, &key);
        key_names::take(&mut server, &policy, &key, limit - 2);
        let (_, expires) = key_names::state(&mut server, &name);
        let impossible = key_names::take(&mut server, &policy, &key, limit + 1);
        assert_eq!((impossible.status, impossible.remaining), (Status::Impossible, 2));
        let refused = key_names::take(&mut server, &policy, &key, 3);
        assert_eq!((refused.status, refused.remaining), (Status::Refused, 0));
        let after = key_names::state(&mut server, &name);
        assert_eq!(after.1, expires);
        let value = after.0.clone().unwrap();
        // Packed, or two doubles.
        let packed = str::from_utf8(&value).ok().and_then(|text| text.parse::<u64>().ok());
        let count = f64::from(u32::try_from(limit).unwrap()).to_be_bytes();
        assert!(packed.map_or(value.ends_with(&count), |packed| packed % 8_192 == limit));
        key_names::take(&mut server, &policy, &key, 1);
        assert_eq!(key_names::state(&mut server, &name), after, "the window was used up already");
    }
}
