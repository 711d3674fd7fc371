//! The calendar's windows: their laws, and an oracle that finds boundaries by walking along the
//! local clock.

use std::collections::HashMap;

use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan as _};
use proptest::prelude::*;
use tollgate::algorithm::{Algorithm as _, CalendarWindow, KeyState as _, Outcome};
use tollgate::calendar::Every;
use tollgate::key::Key;
use tollgate::memory::MemoryStore;
use tollgate::policy::decision::Status;
use tollgate::policy::{Policy, State};

use crate::algorithm::window_oracle::{Expected, Oracle, status};
use crate::laws::exactness::{is_exact, retry_after_is_exact};
use crate::laws::max_admission::{self, admitted};
use crate::laws::min_admission::admits;
use crate::laws::trace::{Admitted, START, any_trace, most_in_any_window};
use crate::laws::twins::equals;
use crate::policy::specs::{HOUR, SECOND};
use crate::redis::twins;

/// The numbers of a calendar window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CalendarSpec {
    pub(crate) limit: u64,
    pub(crate) every: Every,
    pub(crate) zone: &'static str,
}

impl CalendarSpec {
    pub(crate) fn window(self) -> CalendarWindow {
        CalendarWindow::new(self.limit, self.every, self.zone).unwrap()
    }

    pub(crate) fn policy(self) -> Policy {
        Policy::CalendarWindow(self.window())
    }
}

/// Zones whose offset changes by an hour, by half an hour, twice in Ramadan, by two hours, or
/// never.
const ZONES: [&str; 7] = [
    "UTC",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "Antarctica/Troll",
    "America/Havana",
];

/// Parts of a day by their seconds, and longer periods by their names.
const WINDOWS: [u64; 8] = [60, 900, 1_800, 3_600, 7_200, 21_600, DAY, WEEK];
const DAY: u64 = 86_400;
const WEEK: u64 = 7 * DAY;
const MONTH: u64 = 31 * DAY;

fn every(seconds: u64) -> Every {
    match seconds {
        WEEK => Every::Week,
        MONTH => Every::Month,
        _ => Every::part(seconds * SECOND).unwrap(),
    }
}

fn any_every() -> impl Strategy<Value = Every> {
    prop_oneof![8 => prop::sample::select(&WINDOWS[..]), 1 => Just(MONTH)].prop_map(every)
}

fn any_of(every: impl Strategy<Value = Every>) -> impl Strategy<Value = CalendarSpec> {
    let limit = prop_oneof![Just(1), 2..20_u64, 20..2_000_u64, Just(9_000)];
    (limit, every, prop::sample::select(&ZONES[..])).prop_map(|(limit, every, zone)| CalendarSpec {
        limit,
        every,
        zone,
    })
}

pub(crate) fn any_calendar() -> impl Strategy<Value = CalendarSpec> {
    any_of(any_every())
}

/// Versions with windows of equal length, in other zones and with other limits.
fn any_of_one_kind() -> impl Strategy<Value = Vec<CalendarSpec>> {
    any_every().prop_flat_map(|every| prop::collection::vec(any_of(Just(every)), 2..5))
}

/// The boundaries, found step by step. Every current change of an offset is on a quarter of an
/// hour.
#[derive(Debug, Clone)]
pub(crate) struct Walk {
    zone: TimeZone,
    every: Every,
}

impl Walk {
    pub(crate) fn new(spec: CalendarSpec) -> Self {
        Self { zone: TimeZone::get(spec.zone).unwrap(), every: spec.every }
    }

    fn step(&self) -> i64 {
        WINDOWS
            .into_iter()
            .find(|&window| every(window) == self.every)
            .map_or(900, |window| i64::try_from(window).unwrap().min(900))
    }

    fn clock(&self, second: i64) -> i64 {
        let instant = Timestamp::from_second(second).unwrap();
        Offset::UTC.to_timestamp(self.zone.to_datetime(instant)).unwrap().as_second()
    }

    fn date(&self, second: i64) -> Date {
        let date = self.zone.to_datetime(Timestamp::from_second(second).unwrap()).date();
        match self.every {
            Every::Week => date - i64::from(date.weekday().to_monday_zero_offset()).days(),
            Every::Month => date.first_of_month(),
            _ => date,
        }
    }

    fn is_part(&self) -> Option<i64> {
        let part = |window: &u64| *window < DAY && every(*window) == self.every;
        WINDOWS.into_iter().find(part).map(|window| i64::try_from(window).unwrap())
    }

    /// The end of the window that contains `now`, in milliseconds.
    pub(crate) fn end_after(&self, now: u64) -> u64 {
        let (now, step) = (i64::try_from(now / SECOND).unwrap(), self.step());
        let mut at = now - now.rem_euclid(step);
        let latest = (0..200).map(|ago| self.date(at - ago * 900)).max().unwrap();
        loop {
            let before = self.clock(at);
            at += step;
            let ends = match self.is_part() {
                Some(length) => {
                    let clock = self.clock(at);
                    let at_multiple = |clock: i64| clock.rem_euclid(length) == 0;
                    let moves = clock.div_euclid(length) != before.div_euclid(length);
                    moves || at_multiple(before + step) || at_multiple(clock)
                }
                None => self.date(at) > latest,
            };
            if ends {
                return u64::try_from(at).unwrap() * 1_000;
            }
        }
    }

    /// Twice the longest window.
    fn horizon(&self) -> u64 {
        let hours = |hours: u64| 2 * hours * HOUR;
        match (self.is_part(), self.every) {
            (Some(length), _) => 2 * u64::try_from(length).unwrap() * SECOND,
            (_, Every::Day) => hours(25),
            (_, Every::Week) => hours(7 * 24 + 1),
            _ => hours(31 * 24 + 1),
        }
    }
}

/// The calls of the open window, and its end in milliseconds.
#[derive(Clone)]
pub(crate) struct CalendarOracle {
    costs: Vec<u64>,
    ends_ms: u64,
    walks: HashMap<String, Walk>,
}

impl CalendarOracle {
    pub(crate) fn new() -> Self {
        Self { costs: Vec::new(), ends_ms: 0, walks: HashMap::new() }
    }
}

impl Oracle for CalendarOracle {
    type Spec = CalendarSpec;

    fn take(&mut self, spec: CalendarSpec, now: u64, cost: u64) -> Expected {
        let name = format!("{:?} {}", spec.every, spec.zone);
        let walk = self.walks.entry(name).or_insert_with(|| Walk::new(spec));
        if self.ends_ms * 1_000 > now + walk.horizon() {
            // A clock step or a longer window: the count stays until the next boundary.
            self.ends_ms = walk.end_after(now);
        }
        // A window that has ended is kept until a call opens the next, because the clock may step
        // back.
        let mut open = self.ends_ms * 1_000 > now;
        let count = |costs: &[u64], open| if open { costs.iter().sum() } else { 0 };
        let admitted = count(&self.costs, open) + cost <= spec.limit;
        if admitted && !open {
            (self.costs, self.ends_ms, open) = (Vec::new(), walk.end_after(now), true);
        }
        if admitted {
            self.costs.push(cost);
        }
        let remaining = spec.limit.saturating_sub(count(&self.costs, open));
        let status = status(admitted, cost, spec.limit, remaining);
        // The allowance is renewed at the end of the window, whether or not a call has opened it.
        let ends_ms = if open { self.ends_ms } else { walk.end_after(now) };
        let reset_after_ms = (ends_ms * 1_000 - now).div_ceil(1_000);
        let refused = status == Status::Refused;
        let retry_after_ms = if refused { reset_after_ms } else { 0 };
        Expected { status, limit: spec.limit, remaining, retry_after_ms, reset_after_ms }
    }
}

/// The most units admitted in any of the calendar's windows.
fn most_in_any_calendar_window(spec: CalendarSpec, trace: &[Admitted]) -> u64 {
    let (walk, mut ends) = (Walk::new(spec), HashMap::<u64, u64>::new());
    let mut end = 0;
    for call in trace {
        if call.at >= end * 1_000 {
            end = walk.end_after(call.at);
        }
        *ends.entry(end).or_default() += call.cost;
    }
    ends.into_values().max().unwrap_or(0)
}

/// The shortest possible length of a window: half an hour for windows of an hour or two, an hour for
/// windows of six hours (Havana repeats the hour after midnight), and two hours less than a day or
/// a longer window.
pub(crate) fn shortest(every: Every) -> u64 {
    let seconds = WINDOWS.into_iter().find(|&window| self::every(window) == every);
    match seconds.unwrap_or(28 * DAY) {
        long @ DAY.. => (long - 7_200) * SECOND,
        7_200 => 1_800 * SECOND,
        21_600 => 3_600 * SECOND,
        short => short.min(1_800) * SECOND,
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(max_admission::TRACES))]

    // promise: calendar-window-law
    #[test]
    fn at_most_the_limit_per_window_and_twice_that_in_any_span_as_long_as_the_shortest(
        spec in any_calendar(),
        trace in any_trace(max_admission::STEPS),
    ) {
        let admitted = admitted(&[spec.policy()], &trace);
        prop_assert!(most_in_any_calendar_window(spec, &admitted) <= spec.limit);
        prop_assert!(most_in_any_window(&admitted, shortest(spec.every)) <= 2 * spec.limit);
    }

    /// Versions in other zones (or with other time zone data) side by side: all of them keep the
    /// end of a window, whichever version opened it.
    #[test]
    fn side_by_side_each_window_that_was_opened_admits_at_most_the_larger_limit(
        specs in any_of_one_kind(),
        trace in any_trace(max_admission::STEPS),
    ) {
        let policies: Vec<Policy> = specs.iter().map(|spec| spec.policy()).collect();
        let most = specs.iter().map(|spec| spec.limit).max().unwrap();
        let (mut now, mut state) = (START, policies[0].initial_state());
        let mut admitted = 0;
        for step in &trace {
            let policy = &policies[step.choice % policies.len()];
            now = step.time.onward_from(now, state.reset_at(), now);
            let (cost, ends) = (step.cost.of(policy.capacity()), state.reset_at());
            if policy.charge(&mut state, now, cost) == Outcome::Admitted {
                admitted = if state.reset_at() == ends { admitted + cost } else { cost };
            }
            prop_assert!(state.reset_at() == ends || ends <= now, "an open window was moved");
            prop_assert!(admitted <= most);
        }
    }

    #[test]
    fn a_lone_caller_gets_the_limit_in_every_window_up_to_its_end(
        spec in any_calendar(),
        off in 0..400 * 86_400 * SECOND,
    ) {
        let (policy, walk) = (spec.policy(), Walk::new(spec));
        let (mut state, mut now) = (policy.initial_state(), START + off);
        for _ in 0..5 {
            for unit in 0..spec.limit {
                prop_assert!(admits(&policy, &mut state, now), "unit {}", unit);
            }
            let end = walk.end_after(now) * 1_000;
            prop_assert!(!admits(&policy, &mut state, now));
            prop_assert!(!admits(&policy, &mut state.clone(), end - 1));
            now = end;
        }
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(256))]

    #[test]
    fn what_is_said_of_calendar_windows_is_so(
        specs in (any_calendar(), any_calendar()),
        trace in any_trace(crate::laws::exactness::STEPS),
    ) {
        is_exact(&specs.0.policy(), &trace)?;
        retry_after_is_exact(&[specs.0.policy(), specs.1.policy()], &trace)?;
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(crate::laws::twins::TRACES))]

    #[test]
    fn calendar_window_equals_the_oracle(
        specs in prop::collection::vec(any_calendar(), 1..4),
        trace in any_trace(crate::laws::twins::STEPS),
    ) {
        equals(CalendarOracle::new(), &specs, CalendarSpec::policy, &trace)?;
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(256))]

    /// Ten times as many keys as the store has entries. Their windows end together. So a key that
    /// shares a count, or gets its own entry, still gets the limit in each window.
    #[test]
    fn no_key_of_a_full_store_gets_more_than_the_limit_in_a_window(
        seed in any::<(u64, u64)>(),
        calls in prop::collection::vec((0..100_u64, 1..4_u64, 0..SECOND / 20), 2_000),
    ) {
        let spec = CalendarSpec { limit: 5, every: every(1), zone: "Asia/Kathmandu" };
        let ledger = MemoryStore::new(10, seed).open("api", spec.policy()).unwrap();
        let (mut taken, mut now) = (HashMap::<(u64, u64), u64>::new(), START);
        for (key, cost, gap) in calls {
            now += gap;
            let decision = ledger.take(Key::new(&key.to_string()).unwrap(), cost, &now);
            if matches!(decision.status, Status::Allowed | Status::AllowedLast) {
                let units = taken.entry((key, now / SECOND)).or_default();
                *units += cost;
                prop_assert!(*units <= spec.limit);
            }
        }
    }
}

#[test]
fn calendar_window_in_lua_equals_rust_and_the_oracle() {
    let cases = (prop::collection::vec(any_calendar(), 1..4), any_trace(twins::STEPS));
    twins::proven(cases, |server, (specs, trace)| {
        twins::equal(server, CalendarOracle::new, &specs, CalendarSpec::policy, &trace)
    });
}

#[test]
fn an_unused_key_of_a_calendar_is_as_that_of_a_window() {
    let spec = CalendarSpec { limit: 3, every: Every::Day, zone: "UTC" };
    assert!(matches!(spec.policy().initial_state(), State::Window(state) if state.count == 0));
}
