//! The oracles of the buckets that may begin low and may have debt.
//!
//! The engine stores when a bucket will be full. The oracle of the continuous bucket stores a
//! level, as a rational number, and its time. The oracle of the bucket that is refilled at
//! intervals stores for each used unit the time of its return.

use num_rational::BigRational;
use num_traits::{One as _, Zero as _};
use tollgate::algorithm::Levels;
use tollgate::policy::decision::Status;

use crate::algorithm::buckets::BucketSpec;
use crate::algorithm::window_oracle::{Expected, Oracle, floor, millis_up, status, whole};
use crate::policy::specs::DAY;

/// The numbers that every bucket reports, in whole units, because a part of a unit admits nothing.
fn expected(levels: Levels, admitted: bool, cost: u64, used: u64) -> (Status, u64) {
    let (level, debt) = (i128::from(levels.capacity) - i128::from(used), i128::from(levels.debt));
    let remaining = if level >= 1 { u64::try_from(level + debt).unwrap() } else { 0 };
    (status(admitted, cost, levels.capacity + levels.debt, remaining), remaining)
}

/// A level and its time, under the numbers of the call that wrote it.
#[derive(Clone)]
struct Seen {
    /// May be above the capacity: the excess shows how long the bucket has been full.
    level: BigRational,
    at: u64,
    spec: BucketSpec,
    lingers: bool,
}

impl Seen {
    fn per_micro(&self) -> BigRational {
        whole(self.spec.rate.units) / whole(self.spec.rate.period)
    }

    /// Units missing at `now`; below 0 if the bucket has been full for some time.
    fn wanting(&self, now: u64) -> BigRational {
        let gained = (whole(now) - whole(self.at)) * self.per_micro();
        whole(self.spec.rate.burst) - &self.level - gained
    }

    /// Microseconds until the key is fresh; below 0 if it is fresh already.
    fn forgotten_in(&self, now: u64) -> BigRational {
        let linger = if self.lingers { whole(DAY) } else { BigRational::zero() };
        self.wanting(now) / self.per_micro() + linger
    }

    fn most(&self) -> BigRational {
        whole(self.spec.rate.burst + self.spec.debt)
    }
}

/// The token bucket with continuous refill.
#[derive(Clone)]
pub(crate) struct ContinuousOracle(Option<Seen>);

impl ContinuousOracle {
    pub(crate) fn new() -> Self {
        Self(None)
    }

    /// After a clock step: fully used now.
    pub(crate) fn repair(&mut self, now: u64) {
        if let Some(seen) = &mut self.0
            && seen.wanting(now) > seen.most()
        {
            (seen.level, seen.at) = (-whole(seen.spec.debt), now);
        }
    }

    /// The milliseconds until the key is fresh.
    pub(crate) fn reset_after_ms(&self, now: u64) -> u64 {
        let reset = self.0.as_ref().map_or(whole(0), |seen| seen.forgotten_in(now));
        millis_up(&reset.max(whole(0)))
    }
}

impl Oracle for ContinuousOracle {
    type Spec = BucketSpec;

    fn take(&mut self, spec: BucketSpec, now: u64, cost: u64) -> Expected {
        let levels = spec.levels();
        let (capacity, debt) = (whole(levels.capacity), whole(levels.debt));
        let low = levels.begins_low();
        self.repair(now);
        let forgotten = self.0.as_ref().is_none_or(|seen| seen.forgotten_in(now) <= whole(0));
        if low && forgotten {
            self.0 = Some(Seen { level: whole(levels.initial), at: now, spec, lingers: true });
        } else if let Some(seen) = self.0.as_mut().filter(|_| low) {
            seen.lingers = true;
        }
        let wanting = self.0.as_ref().map_or(whole(0), |seen| seen.wanting(now)).max(whole(0));
        let same = self.0.as_ref().is_none_or(|seen| {
            seen.per_micro() == whole(spec.rate.units) / whole(spec.rate.period)
                && seen.most() == &capacity + &debt
                && seen.lingers == low
        });
        let counted = if same { wanting.clone() } else { wanting.ceil() };
        let mut level = &capacity - counted;
        let admitted = level >= BigRational::one() && &level - whole(cost) >= -&debt;
        if admitted {
            level -= whole(cost);
            self.0 = Some(Seen { level: level.clone(), at: now, spec, lingers: low });
        }
        let used = (&capacity - level).ceil();
        let (status, remaining) = expected(levels, admitted, cost, floor(&used));
        let seen = self.0.as_ref();
        let retry_after_ms = match (status, seen) {
            (Status::Refused, Some(seen)) => {
                // The bucket may lack at most the units that leave one token, and that keep the
                // level after the cost at -debt or above.
                let may_lack = (&capacity - whole(1)).min(capacity + debt - whole(cost));
                millis_up(&((wanting - may_lack) / seen.per_micro()))
            }
            _ => 0,
        };
        let limit = levels.capacity + levels.debt;
        let reset_after_ms = self.reset_after_ms(now);
        Expected { status, limit, remaining, retry_after_ms, reset_after_ms }
    }
}

/// For each used unit the time of its return, in order, and the numbers that wrote it.
#[derive(Clone)]
struct Due {
    times: Vec<u64>,
    spec: BucketSpec,
    lingers: bool,
}

impl Due {
    fn schedule(spec: BucketSpec, begin: u64, units: u64) -> Self {
        let time = |unit| begin + (unit / spec.rate.units + 1) * spec.rate.period;
        Self { times: (0..units).map(time).collect(), spec, lingers: spec.levels().begins_low() }
    }

    fn last(&self) -> u64 {
        *self.times.last().unwrap()
    }

    fn forgotten_at(&self) -> u64 {
        self.last() + if self.lingers { DAY } else { 0 }
    }
}

/// The token bucket refilled at intervals.
#[derive(Clone)]
pub(crate) struct IntervalOracle(Option<Due>);

impl IntervalOracle {
    pub(crate) fn new() -> Self {
        Self(None)
    }

    /// After a clock step: fully used now.
    pub(crate) fn repair(&mut self, now: u64) {
        if let Some(due) = &mut self.0 {
            let fully_used = Due::schedule(due.spec, now, due.spec.rate.burst + due.spec.debt);
            if due.last() > fully_used.last() {
                due.times = fully_used.times;
            }
        }
    }

    /// The milliseconds until the key is fresh.
    pub(crate) fn reset_after_ms(&self, now: u64) -> u64 {
        let reset_at = self.0.as_ref().map_or(0, Due::forgotten_at);
        reset_at.saturating_sub(now).div_ceil(1_000)
    }
}

impl Oracle for IntervalOracle {
    type Spec = BucketSpec;

    fn take(&mut self, spec: BucketSpec, now: u64, cost: u64) -> Expected {
        let levels = spec.levels();
        self.repair(now);
        if levels.begins_low() {
            match &mut self.0 {
                Some(due) if due.forgotten_at() > now => due.lingers = true,
                _ => self.0 = Some(Due::schedule(spec, now, levels.capacity - levels.initial)),
            }
        }
        let times: &[u64] = self.0.as_ref().map_or(&[], |due| &due.times);
        let open: Vec<u64> = times.iter().copied().filter(|&time| time > now).collect();
        let used = u64::try_from(open.len()).unwrap();
        let admitted = used < levels.capacity && used + cost <= levels.capacity + levels.debt;
        let left = used + if admitted { cost } else { 0 };
        let (status, remaining) = expected(levels, admitted, cost, left);
        let retry_at = if status == Status::Refused {
            let may_lack = (levels.capacity - 1).min(levels.capacity + levels.debt - cost);
            open[usize::try_from(used - may_lack).unwrap() - 1]
        } else {
            now
        };
        if admitted {
            let interval = |due: &Due| open.first().map(|end| end - due.spec.rate.period);
            let running = self.0.as_ref().and_then(interval);
            let runs_on = |begin: &u64| *begin <= now && now - *begin < spec.rate.period;
            let begin = running.filter(runs_on).unwrap_or(now);
            self.0 = Some(Due::schedule(spec, begin, left));
        }
        Expected {
            status,
            limit: levels.capacity + levels.debt,
            remaining,
            retry_after_ms: (retry_at - now).div_ceil(1_000),
            reset_after_ms: self.reset_after_ms(now),
        }
    }
}
