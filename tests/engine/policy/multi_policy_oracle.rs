//! The oracle of a mix of policies of all kinds: each single-policy oracle is tried on a copy
//! before one of them is charged.

use tollgate::policy::ban::{Ban, BanRule};
use tollgate::policy::decision::Status;
use tollgate::policy::multi_policy::{Block, LimitReport, LimitReports};

use crate::algorithm::bucket_oracle::{ContinuousOracle, IntervalOracle};
use crate::algorithm::calendar_window::CalendarOracle;
use crate::algorithm::log_oracle::LogOracle;
use crate::algorithm::sliding_counter::CounterOracle;
use crate::algorithm::sliding_window::SlidingOracle;
use crate::algorithm::window_oracle::{Expected, Oracle as _, RateOracle, WindowOracle};
use crate::policy::bans::BanOracle;
use crate::policy::hold_oracle::Holds;
use crate::policy::mix::{Mix, Pair};
pub(crate) use crate::policy::spec::Spec;

/// The oracle of a policy of any kind.
#[derive(Clone)]
enum AnyOracle {
    Rate(RateOracle),
    Continuous(ContinuousOracle),
    Interval(IntervalOracle),
    Window(WindowOracle),
    Counter(CounterOracle),
    Sliding(SlidingOracle),
    Calendar(CalendarOracle),
    Log(LogOracle),
}

/// The outcome and the limits of one policy.
#[derive(Debug, Clone)]
struct Alone {
    status: Status,
    /// One limit, or all of them with names.
    several: LimitReports,
}

impl From<Expected> for Alone {
    fn from(expected: Expected) -> Self {
        let Expected { status, limit, remaining, retry_after_ms, reset_after_ms } = expected;
        let retry_after_ms = (status != Status::Impossible).then_some(retry_after_ms);
        let one = LimitReport {
            limit,
            capacity: limit,
            remaining,
            retry_after_ms,
            next_after_ms: 0,
            reset_after_ms,
            mark: 0,
        };
        Self { status, several: LimitReports { reported: 0, limits: vec![one].into() } }
    }
}

impl AnyOracle {
    fn new(spec: Spec) -> Self {
        match spec {
            Spec::Gcra(_) | Spec::Leaky(_) => Self::Rate(RateOracle::new()),
            Spec::Continuous(_) => Self::Continuous(ContinuousOracle::new()),
            Spec::Interval(_) => Self::Interval(IntervalOracle::new()),
            Spec::Window(_) => Self::Window(WindowOracle::new()),
            Spec::Counter(_) => Self::Counter(CounterOracle::new()),
            Spec::Sliding(_) => Self::Sliding(SlidingOracle::new()),
            Spec::Calendar(_) => Self::Calendar(CalendarOracle::new()),
            Spec::Log(_) => Self::Log(LogOracle::new()),
        }
    }

    fn take(&mut self, spec: Spec, now: u64, cost: u64) -> Alone {
        match (self, spec) {
            (Self::Rate(oracle), Spec::Gcra(spec) | Spec::Leaky(spec)) => {
                oracle.take(spec, now, cost).into()
            }
            (Self::Continuous(oracle), Spec::Continuous(spec)) => {
                oracle.take(spec, now, cost).into()
            }
            (Self::Interval(oracle), Spec::Interval(spec)) => oracle.take(spec, now, cost).into(),
            (Self::Window(oracle), Spec::Window(spec)) => oracle.take(spec, now, cost).into(),
            (Self::Counter(oracle), Spec::Counter(spec)) => oracle.take(spec, now, cost).into(),
            (Self::Sliding(oracle), Spec::Sliding(spec)) => oracle.take(spec, now, cost).into(),
            (Self::Calendar(oracle), Spec::Calendar(spec)) => oracle.take(spec, now, cost).into(),
            (Self::Log(oracle), Spec::Log(spec)) => {
                let (expected, several) = oracle.take_all(spec, now, cost);
                Alone { status: expected.status, several }
            }
            (_, other) => panic!("{other:?} is of another kind"),
        }
    }

    /// Normalizes the state and returns the limits. A cost that can never be admitted is charged by
    /// no policy.
    fn normalize(&mut self, spec: Spec, now: u64) -> LimitReports {
        let mut several = self.take(spec, now, spec.limit() + 1).several;
        several.limits.iter_mut().for_each(|limit| limit.retry_after_ms = Some(0));
        several
    }

    /// Repairs a state that lies too far ahead for the numbers of a spec.
    fn repair(&mut self, spec: Spec, now: u64) {
        match self {
            Self::Rate(oracle) => oracle.repair(now),
            Self::Continuous(oracle) => oracle.repair(now),
            Self::Interval(oracle) => oracle.repair(now),
            _ => {
                self.normalize(spec, now);
            }
        }
    }

    /// The same, unless a state of longer windows may look as if it lay too far ahead.
    fn repair_own(&mut self, spec: Spec, now: u64) {
        let is_own = match (&*self, spec) {
            (Self::Rate(_) | Self::Continuous(_) | Self::Interval(_), _) => true,
            // A log that is fresh is forgotten.
            (Self::Log(oracle), Spec::Log(spec)) => !oracle.is_ahead(spec, now),
            _ => false,
        };
        if is_own {
            self.repair(spec, now);
        }
    }

    /// A call that costs nothing under this policy: it only repairs the state. It is not the first call
    /// on a bucket that begins low.
    fn keep(&mut self, spec: Spec, now: u64) -> Alone {
        self.repair(spec, now);
        let mut several = self.clone().normalize(spec, now);
        let reset_after_ms = match self {
            Self::Continuous(oracle) => Some(oracle.reset_after_ms(now)),
            Self::Interval(oracle) => Some(oracle.reset_after_ms(now)),
            _ => None,
        };
        for limit in &mut several.limits {
            limit.reset_after_ms = reset_after_ms.unwrap_or(limit.reset_after_ms);
        }
        Alone { status: Status::Allowed, several }
    }

    fn admits(&self, spec: Spec, now: u64, cost: u64) -> bool {
        matches!(self.clone().take(spec, now, cost).status, Status::Allowed | Status::AllowedLast)
    }
}

/// The oracle of a mix, for one key of each key dimension.
#[derive(Clone)]
pub(crate) struct CompoundOracle {
    pairs: Vec<Pair>,
    singles: Vec<AnyOracle>,
    /// The end of the override (the second of a pair), and the end of the block.
    pub(crate) own_until: Vec<u64>,
    pub(crate) blocked_until: Vec<u64>,
    /// Kept with the key of the first policy.
    pub(crate) holds: Holds,
    rule: Option<BanRule>,
    bans: Vec<BanOracle>,
}

impl CompoundOracle {
    pub(crate) fn new(mix: &Mix) -> Self {
        let Mix { pairs, ban, .. } = mix.clone();
        let singles = pairs.iter().map(|pair| AnyOracle::new(pair.0)).collect();
        let never = vec![0; pairs.len()];
        let bans = vec![BanOracle::default(); pairs.len()];
        let (own_until, blocked_until) = (never.clone(), never);
        let holds = Holds::default();
        Self { pairs, singles, own_until, blocked_until, holds, rule: ban, bans }
    }

    /// Whether responses name the limits.
    pub(crate) fn has_names(&self) -> bool {
        match self.pairs[..] {
            [(Spec::Log(spec), _)] => spec.limits().len() > 1,
            _ => self.pairs.len() > 1,
        }
    }

    /// The block of each limit's key, in the order of the reports.
    pub(crate) fn blocks(&self, now: u64, several: &LimitReports) -> Vec<Option<Block>> {
        let limits_of = |number: usize| match self.pairs[number].0 {
            Spec::Log(spec) => spec.limits().len(),
            _ => 1,
        };
        let block = |number: usize| {
            let until = self.blocked_until[number];
            let ban = self.bans[number].ban_of(until, now);
            let block = Block { until, ban_step: ban.map_or(0, |ban| ban.step) };
            std::iter::repeat_n((now < until).then_some(block), limits_of(number))
        };
        let blocks: Vec<_> = self.numbers().flat_map(block).collect();
        assert_eq!(blocks.len(), several.limits.len());
        blocks
    }

    /// The policy with the active numbers.
    pub(crate) fn spec(&self, number: usize, now: u64) -> Spec {
        let (limiters, own) = self.pairs[number];
        if now < self.own_until[number] { own } else { limiters }
    }

    /// Changes the key metadata of some policies. A state that lies too far ahead under any numbers is
    /// repaired.
    pub(crate) fn change(
        &mut self,
        numbers: &[usize],
        now: u64,
        change: impl Fn(&mut Self, usize),
    ) {
        for &number in numbers {
            let spec = self.spec(number, now);
            self.singles[number].repair_own(spec, now);
            change(self, number);
        }
    }

    /// Repairs states that lie too far ahead for the active numbers.
    pub(crate) fn repair(&mut self, numbers: &[usize], now: u64) {
        for &number in numbers {
            let spec = self.spec(number, now);
            self.singles[number].repair(spec, now);
        }
    }

    /// Gives a key other numbers, under which its state is repaired.
    pub(crate) fn override_until(&mut self, number: usize, now: u64, until: u64) {
        self.own_until[number] = until;
        if now < until {
            self.repair(&[number], now);
        }
    }

    /// An operation on a policy's key, unless it is a peek, drops what has ended.
    pub(crate) fn drop_ended(&mut self, number: usize, now: u64) {
        for until in [&mut self.own_until[number], &mut self.blocked_until[number]] {
            if *until <= now {
                *until = 0;
            }
        }
        if let Some(rule) = &self.rule {
            self.bans[number].pass(rule, now);
        }
    }

    pub(crate) fn reset(&mut self, number: usize) {
        self.singles[number] = AnyOracle::new(self.pairs[number].0);
        self.blocked_until[number] = 0;
        self.bans[number] = BanOracle::default();
    }

    /// The last ban to end of those in force.
    pub(crate) fn ban(&self, now: u64) -> Option<Ban> {
        let bans = self.bans.iter().zip(&self.blocked_until);
        let bans: Vec<_> = bans.filter_map(|(bans, &until)| bans.ban_of(until, now)).collect();
        let latest = bans.iter().map(|ban| ban.until).max();
        bans.into_iter().find(|ban| Some(ban.until) == latest)
    }

    /// Gives a strike to each policy that refuses, or one to the target of all.
    fn strike(&mut self, now: u64, refuses: &[bool]) {
        let Some(rule) = &self.rule else { return };
        let counted = (0..refuses.len())
            .filter(|&number| refuses[number] && rule.policies() & (1 << number) > 0);
        let mut struck: Vec<_> = counted.map(|number| rule.target().unwrap_or(number)).collect();
        struck.dedup();
        for number in struck.into_iter().filter(|&number| number < refuses.len()) {
            let changes_at = self.changes_at(number, now);
            if let Some(until) = self.bans[number].refuse(rule, now, changes_at) {
                self.blocked_until[number] = until;
            }
        }
    }

    fn numbers(&self) -> std::ops::Range<usize> {
        0..self.singles.len()
    }

    /// The largest number of units, up to `most`, that one policy would admit.
    fn fits(&self, number: usize, now: u64, most: u64) -> u64 {
        let spec = self.spec(number, now);
        let (mut fits, mut too_many) = (0, most.min(spec.limit()) + 1);
        while too_many - fits > 1 {
            let middle = u64::midpoint(fits, too_many);
            if self.singles[number].admits(spec, now, middle) {
                fits = middle;
            } else {
                too_many = middle;
            }
        }
        fits
    }

    /// The largest number of units that one policy would admit, whatever the others would.
    pub(crate) fn penalize(&mut self, number: usize, now: u64, units: u64) -> u64 {
        let (spec, fits) = (self.spec(number, now), self.fits(number, now, units));
        if units == 0 {
            self.singles[number].repair(spec, now);
            return 0;
        }
        self.singles[number].normalize(spec, now);
        if fits > 0 {
            self.singles[number].take(spec, now, fits);
        }
        fits
    }

    pub(crate) fn take_up_to(&mut self, now: u64, units: u64) -> (u64, Expected, LimitReports) {
        let blocked = self.blocked_until.iter().any(|&until| now < until);
        let most = if blocked { 0 } else { units };
        let granted = self.numbers().map(|number| self.fits(number, now, most)).min().unwrap();
        let costs = vec![granted.max(1); self.singles.len()];
        let (expected, several) = self.decide(now, &costs, granted > 0);
        (granted, expected, several)
    }

    /// Takes units, by policy.
    pub(crate) fn take(&mut self, now: u64, costs: &[u64]) -> (Expected, LimitReports) {
        self.decide(now, costs, true)
    }

    /// Decides a call; with `strikes`, a refusal counts as a strike.
    fn decide(&mut self, now: u64, costs: &[u64], strikes: bool) -> (Expected, LimitReports) {
        let mut tried = self.singles.clone();
        for (number, single) in tried.iter_mut().enumerate() {
            if let AnyOracle::Log(oracle) = single {
                oracle.changes_at = self.changes_at(number, now);
            }
        }
        let specs: Vec<_> = self.numbers().map(|number| self.spec(number, now)).collect();
        let take = |((single, &spec), &cost): ((&mut AnyOracle, &Spec), &u64)| match cost {
            0 => single.keep(spec, now),
            cost => single.take(spec, now, cost),
        };
        let mut alone: Vec<_> = tried.iter_mut().zip(&specs).zip(costs).map(take).collect();
        let refuses: Vec<_> = alone.iter().map(|alone| alone.status == Status::Refused).collect();
        let says = |status| alone.iter().any(|alone: &Alone| alone.status == status);
        let mut blocked = self.blocked_until.iter().any(|&until| now < until);
        if strikes && !blocked && !says(Status::Impossible) {
            self.strike(now, &refuses);
            blocked = self.blocked_until.iter().any(|&until| now < until);
        }
        let status = match says(Status::Impossible) {
            true => Status::Impossible,
            false if blocked => Status::Blocked,
            false if says(Status::Refused) => Status::Refused,
            false => Status::Allowed,
        };
        if status == Status::Allowed {
            let charged = self.bans.iter_mut().zip(costs).filter(|(_, cost)| **cost > 0);
            charged.for_each(|(bans, _)| bans.admit());
        }
        // When each policy would admit the cost, to compare policies that report the same
        // millisecond.
        let exact =
            |number| self.retry_at(number, &tried[number], now, costs[number], &alone[number]);
        let retry_at: Vec<u64> = match status {
            Status::Refused | Status::Blocked => self.numbers().map(exact).collect(),
            _ => Vec::new(),
        };
        for (number, one) in alone.iter_mut().enumerate() {
            let admits = matches!(one.status, Status::Allowed | Status::AllowedLast);
            if status != Status::Allowed && admits && costs[number] > 0 {
                one.several = LimitReports {
                    reported: 0,
                    ..self.singles[number].normalize(specs[number], now)
                };
            } else {
                self.singles[number] = tried[number].clone();
            }
            let block_ms = self.blocked_until[number].saturating_sub(now).div_ceil(1_000);
            let change_ms = (self.changes_at(number, now) - now).div_ceil(1_000);
            for limit in &mut one.several.limits {
                let retry = |retry: u64| retry.min(change_ms).max(block_ms);
                limit.retry_after_ms = limit.retry_after_ms.map(retry);
                limit.reset_after_ms = limit.reset_after_ms.max(block_ms);
            }
        }
        for (number, one) in alone.iter_mut().enumerate() {
            if let Some(limit) = self.main_number(number, now) {
                one.several.limits.iter_mut().for_each(|report| report.limit = limit);
            }
        }
        self.tell(&alone, costs, &retry_at, status)
    }

    /// The number that the user wrote, also in an override, if it is not the largest cost.
    fn main_number(&self, number: usize, now: u64) -> Option<u64> {
        match self.spec(number, now) {
            Spec::Gcra(own) => Some(own.units),
            Spec::Continuous(own) | Spec::Interval(own) => Some(own.rate.burst),
            _ => None,
        }
    }

    /// The first microsecond at which one policy would admit the cost after the call, if the key is
    /// not blocked then.
    fn retry_at(&self, number: usize, left: &AnyOracle, now: u64, cost: u64, alone: &Alone) -> u64 {
        let Alone { status, several } = alone;
        let free_at = self.blocked_until[number].max(now);
        let longest = several.limits.iter().filter_map(|limit| limit.retry_after_ms).max();
        if *status != Status::Refused {
            return free_at;
        }
        let spec = self.spec(number, now);
        let (mut early, mut enough) = (now, now + longest.unwrap() * 1_000);
        early = early.max(enough - 1_000);
        while enough - early > 1 {
            let middle = u64::midpoint(early, enough);
            if left.admits(spec, middle, cost) {
                enough = middle;
            } else {
                early = middle;
            }
        }
        enough.min(self.changes_at(number, now)).max(free_at)
    }

    /// The end of the override, if one is active.
    fn changes_at(&self, number: usize, now: u64) -> u64 {
        if now < self.own_until[number] { self.own_until[number] } else { u64::MAX }
    }

    /// The limit that the decision reports, of all limits.
    fn tell(
        &self,
        alone: &[Alone],
        costs: &[u64],
        retry_at: &[u64],
        status: Status,
    ) -> (Expected, LimitReports) {
        let limits: Vec<_> = alone.iter().flat_map(|one| one.several.limits.clone()).collect();
        let place = |(number, limit): (usize, usize)| {
            let before = alone[..number].iter().map(|one| one.several.limits.len()).sum::<usize>();
            before + limit
        };
        let least = |value: fn(&LimitReport) -> u64| {
            let least = limits.iter().map(value).min().unwrap();
            limits.iter().position(|limit| value(limit) == least).unwrap()
        };
        let reported = match status {
            Status::Impossible => {
                let of_limits = alone.iter().zip(costs);
                let of_limits = of_limits.flat_map(|(one, &cost)| {
                    one.several.limits.iter().map(move |limit| (limit.capacity, cost))
                });
                let too_small = |&(_, (capacity, cost)): &(usize, (u64, u64))| capacity < cost;
                let too_small = of_limits.enumerate().filter(too_small);
                too_small.min_by_key(|(_, (capacity, _))| *capacity).unwrap().0
            }
            Status::Refused | Status::Blocked => {
                let latest = retry_at.iter().max().unwrap();
                let number = retry_at.iter().position(|retry_at| retry_at == latest).unwrap();
                // Of the limits of one policy, the limit that the policy would report alone. Under
                // a block, the first limit.
                let blocks = self.blocked_until[number] >= *latest;
                place((number, if blocks { 0 } else { alone[number].several.reported }))
            }
            _ => least(|limit| limit.remaining),
        };
        let told = limits[reported];
        let refused = matches!(status, Status::Refused | Status::Blocked);
        let expected = Expected {
            status: match (status, told.remaining) {
                (Status::Allowed, 0) => Status::AllowedLast,
                (status, _) => status,
            },
            limit: told.capacity,
            remaining: told.remaining,
            retry_after_ms: if refused { told.retry_after_ms.unwrap() } else { 0 },
            reset_after_ms: limits.iter().map(|limit| limit.reset_after_ms).max().unwrap(),
        };
        (expected, LimitReports { reported, limits: limits.into() })
    }
}
