//! Leases: a process takes units from the store in advance, and uses them for a limited time.
//!
//! The store charges the units at a time s. The process sent its request before s, at a time a of
//! its own clock, and uses the units before a + L. So a unit is used less than L after its charge,
//! whatever the offset of the clock and the delays. The store charges rates under a burst that is
//! less by the units that come back within L, rounded up; then the units *used* keep the law of the
//! original burst. A lease on a window ends with the window.
//!
//! **Returns.** What is not used goes back, unless it has drained. Units drain earlier than by the
//! decision on their lease if others go back meanwhile, which the process does not see. So it counts
//! a lease as if it drained before all others. Proof: what the key has charged stays at least the
//! charges of the units that never go back, plus for each lease the units that may still go back.
//! Both sides drain alike until the former have drained. Then the right side drains at least as
//! fast, because its leases drain side by side.

use proptest::prelude::*;
use tollgate::algorithm::{Algorithm as _, ChargeRecord, KeyState as _, Outcome};
use tollgate::policy::Policy;
use tollgate::policy::decision::Decision;
use tollgate::policy::execute::Execution;
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::PolicySet;

use crate::algorithm::buckets::{BucketSpec, leaky};
use crate::algorithm::calendar_window::{any_calendar, shortest};
use crate::laws::trace::{Admitted, START, most_in_any_window};
use crate::policy::multi_policy::{Kept, on, unused};
use crate::policy::specs::{DAY, MILLI, RateSpec, SECOND, any_rate, any_window};

#[derive(Debug, Clone, Copy)]
enum Action {
    /// A lease. The numbers are the times of its request and its answer on the way, in 16ths of a
    /// lease.
    Lease(u64, u64),
    Use,
    /// Gives the unused units of a lease back.
    Return,
    /// Refunds a use: to its lease if the process has not ended it, otherwise to the store.
    Refund,
    /// Another caller takes units at the store.
    Take,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    /// The time before it: microseconds, 16ths of a lease (less 1 µs), 4ths of the time of a unit.
    time: (u64, u64, u64),
    action: Action,
    /// The lease or the use, from the last one back. For a new lease: the process.
    which: usize,
    units: u64,
}

fn any_step() -> impl Strategy<Value = Step> {
    let time = prop_oneof![
        2 => (0..3_u64, Just(0), Just(0)),
        1 => (Just(0), 0..20_u64, Just(0)),
        1 => (Just(0), Just(0), 0..12_u64),
    ];
    let action = prop_oneof![
        6 => Just(Action::Lease(0, 0)),
        2 => (0..20_u64, 0..20_u64).prop_map(|(request, answer)| Action::Lease(request, answer)),
        6 => Just(Action::Use),
        4 => Just(Action::Return),
        3 => Just(Action::Refund),
        3 => Just(Action::Take),
    ];
    let units = prop_oneof![5 => 1..8_u64, 1 => 1..2_000_u64, 4 => Just(u64::MAX)];
    let step = (time, action, 0..4_usize, units);
    step.prop_map(|(time, action, which, units)| Step { time, action, which, units })
}

/// Most are so short that the attack at their end finds units that could still go back.
fn any_schedule() -> impl Strategy<Value = Vec<Step>> {
    let steps = |range| prop::collection::vec(any_step(), range);
    prop_oneof![3 => steps(1..12), 1 => steps(12..40)]
}

/// Which units of rates go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Returns {
    Never,
    /// Those that have not drained by the decision on their lease.
    ByDecision,
    /// Those that have not drained if their lease drains before all others.
    AsIfFirst,
}

/// Local times are those of the process; other times are the store's.
#[derive(Debug, Clone, Copy)]
struct Lease {
    offset: u64,
    local_answer: u64,
    /// From then on no unit is used.
    local_end: u64,
    decision: Decision,
    window_end: u64,
    units: u64,
    unused: u64,
    /// The units that went back to the store, or may have.
    returned: u64,
}

#[derive(Debug, Clone, Copy)]
struct Use {
    at: u64,
    units: u64,
    /// The lease, if the use may be refunded.
    lease: Option<usize>,
    /// The end of the window that counts the units.
    window_end: u64,
}

/// A key in the store, its leases, and the uses of its units, as an adversary chooses them.
struct Run {
    policies: PolicySet,
    kept: Vec<Kept>,
    rate: Option<RateSpec>,
    /// The length of a lease.
    length: u64,
    returns: Returns,
    now: u64,
    leases: Vec<Lease>,
    uses: Vec<Use>,
}

impl Run {
    fn new(policy: Policy, rate: Option<RateSpec>, length: u64, returns: Returns) -> Self {
        let policies = PolicySet::single(policy);
        let (kept, leases, uses) = (unused(&policies), vec![], vec![]);
        Self { policies, kept, rate, length, returns, now: START, leases, uses }
    }

    fn with(mut self, schedule: &[Step]) -> Self {
        schedule.iter().for_each(|&step| self.step(step));
        self.attack();
        self
    }

    fn execute(&mut self, operation: &Operation) -> Execution {
        on(&self.policies, &mut self.kept, |_| true, self.now, operation)
    }

    fn step(&mut self, Step { time: (micros, leases, quarters), action, which, units }: Step) {
        let recent = |length: usize| (length > 0).then(|| length - 1 - which % length);
        let (lease, used) = (recent(self.leases.len()), recent(self.uses.len()));
        let unit = self.rate.map_or(self.length, |rate| time_of(1, rate));
        self.now += micros + (self.length * leases / 16).saturating_sub(1) + unit * quarters / 4;
        match (action, lease, used) {
            (Action::Lease(request, answer), ..) => {
                let [request, answer] = [request, answer].map(|parts| self.length * parts / 16);
                self.lease(units, which as u64 * DAY, request, answer);
            }
            (Action::Use, Some(lease), _) => self.use_units(lease, units),
            (Action::Return, Some(lease), _) => self.return_unused(lease),
            (Action::Refund, _, Some(used)) => self.refund(used, units.is_multiple_of(2)),
            (Action::Take, ..) => self.take(units),
            _ => {}
        }
    }

    /// Gives everything back, each time leases all units again, and uses them at the last
    /// microsecond.
    fn attack(&mut self) {
        let (leases, uses) = (self.leases.len(), self.uses.len());
        self.lease(u64::MAX, 0, 0, 0);
        for number in 0..leases {
            self.return_unused(number);
            self.lease(u64::MAX, 0, 0, 0);
        }
        for number in 0..uses {
            self.refund(number, true);
            self.lease(u64::MAX, 0, 0, 0);
        }
        self.now += self.length - 1;
        for number in leases..self.leases.len() {
            self.use_units(number, u64::MAX);
        }
        self.take(u64::MAX);
        self.now += 1;
        self.take(u64::MAX);
    }

    fn take(&mut self, units: u64) {
        let units = self.execute(&Operation::TakeUpTo { units }).units;
        let window_end = self.kept[0].0.unmarked().reset_at();
        self.uses.push(Use { at: self.now, units, lease: None, window_end });
    }

    fn lease(&mut self, units: u64, offset: u64, request: u64, answer: u64) {
        let Execution { units, response, .. } = self.execute(&Operation::TakeUpTo { units });
        if units == 0 {
            return;
        }
        let window_end = self.kept[0].0.unmarked().reset_at();
        let longest = if self.rate.is_some() { u64::MAX } else { window_end - self.now };
        self.leases.push(Lease {
            offset,
            local_answer: self.now + offset + answer,
            local_end: self.now + offset - request + longest.min(self.length),
            decision: response.decision,
            window_end,
            units,
            unused: units,
            returned: 0,
        });
    }

    fn use_units(&mut self, number: usize, units: u64) {
        let (at, lease) = (self.now, &mut self.leases[number]);
        let units = units.min(lease.unused);
        if units > 0 && (lease.local_answer..lease.local_end).contains(&(at + lease.offset)) {
            lease.unused -= units;
            let window_end = lease.window_end;
            self.uses.push(Use { at, units, lease: Some(number), window_end });
        }
    }

    fn return_unused(&mut self, number: usize) {
        let units = std::mem::take(&mut self.leases[number].unused);
        self.give_back(number, units);
    }

    /// A refunded unit was not used.
    fn refund(&mut self, number: usize, to_store: bool) {
        let Some(lease_number) = self.uses[number].lease.take() else { return };
        let (units, lease) = (self.uses[number].units, &mut self.leases[lease_number]);
        if self.now + lease.offset < lease.local_end && !to_store {
            lease.unused += units;
            self.uses[number].units = 0;
        } else {
            self.uses[number].units -= self.give_back(lease_number, units);
        }
    }

    /// Gives units of a lease back to the store. Returns how many came back.
    fn give_back(&mut self, number: usize, units: u64) -> u64 {
        if units == 0 || self.returns == Returns::Never {
            return 0;
        }
        let (at, reset_at) = (self.leases[number].decision.at, self.reset_at(number));
        self.leases[number].returned += units;
        // The time that passes has been rounded down already.
        let reset_at = if self.rate.is_some() { reset_at + MILLI } else { reset_at };
        let mark = self.leases[number].decision.retry_after_ms;
        let kept = self.leases[number].units - self.leases[number].returned;
        let taken = vec![ChargeRecord { at, reset_at, mark, cost: 0, used: 0, kept }];
        let former_end = self.kept[0].0.unmarked().reset_at();
        let given = self.execute(&Operation::Refund { units: units.into(), taken }).units;
        let end = self.kept[0].0.unmarked().reset_at();
        if self.rate.is_none() && end > former_end {
            // The window has begun anew, with the units that remain.
            let ends = self.leases.iter_mut().map(|lease| &mut lease.window_end);
            let ends = ends.chain(self.uses.iter_mut().map(|used| &mut used.window_end));
            ends.filter(|one| **one == former_end).for_each(|one| *one = end);
        }
        given
    }

    /// The reset time that a refund passes, by the decision: the key may have other numbers than the
    /// policy of the process. A decision's numbers are rounded up.
    fn reset_at(&self, number: usize) -> u64 {
        let Lease { decision, units, returned, .. } = self.leases[number];
        let Decision { at, capacity, remaining, reset_after_ms, .. } = decision;
        let drains_after = (reset_after_ms - 1) * MILLI;
        match (self.rate, self.returns) {
            (None, _) => at + reset_after_ms * MILLI,
            (_, Returns::AsIfFirst) => {
                at + drains_after * (units - returned) / (capacity - remaining)
            }
            _ => at + drains_after,
        }
    }

    /// The units that were used and not refunded, in order of time.
    fn used(&self) -> Vec<Admitted> {
        let used = self.uses.iter().filter(|used| used.units > 0);
        used.map(|used| Admitted { at: used.at, cost: used.units }).collect()
    }

    /// The first use that a policy refuses on a fresh key.
    fn excess_over(&self, law: &Policy) -> Option<Admitted> {
        let mut state = law.initial_state();
        let mut outcome = |used: &Admitted| law.charge(&mut state, used.at, used.cost);
        self.used().into_iter().find(|used| outcome(used) != Outcome::Admitted)
    }
}

/// The time in which units come back, rounded down.
fn time_of(units: u64, rate: RateSpec) -> u64 {
    let time = u128::from(units) * u128::from(rate.period) / u128::from(rate.units);
    u64::try_from(time).unwrap()
}

/// The units that come back within a time, rounded up.
fn units_within(time: u64, rate: RateSpec) -> u64 {
    let units = u128::from(time) * u128::from(rate.units);
    u64::try_from(units.div_ceil(u128::from(rate.period))).unwrap()
}

/// A rate in the store, and the length of leases: any, or the time of some units.
fn any_leased_rate() -> impl Strategy<Value = (RateSpec, u64)> {
    let period = prop_oneof![1..3_000_u64, (1..300_u64).prop_map(|millis| millis * MILLI)];
    let small = (1..4_u64, period, 1..16_u64);
    let small = small.prop_map(|(units, period, burst)| RateSpec { units, period, burst });
    let rate = prop_oneof![any_rate(), small];
    let micros = prop_oneof![1..20_000_u64, (1..5_000_u64).prop_map(|millis| millis * MILLI)];
    let any_length = prop_oneof![micros.prop_map(Err), (1..10_u64).prop_map(Ok)];
    (rate, any_length).prop_map(|(rate, length)| {
        (rate, length.map_or_else(|micros| micros, |units| time_of(units, rate).max(1)))
    })
}

proptest! {
    #![proptest_config(crate::cases::cases(2_000))]

    /// The burst of a bucket with debt is its capacity + debt.
    #[test]
    fn units_used_within_a_lease_of_their_charge_keep_the_law_of_the_original_burst(
        (rate, length) in any_leased_rate(),
        (initial, debt) in (0..20_u64, 0..20_u64),
        schedule in any_schedule(),
    ) {
        let law = RateSpec { burst: rate.burst + units_within(length, rate), ..rate };
        let bucket = BucketSpec { rate, initial: initial.min(rate.burst), debt };
        let law_of_bucket = RateSpec { burst: law.burst + debt, ..law };
        for (policy, law) in [
            (rate.gcra(), law.gcra()),
            (leaky(rate), leaky(law)),
            (rate.token_bucket(), law.token_bucket()),
            (bucket.continuous(), law_of_bucket.token_bucket()),
        ] {
            for returns in [Returns::Never, Returns::AsIfFirst] {
                let run = Run::new(policy.clone(), Some(rate), length, returns).with(&schedule);
                let excess = run.excess_over(&law);
                prop_assert!(excess.is_none(), "{:?} of {:?}, {:?}", excess, law, returns);
            }
        }
    }

    /// A unit that opens a window may be used at its end. So 2 x limit units, and not one less, may
    /// be used in a rolling window.
    #[test]
    fn leased_units_are_used_in_the_window_that_counts_them_and_never_more_than_the_limit(
        (policy, window) in prop_oneof![
            any_window().prop_map(|spec| (spec.policy(), spec.window)),
            any_calendar().prop_map(|spec| (spec.policy(), shortest(spec.every))),
        ],
        parts in 1..40_u64,
        schedule in any_schedule(),
    ) {
        let length = (window * parts / 16).max(1);
        let run = Run::new(policy.clone(), None, length, Returns::ByDecision).with(&schedule);
        let (mut window_end, mut sum) = (0, 0);
        for used in run.uses.iter().filter(|used| used.units > 0) {
            if used.window_end != window_end {
                prop_assert!(used.at >= window_end, "{:?} in the window before", used);
                (window_end, sum) = (used.window_end, 0);
            }
            sum += used.units;
            prop_assert!(used.at < window_end && sum <= policy.capacity(), "{} by {:?}", sum, used);
        }
        prop_assert!(most_in_any_window(&run.used(), window) <= 2 * policy.capacity());
    }

    /// The span ends just before an answer. Then the last lease is younger than two requests with
    /// their answers, and a lease has at least the units that come back in this time.
    #[test]
    fn a_process_with_leases_back_to_back_gets_what_a_direct_caller_gets_less_one_lease(
        (rate, length) in any_leased_rate(),
        (request, answer, parts) in (0..8_u64, 0..8_u64, 1..16_u64),
    ) {
        let [request, answer] = [request, answer].map(|parts| length * parts / 16);
        let units = 2 * units_within(request + answer + 1, rate) + rate.burst / parts;
        let rate = RateSpec { burst: rate.burst + units, ..rate };
        let mut run = Run::new(rate.gcra(), Some(rate), length, Returns::Never);
        for _ in 0..100 {
            run.now += request;
            run.lease(units, 0, request, answer);
            run.now += answer;
            run.use_units(run.leases.len() - 1, u64::MAX);
            run.now += 1;
        }
        let span = run.now + request + answer - 1 - START;
        let used: u64 = run.uses.iter().map(|used| used.units).sum();
        prop_assert!(used + units >= rate.burst + units_within(span, rate) - 1);
    }
}

/// A rate of 100 per second, and leases of 100 ms: the time of 10 units.
fn hundred(burst: u64, returns: Returns) -> Run {
    let rate = RateSpec { units: 100, period: SECOND, burst };
    Run::new(rate.gcra(), Some(rate), 100 * MILLI, returns)
}

#[test]
fn one_unit_more_in_the_store_breaks_the_law() {
    let law = RateSpec { units: 100, period: SECOND, burst: 20 }.gcra();
    assert_eq!(hundred(10, Returns::Never).with(&[]).excess_over(&law), None);
    assert!(hundred(11, Returns::Never).with(&[]).excess_over(&law).is_some());
}

/// Two processes lease in turn all that is left, use nothing, and give all back when it ends.
#[test]
fn units_of_leases_go_back_within_the_law_because_keys_have_marks() {
    let used_at_once = [Returns::AsIfFirst, Returns::ByDecision].map(|returns| {
        let mut run = hundred(90, returns);
        for number in 0..16 {
            run.lease(u64::MAX, 0, 0, 0);
            (number > 0).then(|| run.return_unused(number - 1));
            run.now += 100 * MILLI;
        }
        run.with(&[]).used().iter().map(|used| used.cost).sum::<u64>()
    });
    // Before keys had marks, they were 94 and 178.
    assert_eq!(used_at_once, [100, 100], "the law: 100");
}
