//! Particular days of particular zones, and an oracle that reads the local clock second by second.

use jiff::civil::Date;
use jiff::tz::{self, Offset, TimeZone};
use jiff::{Timestamp, ToSpan as _};

use super::*;

/// The time of a text such as `2026-03-29T02:59:59.999999Z`.
fn at(text: &str) -> Micros {
    u64::try_from(text.parse::<Timestamp>().unwrap().as_microsecond()).unwrap()
}

fn text(ms: u64) -> String {
    Timestamp::from_millisecond(ms.cast_signed()).unwrap().to_string()
}

/// Windows of whole hours, such as `2h`, of minutes, such as `30m`, or by their name.
fn every(name: &str) -> Every {
    let minutes = |number: &str, each: u64| {
        Every::part(number.parse::<u64>().unwrap() * each * 60 * MICROS_PER_SECOND).unwrap()
    };
    match name {
        "day" => Every::Day,
        "week" => Every::Week,
        "month" => Every::Month,
        "hour" => Every::HOUR,
        _ if name.ends_with('h') => minutes(&name[..name.len() - 1], 60),
        _ => minutes(&name[..name.len() - 1], 1),
    }
}

fn calendar(name: &str, zone: &str) -> Calendar {
    Calendar::new(every(name), zone).unwrap()
}

fn time_zone(name: &str) -> TimeZone {
    tz::db().get(name).unwrap()
}

fn timestamp(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A zone that supplies only its offsets.
#[derive(Debug)]
struct Shown(TimeZone);

impl Zone for Shown {
    fn offset(&self, at: i64) -> i64 {
        self.0.offset(at)
    }
}

/// Checks that following the boundaries from the first one finds exactly these.
fn walks(name: &str, zone: &str, boundaries: &[&str]) {
    let calendar = calendar(name, zone);
    for ends in boundaries.windows(2) {
        let (begins, end) = (at(ends[0]), ends[1]);
        assert_eq!(text(calendar.end_after(begins)), end, "{name} in {zone}, from its begin");
        let fresh = self::calendar(name, zone);
        assert_eq!(text(fresh.end_after(at(end) - 1)), end, "{name} in {zone}, up to its end");
        assert_eq!(text(fresh.end_after(begins)), end, "{name} in {zone}, from its begin again");
    }
}

#[test]
fn new_york_has_days_of_23_and_25_hours() {
    walks(
        "day",
        "America/New_York",
        &["2026-03-07T05:00:00Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"],
    );
    walks(
        "day",
        "America/New_York",
        &["2026-10-31T04:00:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"],
    );
}

#[test]
fn berlin_repeats_an_hour_and_leaves_one_out() {
    walks(
        "hour",
        "Europe/Berlin",
        // 02:00 to 03:00 twice, by summer time and by standard time.
        &["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"],
    );
    walks("hour", "Europe/Berlin", &["2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"]);
    // 00:00 to 06:00, with an hour more and an hour less.
    walks("6h", "Europe/Berlin", &["2026-10-24T22:00:00Z", "2026-10-25T05:00:00Z"]);
    walks("6h", "Europe/Berlin", &["2026-03-28T23:00:00Z", "2026-03-29T04:00:00Z"]);
    // 02:00 to 03:00, and again 02:00 to 04:00.
    let two = ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T03:00:00Z"];
    walks("2h", "Europe/Berlin", &two);
    // 00:00 to 02:00, then 03:00 to 04:00.
    let two = ["2026-03-28T23:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"];
    walks("2h", "Europe/Berlin", &two);
}

#[test]
fn lord_howe_changes_by_half_an_hour() {
    // Back from 02:00 to 01:30, then on to 02:00.
    let back = [
        "2026-04-04T14:00:00Z",
        "2026-04-04T15:00:00Z",
        "2026-04-04T15:30:00Z",
        "2026-04-04T16:30:00Z",
    ];
    walks("hour", "Australia/Lord_Howe", &back);
    // On from 02:00 to 02:30, then to 03:00.
    let on = [
        "2026-10-03T14:30:00Z",
        "2026-10-03T15:30:00Z",
        "2026-10-03T16:00:00Z",
        "2026-10-03T17:00:00Z",
    ];
    walks("hour", "Australia/Lord_Howe", &on);
    walks("day", "Australia/Lord_Howe", &["2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z"]);
}

#[test]
fn zones_with_half_and_quarter_hours_have_their_own_hours() {
    walks("hour", "Asia/Kathmandu", &["2026-06-01T00:15:00Z", "2026-06-01T01:15:00Z"]);
    walks("hour", "Asia/Kolkata", &["2026-06-01T00:30:00Z", "2026-06-01T01:30:00Z"]);
    walks("day", "Asia/Kathmandu", &["2026-05-31T18:15:00Z", "2026-06-01T18:15:00Z"]);
    walks("day", "Asia/Kolkata", &["2026-05-31T18:30:00Z", "2026-06-01T18:30:00Z"]);
    walks("30m", "Asia/Kathmandu", &["2026-06-01T00:15:00Z", "2026-06-01T00:45:00Z"]);
}

#[test]
fn a_day_without_midnight_begins_when_the_clock_jumps_past_it() {
    // Clocks went from 24:00 to 01:00.
    let sao_paulo = ["2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"];
    walks("day", "America/Sao_Paulo", &sao_paulo);
    walks("day", "Africa/Cairo", &["2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"]);
    let asuncion = ["2017-09-01T04:00:00Z", "2017-10-01T04:00:00Z", "2017-11-01T03:00:00Z"];
    walks("month", "America/Asuncion", &asuncion);
    // From 23:30 to 00:30: the gap began before midnight.
    let toronto = calendar("day", "America/Toronto");
    let [jump, before] = ["1919-03-31T04:30:00Z", "1919-03-30T05:00:00Z"]
        .map(|instant| instant.parse::<Timestamp>().unwrap().as_second());
    assert_eq!(toronto.boundary_after(before), jump);
}

#[test]
fn a_clock_that_is_set_back_over_midnight_begins_no_day_twice() {
    // In Newfoundland at 00:01, to 23:01 of the day before.
    let st_johns = ["2008-11-01T02:30:00Z", "2008-11-02T02:30:00Z", "2008-11-03T03:30:00Z"];
    walks("day", "America/St_Johns", &st_johns);
    // In Cuba from 01:00 to 00:00.
    walks("day", "America/Havana", &["2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"]);
    // In Brazil from 24:00 to 23:00.
    walks("day", "America/Sao_Paulo", &["2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z"]);
}

#[test]
fn a_date_that_the_zone_skips_has_no_window() {
    // Samoa went from the 29th to the 31st.
    let days = ["2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"];
    walks("day", "Pacific/Apia", &days);
    walks("12h", "Pacific/Apia", &["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z"]);
    walks("week", "Pacific/Apia", &["2011-12-26T10:00:00Z", "2012-01-01T10:00:00Z"]);
    walks("month", "Pacific/Apia", &["2011-12-01T10:00:00Z", "2011-12-31T10:00:00Z"]);
}

#[test]
fn months_have_their_own_lengths() {
    let leap = ["2028-01-01T00:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"];
    walks("month", "UTC", &leap);
    walks("month", "UTC", &["2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z"]);
    walks("month", "UTC", &["2100-02-01T00:00:00Z", "2100-03-01T00:00:00Z"]);
    walks("month", "UTC", &["2027-12-01T00:00:00Z", "2028-01-01T00:00:00Z"]);
    walks("month", "Europe/Berlin", &["2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z"]);
    assert_eq!(
        text(calendar("month", "UTC").end_after(at("2028-02-29T23:59:59.999999Z"))),
        leap[2]
    );
}

#[test]
fn weeks_begin_on_monday_whatever_the_year() {
    let weeks = ["2026-12-21T00:00:00Z", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"];
    walks("week", "UTC", &weeks);
    walks("week", "Asia/Shanghai", &["2025-12-28T16:00:00Z", "2026-01-04T16:00:00Z"]);
    // Weeks of 167 and of 169 hours.
    walks("week", "Europe/Berlin", &["2026-03-22T23:00:00Z", "2026-03-29T22:00:00Z"]);
    walks("week", "Europe/Berlin", &["2026-10-18T22:00:00Z", "2026-10-25T23:00:00Z"]);
}

#[test]
fn the_first_and_the_last_times_have_windows() {
    for name in ["day", "week", "month", "hour", "6h"] {
        let calendar = calendar(name, "Pacific/Kiritimati");
        for now in [0, 1, crate::time::MAX_TIME] {
            assert!(calendar.end_after(now) * 1_000 > now, "{name}");
            assert!(calendar.around(now)[BEFORE] * 1_000 > now, "{name}");
        }
    }
}

#[test]
fn a_part_divides_a_day_in_whole_seconds() {
    let part = |seconds: u64| Every::part(seconds * MICROS_PER_SECOND);
    assert_eq!(part(3_600), Some(Every::HOUR));
    assert_eq!(part(86_400), Some(Every::Day));
    for seconds in [1, 2, 60, 675, 43_200] {
        assert!(part(seconds).is_some(), "{seconds}");
    }
    for seconds in [0, 7, 86_399, 172_800, 604_800, u64::from(u32::MAX) + 1 + 3_600] {
        assert!(part(seconds).is_none(), "{seconds}");
    }
    assert_eq!(Every::part(500_000), None);
    assert_eq!(Every::part(1_500_000), None);
}

#[test]
fn names_are_known_in_any_case_also_those_that_a_system_may_have_left_out() {
    for name in ["UTC", "utc", "Europe/Berlin", "europe/BERLIN", "US/Pacific", "Asia/Calcutta"] {
        assert!(is_time_zone(name), "{name}");
    }
    for name in ["", "Berlin", "Europe", "+02:00", "Etc/Unknown", "../zoneinfo/UTC", "posix/UTC"] {
        assert!(!is_time_zone(name), "{name}");
    }
}

/// Zones with all kinds of clock changes, and times around these changes.
const CHANGES: [(&str, &str); 14] = [
    ("America/New_York", "2026-11-01T06:00:00Z"),
    ("Europe/Berlin", "2026-03-29T01:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
    ("Asia/Kathmandu", "1985-12-31T18:30:00Z"),
    ("America/Sao_Paulo", "2018-11-04T03:00:00Z"),
    ("America/Sao_Paulo", "2018-02-18T02:00:00Z"),
    ("Pacific/Apia", "2011-12-30T10:00:00Z"),
    ("America/St_Johns", "2008-11-02T02:31:00Z"),
    ("America/St_Johns", "1988-04-03T03:31:00Z"),
    ("America/Havana", "2026-11-01T05:00:00Z"),
    ("Antarctica/Troll", "2026-10-25T01:00:00Z"),
    ("Africa/Casablanca", "2026-03-22T02:00:00Z"),
    ("Pacific/Kwajalein", "1993-08-21T12:00:00Z"),
];

const NAMES: [&str; 9] = ["day", "week", "month", "hour", "30m", "15m", "2h", "6h", "12h"];

/// The seconds of the local clock since 1970 by that clock.
fn clock(zone: &TimeZone, second: i64) -> i64 {
    Offset::UTC.to_timestamp(zone.to_datetime(timestamp(second))).unwrap().as_second()
}

/// Whether a window ends at a second, by the rules at the head of the module and by the local clock
/// alone.
fn is_boundary(zone: &TimeZone, every: Every, second: i64, latest: &mut Option<Date>) -> bool {
    let date = zone.to_datetime(timestamp(second)).date();
    let window = match every {
        Every::Day => date,
        Every::Week => date - i64::from(date.weekday().to_monday_zero_offset()).days(),
        Every::Month => date.first_of_month(),
        Every::DayPart(DayPart(length)) => {
            let length = i64::from(length);
            let [before, now] = [second - 1, second].map(|second| clock(zone, second));
            let at_multiple = |clock: i64| clock.rem_euclid(length) == 0;
            let moves = before.div_euclid(length) != now.div_euclid(length);
            return moves || at_multiple(now) || at_multiple(before + 1);
        }
    };
    let begins = latest.is_some_and(|latest| window > latest);
    *latest = (*latest).max(Some(window));
    begins
}

/// Checks each second of three days around a change, in the minutes in which anything can change.
fn scanned(zone: &TimeZone, every: Every, from: i64, to: i64) -> Vec<i64> {
    let mut latest = None;
    // After two days the latest boundary is known.
    (from - 2 * 86_400..to)
        .filter(|second| second.rem_euclid(60) == 0)
        .filter(|&second| is_boundary(zone, every, second, &mut latest))
        .filter(|&second| second > from)
        .collect()
}

#[test]
fn boundaries_are_those_that_the_local_clock_shows() {
    for (zone, change) in CHANGES {
        let change = (at(change) / MICROS_PER_SECOND).cast_signed();
        for name in NAMES {
            let calendar = calendar(name, zone);
            let (from, to) = (change - 86_400 * 3 / 2, change + 86_400 * 3 / 2);
            let mut found = Vec::new();
            let mut second = from;
            while second < to {
                second = calendar.boundary_after(second);
                found.push(second);
            }
            found.retain(|&second| second < to);
            let expected = scanned(&time_zone(zone), calendar.every, from, to);
            assert_eq!(found, expected, "{name} in {zone} around {change}");
        }
    }
}

#[test]
fn windows_partition_time_from_wherever_they_are_looked_at() {
    for (zone, change) in CHANGES {
        let change = at(change) / MICROS_PER_SECOND;
        for name in NAMES {
            let shared = calendar(name, zone);
            let mut last = 0;
            for second in (change - 100_000..change + 100_000).step_by(397) {
                let fresh = calendar(name, zone).end_after(second * MICROS_PER_SECOND);
                assert_eq!(shared.end_after(second * MICROS_PER_SECOND), fresh, "{name} in {zone}");
                assert!(fresh > second * MILLIS_PER_SECOND && fresh >= last, "{name} in {zone}");
                assert!(fresh * 1_000 <= second * MICROS_PER_SECOND + shared.horizon());
                last = fresh;
            }
        }
    }
}

#[test]
fn what_is_told_of_a_time_is_around_it() {
    for (zone, change) in CHANGES {
        for name in NAMES {
            let shared = calendar(name, zone);
            for step in 0..300 {
                let now = at(change) - 100_000 * MICROS_PER_SECOND + step * 700_000_000 + step;
                let around = shared.around(now);
                assert_eq!(around, calendar(name, zone).around(now));
                assert!(around.is_sorted() && around[BEFORE - 1] * 1_000 <= now);
                assert_eq!(around[BEFORE], shared.end_after(now));
                for next in around.windows(2) {
                    assert_eq!(shared.end_after(next[0] * 1_000), next[1]);
                }
            }
        }
    }
}

#[test]
fn a_zone_that_only_shows_its_clocks_has_the_same_boundaries() {
    for (zone, change) in CHANGES {
        let change = (at(change) / MICROS_PER_SECOND).cast_signed();
        for name in NAMES {
            let known = calendar(name, zone);
            let shown = Calendar::in_zone(every(name), zone, Box::new(Shown(time_zone(zone))));
            for second in (change - 200_000..change + 200_000).step_by(1_801) {
                let boundary = known.boundary_after(second);
                assert_eq!(shown.boundary_after(second), boundary, "{name} in {zone} at {second}");
            }
        }
    }
}
