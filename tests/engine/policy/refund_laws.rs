//! The laws with refunds, as docs/algorithms.md states them: in any window, the units that were
//! admitted less those that came back, each counted at the time of its call, are at most what the law
//! allows.
//!
//! Dense random traces over all algorithms: takes, refunds of recent and of old calls, in parts and
//! again, with and without their marks, resets, overrides, several versions of the numbers in turn,
//! reservations with extensions and settlements, and idle gaps after which the store drops the key.

use std::collections::VecDeque;
use std::sync::Arc;

use tollgate::algorithm::{
    Algorithm as _, BucketLayout, CalendarWindow, ChargeRecord, FixedWindow, Gcra, IntervalBucket,
    KeyState as _, LeakyBucket, Levels, LogLimit, SlidingCounter, SlidingLog, SlidingWindow,
    TokenBucket,
};
use tollgate::calendar::Every;
use tollgate::policy::Policy;
use tollgate::policy::decision::Status;
use tollgate::policy::execute::{Execution, KeyMetadata};
use tollgate::policy::operation::{Charge, HoldId, Operation};
use tollgate::policy::policy_set::PolicySet;
use tollgate::policy::units::Units;

use crate::cases::{Random, seeds};
use crate::laws::trace::START;
use crate::policy::charges::taken;
use crate::policy::multi_policy::{Kept, on, unused};

const STEPS: usize = 250;
const TRACES: u32 = 4_000;

/// The most units within each of several lengths of time: of a window, or of any span.
enum Bound {
    Window { length: u64, most: u64 },
    Rate { burst: u64, units: u64, period: u64 },
    Refills { burst: u64, tokens: u64, every: u64 },
}

impl Bound {
    /// The most units between two calls at this distance.
    fn most(&self, elapsed: u64) -> Option<u64> {
        match *self {
            Self::Window { length, most } => (elapsed < length).then_some(most),
            Self::Rate { burst, units, period } => Some(burst + elapsed * units / period),
            Self::Refills { burst, tokens, every } => {
                Some(burst + tokens * elapsed.div_ceil(every))
            }
        }
    }
}

/// Versions of a policy, and their laws.
struct Spec {
    versions: Vec<Policy>,
    bounds: Vec<Bound>,
}

/// Units and a length of time.
type Numbers = (u64, u64);
fn faster(one: Numbers, other: Numbers) -> Numbers {
    if one.0 * other.1 >= other.0 * one.1 { one } else { other }
}

fn any_spec(random: &mut Random) -> Spec {
    let count = random.pick(&[1, 1, 2, 3]);
    let is_fast = random.one_in(3);
    let numbers: Vec<Numbers> = (0..count)
        .map(|_| {
            let length = random.pick(&[1_000, 2_000, 3_000, 7_000, 20_000]);
            let odd = random.pick(&[0, 0, 1, 333]);
            (if is_fast { 1 + random.below(60) } else { 1 + random.below(9) }, length + odd)
        })
        .collect();
    let most = numbers.iter().map(|numbers| numbers.0).max().unwrap();
    let shortest = numbers.iter().map(|numbers| numbers.1).min().unwrap();
    let fastest = numbers.iter().copied().reduce(faster).unwrap();
    let all = |policy: &dyn Fn(Numbers) -> Policy| numbers.iter().map(|&one| policy(one)).collect();
    let (units, period) = fastest;
    let rate = Bound::Rate { burst: most, units, period };
    let window = |most| vec![Bound::Window { length: shortest, most }];
    match random.below(11) {
        0 | 1 => {
            let policy =
                |(units, length)| Gcra::new(units, length, units).map(Policy::Gcra).unwrap();
            Spec { versions: all(&policy), bounds: vec![rate] }
        }
        2 => {
            let policy = |(units, length)| {
                LeakyBucket::new(units, units, length).map(Policy::LeakyBucket).unwrap()
            };
            Spec { versions: all(&policy), bounds: vec![rate] }
        }
        3 => {
            let (initial, debt) = (random.one_in(3), random.below(3));
            let policy = |(units, length)| {
                let initial = if initial { units / 2 } else { units };
                let levels = Levels { capacity: units, initial, debt };
                TokenBucket::with_levels(levels, units, length).map(Policy::TokenBucket).unwrap()
            };
            let rate = Bound::Rate { burst: most + debt, units, period };
            Spec { versions: all(&policy), bounds: vec![rate] }
        }
        4 => {
            let debt = random.below(3);
            let tokens = |units: u64| 1 + units / 3;
            let policy = |(units, length)| {
                let levels = Levels { capacity: units, initial: units, debt };
                let bucket = IntervalBucket::new(levels, tokens(units), length);
                bucket.map(Policy::IntervalBucket).unwrap()
            };
            let (burst, tokens) = (most + debt, tokens(most));
            let bounds = vec![Bound::Refills { burst, tokens, every: shortest }];
            Spec { versions: all(&policy), bounds }
        }
        5 | 6 => {
            let policy =
                |(units, length)| FixedWindow::new(units, length).map(Policy::FixedWindow).unwrap();
            // A longer window cannot tell which units opened a shorter one.
            let is_same = numbers.iter().all(|numbers| numbers.1 == shortest);
            let bounds = window(if is_same { 2 * most - 1 } else { 2 * most });
            Spec { versions: all(&policy), bounds }
        }
        7 => {
            let policy = |(units, _)| {
                let window = CalendarWindow::new(units, Every::part(1_000_000).unwrap(), "UTC");
                window.map(Policy::CalendarWindow).unwrap()
            };
            let bounds = vec![Bound::Window { length: 1_000_000, most: 2 * most }];
            Spec { versions: all(&policy), bounds }
        }
        8 => {
            let whole = |length: u64| length / 1_000 * 1_000;
            let policy = |(units, length)| {
                SlidingCounter::new(units, whole(length)).map(Policy::SlidingCounter).unwrap()
            };
            Spec {
                versions: all(&policy),
                bounds: vec![Bound::Window { length: whole(shortest), most: 2 * most - 1 }],
            }
        }
        9 => {
            let buckets = random.pick(&[1, 3, 10]);
            let policy = |(units, length)| {
                let layout = BucketLayout::List;
                let window = SlidingWindow::new(units, length, buckets, layout);
                window.map(Policy::SlidingWindow).unwrap()
            };
            Spec { versions: all(&policy), bounds: window(most) }
        }
        _ if random.one_in(2) => {
            let precision = random.pick(&[1, 500]);
            let (units, length) = numbers[0];
            let limits = [(units, length), (units + 3, 3 * length)]
                .map(|(limit, window)| LogLimit { limit, window });
            let log = SlidingLog::with_limits(&limits, Some(precision)).unwrap();
            let bounds = limits
                .map(|LogLimit { limit, window }| Bound::Window { length: window, most: limit });
            Spec { versions: vec![Policy::SlidingLog(log)], bounds: bounds.into() }
        }
        _ => {
            let policy = |(units, length)| {
                SlidingLog::new(units, length, false).map(Policy::SlidingLog).unwrap()
            };
            Spec { versions: all(&policy), bounds: window(most) }
        }
    }
}

/// An admitted call, or one charge of a reservation.
struct Call {
    records: Vec<ChargeRecord>,
    at: u64,
    cost: u64,
    /// The units that count: those that have not come back since the key was last reset.
    net: u64,
    /// The units that a refund may still claim. The caller may not know of a reset.
    left: u64,
    hold: Option<HoldId>,
}

struct Run {
    spec: Spec,
    sets: Vec<PolicySet>,
    kept: Vec<Kept>,
    calls: VecDeque<Call>,
    now: u64,
    next_hold: u128,
    random: Random,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let spec = any_spec(&mut random);
        let sets = spec.versions.iter().cloned();
        let sets: Vec<_> =
            sets.map(|policy| PolicySet::single(policy).with_max_owed(vec![Some(0)])).collect();
        let kept = unused(&sets[0]);
        Self { spec, sets, kept, calls: VecDeque::new(), now: START, next_hold: 0, random }
    }

    fn execute(&mut self, set: &PolicySet, operation: &Operation) -> Execution {
        on(set, &mut self.kept, |_| true, self.now, operation)
    }

    fn pass_time(&mut self) {
        let reset_at = self.kept[0].0.reset_at();
        self.now = match self.random.below(20) {
            0..=7 => self.now,
            8 => self.now + 1,
            9..=12 => self.now + self.random.below(300),
            13..=16 => self.now + self.random.below(3_000),
            17 => (reset_at.max(self.now + 1) - 1) + self.random.below(3),
            18 => self.now + self.random.below(30_000),
            _ if self.random.one_in(4) => self.now + 1_500_000,
            _ => self.now + self.random.below(9_000),
        };
        // A store drops what is fresh, at any time.
        let (state, metadata) = &mut self.kept[0];
        if state.reset_at() <= self.now && self.random.one_in(2) {
            *state = self.spec.versions[0].initial_state();
        }
        if metadata.end() <= self.now {
            *metadata = KeyMetadata::default();
        }
        let longest = self.now - 2_000_000;
        self.calls.retain(|call| call.at >= longest);
    }

    /// A call of those before: a recent one, or any.
    fn any_call(&mut self) -> Option<usize> {
        let most = self.calls.len() as u64;
        let back = match self.random.below(3) {
            _ if most == 0 => return None,
            0 => self.random.below(most),
            _ => self.random.below(most.min(5)),
        };
        Some(self.calls.len() - 1 - usize::try_from(back).unwrap())
    }

    fn step(&mut self) -> Result<(), String> {
        self.pass_time();
        let version = usize::try_from(self.random.below(self.sets.len() as u64)).unwrap();
        let version = if self.random.one_in(3) { version } else { 0 };
        let set = self.sets[version].clone();
        let capacity = set.named()[0].policy.capacity();
        let cost = match self.random.below(3) {
            0 => 1,
            1 => 1 + self.random.below(capacity),
            _ => capacity,
        };
        match self.random.below(40) {
            0 => {
                self.execute(&set, &Operation::Reset);
                // A reset gives everything back.
                self.calls.iter_mut().for_each(|call| call.net = 0);
                Ok(())
            }
            1 if self.sets.len() > 1 => {
                let other = usize::try_from(self.random.below(self.sets.len() as u64)).unwrap();
                let policies = vec![Some(Arc::new(self.spec.versions[other].clone()))];
                let lasting = 1 + self.random.below(10_000);
                let is_over = self.random.one_in(3);
                let operation = Operation::Override { policies, lasting };
                self.execute(&set, if is_over { &Operation::ClearOverride } else { &operation });
                Ok(())
            }
            2..=14 => self.refund(&set),
            15..=18 => self.reserve(&set, cost),
            19 | 20 => self.extend(&set, cost),
            21..=25 => self.settle(&set),
            26 | 27 => {
                let executed = self.execute(&set, &Operation::TakeUpTo { units: cost });
                self.admit(&set, &executed, executed.units, None)
            }
            _ => {
                let executed = self.execute(&set, &Operation::Take { cost: cost.into() });
                self.admit(&set, &executed, executed.units, None)
            }
        }
    }

    /// Records an admitted call, and checks all spans that end with it.
    fn admit(
        &mut self,
        set: &PolicySet,
        executed: &Execution,
        cost: u64,
        hold: Option<HoldId>,
    ) -> Result<(), String> {
        let status = executed.response.decision.status;
        if cost == 0 || !matches!(status, Status::Allowed | Status::AllowedLast) {
            return Ok(());
        }
        let records = taken(set, &executed.response, &cost.into(), &0.into());
        self.calls.push_back(Call { records, at: self.now, cost, net: cost, left: cost, hold });
        self.check()
    }

    fn check(&self) -> Result<(), String> {
        for bound in &self.spec.bounds {
            let mut sum = 0;
            for call in self.calls.iter().rev() {
                let Some(most) = bound.most(self.now - call.at) else { break };
                sum += call.net;
                if sum > most {
                    let Self { spec, now, .. } = self;
                    let from = now - call.at;
                    return Err(format!("{sum} > {most} in {from} us: {:?}", spec.versions));
                }
            }
        }
        Ok(())
    }

    /// Refunds units of an earlier call, at most those that have not been claimed.
    fn refund(&mut self, set: &PolicySet) -> Result<(), String> {
        let Some(number) = self.any_call() else { return Ok(()) };
        let Call { ref records, net, left, hold, .. } = self.calls[number];
        if left == 0 || hold.is_some() {
            return Ok(());
        }
        let units = if self.random.one_in(2) { left } else { 1 + self.random.below(left) };
        let is_copy = self.random.one_in(8);
        let mut taken = records.clone();
        for record in &mut taken {
            record.kept = left - units;
            // A copy of a decision may have lost its mark, and the units that came back before.
            if is_copy {
                (record.mark, record.cost, record.kept) = (0, units, 0);
            }
        }
        let given = self.execute(set, &Operation::Refund { units: units.into(), taken }).units;
        if given > net {
            return Err(format!("{given} came back of {net}: {:?}", self.spec.versions));
        }
        self.calls[number].net -= given;
        self.calls[number].left -= units;
        Ok(())
    }

    fn reserve(&mut self, set: &PolicySet, cost: u64) -> Result<(), String> {
        self.next_hold += 1;
        let hold = self.next_hold.to_le_bytes();
        let lasting = 1 + self.random.below(40_000);
        let executed = self.execute(set, &Operation::Reserve { cost: cost.into(), hold, lasting });
        self.admit(set, &executed, executed.units, Some(hold))
    }

    fn extend(&mut self, set: &PolicySet, cost: u64) -> Result<(), String> {
        let Some(hold) = self.any_call().and_then(|number| self.calls[number].hold) else {
            return Ok(());
        };
        let extend = Operation::Extend { hold, cost: cost.into(), lasting: 9_000 };
        let executed = self.execute(set, &extend);
        self.admit(set, &executed, executed.units, Some(hold))
    }

    /// Commits a reservation of one charge for fewer units.
    fn commit(&mut self, set: &PolicySet, hold: HoldId, actual: Units) {
        let Some(number) = self.calls.iter().position(|call| call.hold == Some(hold)) else {
            return;
        };
        let Call { cost, ref records, .. } = self.calls[number];
        let charges = vec![Charge { units: cost.into(), taken: records.clone() }];
        let executed = self.execute(set, &Operation::Settle { hold, actual, charges });
        self.calls[number].net -= executed.units;
    }

    /// Settles a reservation: for fewer units, as many or more.
    fn settle(&mut self, set: &PolicySet) -> Result<(), String> {
        let Some(hold) = self.any_call().and_then(|number| self.calls[number].hold) else {
            return Ok(());
        };
        let is_own = |call: &Call| call.hold == Some(hold);
        let numbers: Vec<_> =
            (0..self.calls.len()).filter(|&one| is_own(&self.calls[one])).collect();
        let charge = |&number: &usize| {
            let Call { cost, ref records, .. } = self.calls[number];
            Charge { units: cost.into(), taken: records.clone() }
        };
        let charges: Vec<_> = numbers.iter().map(charge).collect();
        let held: u64 = charges.iter().map(|charge| charge.units.of(0)).sum();
        let actual = self.random.below(2 * held + 1);
        // Each charge gives back by itself, the latest first.
        let policy = &set.named()[0].policy;
        let mut state = self.kept[0].0.clone();
        let in_force = self.kept[0].1.in_force(policy, self.now).clone();
        in_force.normalize(&mut state, self.now);
        let (mut surplus, mut given) = (held.saturating_sub(actual), Vec::new());
        for charge in charges.iter().rev() {
            let units = surplus.min(charge.units.of(0));
            surplus -= units;
            let kept = charge.units.of(0) - units;
            let taken = ChargeRecord { kept, cost: charge.units.of(0), ..charge.taken[0] };
            given.push(if units > 0 {
                in_force.refund(&mut state, self.now, units, taken)
            } else {
                0
            });
        }
        let settle = Operation::Settle { hold, actual: actual.into(), charges };
        let executed = self.execute(set, &settle);
        if executed.held() == Some(&0.into()) {
            return Ok(());
        }
        if executed.settled().is_some_and(|settled| settled.is_late) {
            given.iter_mut().for_each(|given| *given = 0);
        }
        for &number in &numbers {
            (self.calls[number].hold, self.calls[number].left) = (None, 0);
        }
        if executed.held() != Some(&held.into()) {
            // A charge is so old that the trace has forgotten it.
            self.calls.iter_mut().for_each(|call| call.net = 0);
            self.execute(set, &Operation::Reset);
            return Ok(());
        }
        if actual > held {
            let records = vec![ChargeRecord::default()];
            let (cost, net) = (executed.units, executed.units);
            let call = Call { records, at: self.now, cost, net, left: 0, hold: None };
            self.calls.push_back(call);
            return self.check();
        }
        assert_eq!(given.iter().sum::<u64>(), executed.units);
        for (&number, given) in numbers.iter().rev().zip(given) {
            let net = self.calls[number].net;
            self.calls[number].net =
                net.checked_sub(given).ok_or("units of other calls came back")?;
        }
        Ok(())
    }
}

// promise: each-law-holds-units
#[test]
fn units_admitted_less_those_that_came_back_keep_every_law() {
    for seed in seeds(TRACES) {
        let mut run = Run::new(seed);
        for step in 0..STEPS {
            run.step().unwrap_or_else(|excess| panic!("seed {seed}, step {step}: {excess}"));
        }
    }
}

// promise: each-law-holds-units
/// Reservations of 4,000 units that use about 350, as of a language model, with random durations.
#[test]
fn reserved_estimates_keep_the_law_in_actual_units() {
    const LIMIT: u64 = 10_000;
    const MINUTE: u64 = 60_000_000;
    let gcra = Gcra::new(LIMIT, MINUTE, LIMIT).map(Policy::Gcra).unwrap();
    let bucket = TokenBucket::new(LIMIT, LIMIT, MINUTE).map(Policy::TokenBucket).unwrap();
    for policy in [gcra, bucket] {
        let bounds = vec![Bound::Rate { burst: LIMIT, units: LIMIT, period: MINUTE }];
        let spec = Spec { versions: vec![policy], bounds };
        let mut run = Run::new(7);
        run.sets = vec![PolicySet::single(spec.versions[0].clone())];
        (run.kept, run.spec) = (unused(&run.sets[0]), spec);
        // The open reservations: when they end, with their holds.
        let mut open: Vec<(u64, HoldId)> = Vec::new();
        let mut used = 0;
        for number in 0..20_000_u128 {
            run.now += run.random.below(150_000);
            let set = run.sets[0].clone();
            while let Some(index) = open.iter().position(|&(end, _)| end <= run.now) {
                let (_, hold) = open.swap_remove(index);
                let actual = 100 + run.random.below(500);
                run.commit(&set, hold, actual.into());
                used += actual;
            }
            let hold = number.to_le_bytes();
            let operation = Operation::Reserve { cost: 4_000.into(), hold, lasting: 10 * MINUTE };
            let executed = run.execute(&set, &operation);
            run.admit(&set, &executed, executed.units, Some(hold)).unwrap();
            if executed.units > 0 {
                open.push((run.now + run.random.below(20_000_000), hold));
            }
            run.calls.retain(|call| call.at + 3 * MINUTE >= run.now);
        }
        let most = (run.now - START) / MINUTE * LIMIT;
        assert!(used > most / 4, "{used} of {most}: nearly nothing came back");
    }
}
