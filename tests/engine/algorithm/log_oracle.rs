//! The policies of the sliding logs, and their oracle: a list that is added up at every call.

use proptest::prelude::*;
use tollgate::algorithm::{LogLimit, SlidingLog};
use tollgate::policy::Policy;
use tollgate::policy::decision::Status;
use tollgate::policy::multi_policy::{LimitReport, LimitReports};

use crate::algorithm::window_oracle::{Expected, Oracle};
use crate::policy::specs::any_window;

/// The numbers of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogSpec {
    /// Up to three limits, each with its window.
    pub(crate) limits: [(u64, u64); 3],
    count: usize,
    named: bool,
    pub(crate) precision: u64,
    pub(crate) count_refused: bool,
}

impl LogSpec {
    pub(crate) fn one(limit: u64, window: u64, count_refused: bool) -> Self {
        let limits = [(limit, window); 3];
        Self { limits, count: 1, named: false, precision: 1, count_refused }
    }

    pub(crate) fn several(limits: &[(u64, u64)], precision: u64) -> Self {
        let limit = |index| limits[index % limits.len()];
        let (limits, count) = ([limit(0), limit(1), limit(2)], limits.len());
        Self { limits, count, named: true, precision, count_refused: false }
    }

    pub(crate) fn limits(&self) -> &[(u64, u64)] {
        &self.limits[..self.count]
    }

    pub(crate) fn policy(self) -> Policy {
        let limit = |&(limit, window): &(u64, u64)| LogLimit { limit, window };
        let limits: Vec<_> = self.limits().iter().map(limit).collect();
        Policy::SlidingLog(match (self.named, &limits[..]) {
            (false, &[LogLimit { limit, window }, ..]) => {
                SlidingLog::new(limit, window, self.count_refused).unwrap()
            }
            _ => SlidingLog::with_limits(&limits, Some(self.precision)).unwrap(),
        })
    }

    pub(crate) fn longest(&self) -> u64 {
        self.limits().iter().map(|limit| limit.1).max().unwrap()
    }

    pub(crate) fn most(&self) -> u64 {
        self.limits().iter().map(|limit| limit.0).max().unwrap()
    }
}

/// A log that counts admitted calls.
pub(crate) fn any_log() -> impl Strategy<Value = LogSpec> {
    any_window().prop_map(|spec| LogSpec::one(spec.limit, spec.window, false))
}

/// A log that also counts refused calls.
pub(crate) fn any_counting_log() -> impl Strategy<Value = LogSpec> {
    any_window().prop_map(|spec| LogSpec::one(spec.limit, spec.window, true))
}

/// Any log of one limit.
pub(crate) fn any_one() -> impl Strategy<Value = LogSpec> {
    prop_oneof![any_log(), any_counting_log()]
}

/// One to three limits, declared in any order, with or without a precision.
pub(crate) fn any_logs() -> impl Strategy<Value = LogSpec> {
    let more = || (1..30_u64, 2..20_u64);
    let turn = (1..4_usize, 0..3_usize);
    let precision = prop_oneof![2 => Just(None), 1 => (1..=100_u64).prop_map(Some)];
    (any_window(), more(), more(), turn, precision).prop_map(
        |(first, second, third, (count, turn), percent)| {
            let second = (first.limit + second.0, first.window * second.1);
            let third = (second.0 + third.0, second.1 * third.1);
            let mut limits = vec![(first.limit, first.window), second, third];
            limits.truncate(count);
            limits.rotate_left(turn % count);
            let precision = percent.map_or(1, |percent| (first.window * percent / 100).max(1));
            LogSpec::several(&limits, precision)
        },
    )
}

/// The entries of a key as a list of times and units.
#[derive(Clone)]
pub(crate) struct LogOracle {
    list: Vec<(u64, u64)>,
    /// The latest time at which an entry was written.
    seen: u64,
    /// All units since the list was started.
    total: u64,
    /// The number of the newest units that refused calls do not push out.
    keep: u64,
    /// How long after its newest entry the log is needed.
    span: u64,
    /// The time at which other numbers take over: no retry time is later.
    pub(crate) changes_at: u64,
}

/// The smallest number that is 4 to 7 times a power of two and at least `length`.
fn rounded(length: u64) -> u64 {
    let spans = (0..51).flat_map(|power| (4..8_u64).map(move |times| times << power));
    spans.into_iter().find(|span| *span >= length).unwrap()
}

impl LogOracle {
    pub(crate) fn new() -> Self {
        Self { list: Vec::new(), seen: 0, total: 0, keep: 0, span: 0, changes_at: u64::MAX }
    }

    fn used(&self, window: u64, at: u64) -> u64 {
        let counts = |&&(time, _): &&(u64, u64)| at < time + window;
        self.list.iter().filter(counts).map(|entry| entry.1).sum()
    }

    fn write(&mut self, spec: LogSpec, at: u64, cost: u64) {
        let used = self.used(spec.longest(), at);
        if !spec.count_refused {
            self.keep = 0;
        } else if used == 0 {
            self.keep = spec.most();
        } else {
            self.keep = spec.most().max(if self.keep > 0 { self.keep } else { used });
        }
        let newest = self.list.last().map_or(0, |entry| entry.0);
        let time = (at.div_ceil(spec.precision) * spec.precision).max(newest);
        match self.list.last_mut() {
            Some(entry) if spec.precision > 1 && time == newest => entry.1 += cost,
            _ => self.list.push((time, cost)),
        }
        self.seen = at;
        self.span = self.span.max(rounded(spec.longest()));
        let before = self.total;
        self.total += cost;
        if spec.precision == 1 && before / 16 == self.total / 16 {
            return;
        }
        for _ in 0..100 {
            let newer: u64 = self.list[1..].iter().map(|entry| entry.1).sum();
            let pushed_out = self.keep > 0 && newer >= self.keep;
            if self.list[0].0 + spec.longest() <= at || pushed_out {
                self.list.remove(0);
            }
        }
    }

    pub(crate) fn is_ahead(&self, spec: LogSpec, now: u64) -> bool {
        self.seen > now + spec.longest()
    }

    /// The time from which the log is fresh.
    fn forgotten_at(&self) -> u64 {
        self.list.last().map_or(0, |newest| newest.0 + self.span)
    }

    /// The first time at which a window has room.
    fn frees_at(&self, (limit, window): (u64, u64), cost: u64) -> u64 {
        let ends = self.list.iter().map(|entry| entry.0 + window);
        let end = ends.into_iter().find(|&end| self.used(window, end) + cost <= limit).unwrap();
        end.min(self.forgotten_at())
    }

    pub(crate) fn take_all(
        &mut self,
        spec: LogSpec,
        now: u64,
        cost: u64,
    ) -> (Expected, LimitReports) {
        if self.is_ahead(spec, now) {
            let used = self.used(spec.longest(), self.seen);
            let used = if self.keep > 0 { used.min(self.keep) } else { used };
            let units = used.max(spec.most());
            self.list = vec![(now.div_ceil(spec.precision) * spec.precision, units)];
            (self.seen, self.total) = (now, units);
            self.keep = if spec.count_refused { units } else { 0 };
            self.span = self.span.max(rounded(spec.longest()));
        }
        if self.forgotten_at() <= now {
            *self = Self { changes_at: self.changes_at, ..Self::new() };
        }
        let at = now.max(self.seen);
        let smallest = spec.limits().iter().map(|limit| limit.0).min().unwrap();
        let fits = spec.limits().iter().all(|one| self.used(one.1, at) + cost <= one.0);
        let refused = !fits && cost <= smallest;
        if fits || (refused && spec.count_refused) {
            self.write(spec, at, cost);
        }
        let millis = |time: u64| time.saturating_sub(now).div_ceil(1_000);
        let newest = self.list.last().map_or(0, |entry| entry.0);
        let numbers = |&(limit, window): &(u64, u64)| {
            let used = self.used(window, at);
            let retry_at = match refused && used + cost > limit {
                true => self.frees_at((limit, window), cost),
                false => 0,
            };
            LimitReport {
                limit,
                capacity: limit,
                remaining: limit.saturating_sub(used),
                retry_after_ms: (fits || refused || cost <= limit).then(|| millis(retry_at)),
                next_after_ms: 0,
                reset_after_ms: millis((newest + window).min(self.forgotten_at())),
                mark: 0,
            }
        };
        let limits: Vec<_> = spec.limits().iter().map(numbers).collect();
        let retry_at = |one: &(u64, u64)| match self.used(one.1, at) + cost > one.0 {
            true => self.frees_at(*one, cost).min(self.changes_at),
            false => 0,
        };
        let mut order: Vec<usize> = (0..limits.len()).collect();
        // A stable sort: the first of equal limits wins.
        order.sort_by_key(|&index| match (fits, refused) {
            (true, _) => limits[index].remaining,
            (_, true) => u64::MAX - retry_at(&spec.limits()[index]),
            _ => limits[index].limit,
        });
        let told = limits[order[0]];
        let expected = Expected {
            status: match (fits, refused, told.remaining) {
                (true, _, 0) => Status::AllowedLast,
                (true, ..) => Status::Allowed,
                (_, true, _) => Status::Refused,
                _ => Status::Impossible,
            },
            limit: told.limit,
            remaining: told.remaining,
            retry_after_ms: if refused { told.retry_after_ms.unwrap() } else { 0 },
            reset_after_ms: limits.iter().map(|one| one.reset_after_ms).max().unwrap(),
        };
        (expected, LimitReports { reported: order[0], limits: limits.into() })
    }
}

impl Oracle for LogOracle {
    type Spec = LogSpec;

    fn take(&mut self, spec: LogSpec, now: u64, cost: u64) -> Expected {
        self.take_all(spec, now, cost).0
    }
}
