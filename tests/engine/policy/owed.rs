//! Owed units: the charged units keep each law, the used ones exceed them by at most `maxOwed`, a lone
//! caller is admitted at its retry time, and the embedded store equals states.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::Algorithm as _;
use tollgate::key::Key;
use tollgate::memory::MemoryStore;
use tollgate::policy::decision::Status;
use tollgate::policy::execute::Execution;
use tollgate::policy::operation::{HoldId, Operation};
use tollgate::policy::owed::Owed;
use tollgate::policy::policy_set::{MAX_POLICIES, PolicySet};

use crate::algorithm::buckets::BucketSpec;
use crate::laws::trace::{Admitted, START, Step, any_trace};
use crate::policy::mix::{any_mix, any_pair};
use crate::policy::multi_policy::{Kept, any_deeds, needs_all, on, operation, reset_at, unused};
use crate::policy::multi_policy_oracle::Spec;
use crate::policy::specs::{RateSpec, WindowSpec};

const TRACES: u32 = 400;
const STEPS: usize = 100;

/// How many units may be owed: by default, none, few or many.
fn any_max_owed() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![
        2 => Just(None),
        1 => Just(Some(0)),
        2 => (1..9_u64).prop_map(Some),
        2 => (30..90_u64).prop_map(Some),
        1 => Just(Some(u64::MAX)),
    ]
}

/// What an observer knows of one key under one policy.
struct Observed {
    spec: Spec,
    policies: PolicySet,
    kept: Vec<Kept>,
    now: u64,
    /// Units that the key has used.
    used: u64,
    /// Charges, with the payments that were observed.
    charges: Vec<Admitted>,
    /// The same, with the units that idle time has paid: at the ends of idle periods.
    paid: Vec<Admitted>,
    holds: HashMap<HoldId, u64>,
}

impl Observed {
    fn new(spec: Spec, max_owed: Option<u64>) -> Self {
        let policies = PolicySet::single(spec.policy()).with_max_owed(vec![max_owed]);
        let kept = unused(&policies);
        let (charges, paid, holds) = (Vec::new(), Vec::new(), HashMap::new());
        Self { spec, policies, kept, now: START, used: 0, charges, paid, holds }
    }

    fn owed(&self) -> Owed {
        self.kept[0].1.owed
    }

    fn execute(&mut self, operation: &Operation) -> Execution {
        on(&self.policies, &mut self.kept, |_| true, self.now, operation)
    }

    fn charge(&mut self, cost: u64) {
        if cost > 0 {
            let at = self.now;
            self.charges.push(Admitted { at, cost });
            self.paid.push(Admitted { at, cost });
        }
    }

    /// Lets the key pay, and observes the payment.
    fn pay(&mut self) {
        let before = self.owed();
        self.execute(&Operation::Penalize { units: 0.into() });
        let mut paid = before.units - self.owed().units;
        let periods = if before.units > 0 { (self.now - before.at) / period(self.spec) } else { 0 };
        for number in 1..periods {
            let cost = paid.min(self.spec.limit());
            if cost == 0 {
                break;
            }
            self.paid.push(Admitted { at: before.at + number * period(self.spec), cost });
            paid -= cost;
        }
        self.charge(paid);
    }

    /// Runs an operation whose units are charged and perhaps owed.
    fn step(&mut self, operation: &Operation) -> Result<Execution, TestCaseError> {
        self.pay();
        let owed = self.owed().units;
        let executed = self.execute(operation);
        let is_charged = matches!(
            operation,
            Operation::Take { .. }
                | Operation::Reserve { .. }
                | Operation::Settle { .. }
                | Operation::Penalize { .. }
        );
        let units = if is_charged { executed.units } else { 0 };
        let more = self.owed().units.saturating_sub(owed);
        self.used += units;
        self.charge(units - more);
        if matches!(operation, Operation::Settle { .. }) {
            let told = executed.settled().map(|settled| settled.owed.of(0));
            prop_assert_eq!(told, Some(more));
        } else if !matches!(operation, Operation::Penalize { .. }) {
            prop_assert_eq!(more, 0);
        }
        if *operation == Operation::Reset {
            (self.used, self.charges, self.paid) = (0, Vec::new(), Vec::new());
        }
        Ok(executed)
    }

    /// The law of the charged units, for windows between two of them. The payments of idle time are
    /// among them, except under fixed windows, whose law there is that of rolling windows.
    fn check_laws(&self) -> TestCaseResult {
        let most = |list: &[Admitted], bound: &dyn Fn(u64) -> u64| {
            for (index, first) in list.iter().enumerate() {
                let mut sum = 0;
                for last in &list[index..] {
                    sum += last.cost;
                    let elapsed = last.at - first.at;
                    prop_assert!(sum <= bound(elapsed), "{} from {:?} to {:?}", sum, first, last);
                }
            }
            Ok(())
        };
        let of_rate = |RateSpec { units, period, burst }: RateSpec, debt: u64| {
            move |elapsed: u64| {
                let refilled = u128::from(elapsed) * u128::from(units) / u128::from(period);
                burst + debt + u64::try_from(refilled).unwrap()
            }
        };
        let within = |window: u64, limit: u64| {
            move |elapsed: u64| if elapsed < window { limit } else { u64::MAX }
        };
        match self.spec {
            Spec::Gcra(spec) | Spec::Leaky(spec) => most(&self.paid, &of_rate(spec, 0)),
            Spec::Continuous(BucketSpec { rate, debt, .. }) => {
                most(&self.paid, &of_rate(rate, debt))
            }
            Spec::Interval(BucketSpec { rate, debt, .. }) => {
                let RateSpec { units, period, burst } = rate;
                most(&self.paid, &|elapsed| burst + debt + units * elapsed.div_ceil(period))
            }
            Spec::Window(WindowSpec { limit, window }) => {
                most(&self.paid, &within(window, 2 * limit - 1))
            }
            Spec::Sliding(spec) => most(&self.paid, &within(spec.window, spec.limit)),
            Spec::Log(spec) => spec
                .limits()
                .iter()
                .try_for_each(|&(limit, window)| most(&self.paid, &within(window, limit))),
            Spec::Counter(spec) => {
                let (limit, window) = (spec.limit, spec.window_ms * 1_000);
                most(&self.paid, &|elapsed| limit + (limit * (elapsed + 1)).div_ceil(window) - 1)
            }
            // The windows of a calendar have many lengths: see `calendar_windows_are_paid_one_by_one`.
            Spec::Calendar(_) => Ok(()),
        }
    }

    /// The retry time of a refused lone caller: it is admitted then, and not a microsecond earlier if the state
    /// alone can hold its units.
    fn check_retry(&self, cost: u64, executed: &Execution) -> TestCaseResult {
        let decision = executed.response.decision;
        let owed = self.owed();
        if decision.status != Status::Refused || owed.units == 0 {
            return Ok(());
        }
        prop_assert_eq!(decision.remaining, 0);
        let at = |now: u64| {
            let mut kept = self.kept.clone();
            let take = Operation::Take { cost: cost.into() };
            on(&self.policies, &mut kept, |_| true, now, &take).units == cost
        };
        prop_assert!(at(decision.retry_at), "{} is too early: {:?}", decision.retry_at, owed);
        let debt = match self.spec {
            Spec::Continuous(spec) | Spec::Interval(spec) => spec.debt,
            _ => 0,
        };
        let needed = owed.units + cost.max(debt + 1);
        if needed <= self.spec.limit() {
            prop_assert!(!at(decision.retry_at - 1), "{:?}", decision);
        }
        // It waits for no more than the periods in which these units are paid, and one.
        let periods = 1 + needed.div_ceil(self.spec.limit());
        prop_assert!(decision.retry_at <= owed.at + periods * period(self.spec));
        // A peek pays in a copy.
        let peek = Operation::Peek { cost: cost.into() };
        let mut kept = self.kept.clone();
        let peeked = on(&self.policies, &mut kept, |_| true, self.now, &peek).response.decision;
        prop_assert_eq!(&kept, &self.kept);
        prop_assert_eq!((peeked.status, peeked.retry_at), (Status::Refused, decision.retry_at));
        prop_assert_eq!(peeked.reset_at, decision.reset_at);
        Ok(())
    }
}

/// The time after which a key that was fully used is fresh.
fn period(spec: Spec) -> u64 {
    let of_rate = |RateSpec { units, period, .. }: RateSpec, used: u64| {
        u64::try_from((u128::from(used) * u128::from(period)).div_ceil(u128::from(units))).unwrap()
    };
    match spec {
        Spec::Gcra(spec) | Spec::Leaky(spec) => of_rate(spec, spec.burst),
        Spec::Continuous(spec) => of_rate(spec.rate, spec.rate.burst + spec.debt),
        Spec::Interval(BucketSpec { rate, debt, .. }) => {
            (rate.burst + debt).div_ceil(rate.units) * rate.period
        }
        Spec::Window(spec) => spec.window.div_ceil(1_000) * 1_000,
        Spec::Counter(spec) => 2_000 * spec.window_ms,
        Spec::Sliding(spec) => spec.window.div_ceil(spec.buckets) * spec.buckets,
        Spec::Calendar(spec) => match spec.policy() {
            tollgate::policy::Policy::CalendarWindow(window) => window.calendar().horizon() / 2,
            other => panic!("{other:?} is no calendar window"),
        },
        Spec::Log(spec) => spec.limits().iter().map(|limit| limit.1).max().unwrap(),
    }
}

fn run(spec: Spec, max_owed: Option<u64>, trace: &[Step]) -> TestCaseResult {
    let mut observed = Observed::new(spec, max_owed);
    let (limit, most) = (spec.limit(), max_owed.unwrap_or(spec.limit()));
    let mut retry_at = START;
    for (index, step) in trace.iter().enumerate() {
        observed.now = step.time.onward_from(observed.now, reset_at(&observed.kept), retry_at);
        let cost = step.cost.of(limit);
        let hold = [u8::try_from(step.choice % 5).unwrap(); 16];
        let operation = match step.choice / 5 {
            0..=2 => {
                observed.holds.insert(hold, cost);
                Operation::Reserve { cost: cost.into(), hold, lasting: 1 + 700 * index as u64 }
            }
            3..=5 => {
                let used = observed.holds.get(&hold).copied().unwrap_or(0)
                    + cost * (step.choice as u64 % 3);
                Operation::Settle { hold, actual: used.into(), charges: Vec::new() }
            }
            6 => Operation::Penalize { units: cost.into() },
            7 if step.choice % 5 == 0 => Operation::Reset,
            _ => Operation::Take { cost: cost.into() },
        };
        let executed = observed.step(&operation)?;
        retry_at = executed.response.decision.retry_at;
        let owed = observed.owed().units;
        let charged: u64 = observed.paid.iter().map(|charge| charge.cost).sum();
        prop_assert_eq!(observed.used, charged + owed, "after {:?}", operation);
        prop_assert!(owed <= most, "{} are owed", owed);
        if owed > 0 {
            let (state, metadata) = &observed.kept[0];
            let policy =
                metadata.in_force(&observed.policies.named()[0].policy, observed.now).clone();
            prop_assert_eq!(policy.remaining(state, observed.now), 0);
        }
        if let Operation::Take { cost } | Operation::Reserve { cost, .. } = &operation {
            observed.check_retry(cost.of(0), &executed)?;
        }
    }
    observed.check_laws()
}

proptest! {
    #![proptest_config(crate::cases::cases(TRACES))]

    // promise: used-units-exceed-no-law
    /// Under each policy, for takes, reservations, early and late settlements, penalties and resets: the
    /// charged units keep the policy's law, the used ones are more by at most `maxOwed`, and a lone caller is
    /// admitted at its retry time.
    #[test]
    fn used_units_exceed_the_law_by_at_most_the_owed_ones(
        pair in any_pair(),
        max_owed in any_max_owed(),
        trace in any_trace(STEPS),
    ) {
        run(pair.0, max_owed, &trace)?;
    }

    /// With a clock that never steps back, so that dropped states make no difference.
    #[test]
    fn the_embedded_store_equals_states_with_owed_units(
        mix in any_mix(),
        max_owed in prop::collection::vec(any_max_owed(), MAX_POLICIES),
        seed in any::<(u64, u64)>(),
        trace in any_trace(STEPS),
        deeds in any_deeds(STEPS),
    ) {
        let policies = mix.owing(max_owed);
        let store = MemoryStore::new(100_000, seed);
        let limiter = store.open("owed", policies.clone()).unwrap();
        let mut keys: HashMap<usize, Vec<Kept>> = HashMap::new();
        let (mut now, mut retry_at) = (START, START);
        for (Step { time, cost, choice }, deed) in trace.into_iter().zip(deeds) {
            let kept = keys.entry(choice / 7 % 3).or_insert_with(|| unused(&policies));
            now = time.onward_from(now, reset_at(&*kept), retry_at);
            let operation = operation(&mix, deed, cost.of(mix.pairs[choice % mix.pairs.len()].0.limit()));
            let text = |key_dimension| format!("{}-{key_dimension}", choice / 7 % 3);
            let texts: Vec<_> = (0..mix.key_dimensions).map(text).collect();
            let named = |key_dimension| needs_all(&operation) || deed.concerns(key_dimension);
            let key = |(key_dimension, text)| Some(Key::new(text).unwrap()).filter(|_| named(key_dimension));
            let keys: Vec<_> = texts.iter().map(String::as_str).enumerate().map(key).collect();
            let which = |number| named(mix.key_dimension(number));
            if (0..mix.pairs.len()).any(which) {
                let executed = limiter.execute(&keys, &operation, &now).unwrap();
                prop_assert_eq!(&executed, &on(&policies, kept, which, now, &operation));
                retry_at = now + executed.response.decision.retry_after_ms * 1_000;
            }
        }
    }
}
