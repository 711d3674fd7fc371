//! Calendars: the ends of windows by the clock of a time zone.
//!
//! **Days, weeks and months** begin at the first instant of their first date in the zone. A day has
//! 23 or 25 hours where the clocks change. A day without a midnight begins when the clock jumps
//! past it, and a date that the zone skips has no day. A week begins on Monday (ISO 8601).
//!
//! **Hours and other parts of a day** follow the local clock, from its midnight. A part ends when
//! the clock reaches the next multiple of its length, and when a change of offset moves the clock
//! into another part or to the start of one. So an hour that is repeated is counted again, and
//! hours follow the clock in zones with offsets of half and quarter hours.
//!
//! The boundaries are a set of instants, all of them on whole seconds; a window is the time between
//! two of them. A [`Zone`] supplies the local clock.

#[cfg(feature = "zones")]
mod database;
mod date;
#[cfg(tollgate_loom)]
mod models;
mod zone;

use std::sync::PoisonError;

#[cfg(feature = "zones")]
pub use database::is_time_zone;
pub use zone::{Change, Zone};

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::time::Micros;

const MICROS_PER_SECOND: Micros = 1_000_000;
const MILLIS_PER_SECOND: u64 = 1_000;
const HOUR: u32 = 3_600;
const DAY: u32 = 24 * HOUR;

/// The windows of a calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Every {
    /// From one date to the next.
    Day,
    /// From one Monday to the next.
    Week,
    /// From the first of one month to the first of the next.
    Month,
    /// A part of a day, made by [`part`](Self::part).
    DayPart(DayPart),
}

/// A length of whole seconds, shorter than a day, that divides a day evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayPart(u32);

impl Every {
    /// An hour of the local clock.
    pub const HOUR: Self = Self::DayPart(DayPart(HOUR));

    /// Windows of this length; `None` unless it is in whole seconds and divides a day evenly. 24
    /// hours are [`Day`](Self::Day).
    #[must_use]
    pub fn part(length: Micros) -> Option<Self> {
        let seconds = u32::try_from(length / MICROS_PER_SECOND).ok()?;
        match seconds {
            _ if !length.is_multiple_of(MICROS_PER_SECOND) => None,
            DAY => Some(Self::Day),
            0 => None,
            seconds if DAY.is_multiple_of(seconds) => Some(Self::DayPart(DayPart(seconds))),
            _ => None,
        }
    }

    /// The windows of a number from JavaScript: 0 to 3 for an hour, a day, a week and a month, or
    /// the length of a part of a day in microseconds. `None` unless the length divides a day.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::HOUR),
            1 => Some(Self::Day),
            2 => Some(Self::Week),
            3 => Some(Self::Month),
            length => Self::part(length),
        }
    }

    /// The usual longest window in seconds: a part of a day its own length, a day 25 hours, a week
    /// 7 days and an hour, a month 31 days and an hour. No zone has had a window that lasted twice
    /// as long.
    fn longest(self) -> u32 {
        match self {
            Self::DayPart(DayPart(seconds)) => seconds,
            Self::Day => DAY + HOUR,
            Self::Week => 7 * DAY + HOUR,
            Self::Month => 31 * DAY + HOUR,
        }
    }

    /// The first date after this one that begins a window; dates are days since 1970.
    fn next(self, date: i64) -> i64 {
        match self {
            Self::DayPart(_) | Self::Day => date + 1,
            Self::Week => date::next_monday(date),
            Self::Month => date::next_first(date),
        }
    }
}

/// The numbers of boundaries up to a time and after it that [`around`](Calendar::around) returns.
const BEFORE: usize = 2;
const AFTER: usize = 6;

/// Boundaries in order, in milliseconds since the Unix epoch.
pub type Boundaries = [u64; BEFORE + AFTER];

/// A calendar: the ends of windows in a time zone.
///
/// # Examples
/// ```
/// use tollgate::calendar::{Calendar, Every};
/// // The 1st of January 1970 began at 00:00 UTC, which is 01:00 in Berlin.
/// # #[cfg(feature = "zones")]
/// assert_eq!(Calendar::new(Every::Day, "Europe/Berlin").unwrap().end_after(0), 23 * 3_600_000);
/// ```
#[derive(Debug)]
pub struct Calendar {
    every: Every,
    /// The zone's name, as the caller wrote it.
    name: Box<str>,
    zone: Box<dyn Zone>,
    /// The window that was looked up last, or its known part.
    known: Known,
    around: Mutex<Option<Boundaries>>,
}

impl PartialEq for Calendar {
    fn eq(&self, other: &Self) -> bool {
        (self.every, &self.name) == (other.every, &other.name)
    }
}

impl Eq for Calendar {}

impl Calendar {
    /// The calendar of these windows in the zone of an IANA name; `None` if there is no such zone.
    #[cfg(feature = "zones")]
    #[must_use]
    pub fn new(every: Every, time_zone: &str) -> Option<Self> {
        Some(Self::in_zone(every, time_zone, database::zone_of(time_zone)?))
    }

    /// The calendar of these windows in a given zone of this name.
    #[must_use]
    pub fn in_zone(every: Every, name: &str, zone: Box<dyn Zone>) -> Self {
        let (known, around) = (Known::default(), Mutex::default());
        Self { every, name: name.into(), zone, known, around }
    }

    /// The first boundary after a time, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn end_after(&self, now: Micros) -> u64 {
        let now = now / MICROS_PER_SECOND;
        let end = self.known.end_after(now).unwrap_or_else(|| {
            let end = self.boundary_after(now.cast_signed());
            self.known.learn(now, end.cast_unsigned());
            end.cast_unsigned()
        });
        end * MILLIS_PER_SECOND
    }

    /// The horizon: every window ends sooner than this after any time in it, whatever edition of
    /// the time zone data it comes from.
    #[must_use]
    pub fn horizon(&self) -> Micros {
        2 * Micros::from(self.every.longest()) * MICROS_PER_SECOND
    }

    /// The last two boundaries up to a time and the first six after it.
    #[must_use]
    pub fn around(&self, now: Micros) -> Boundaries {
        let mut around = self.around.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ms = now / (MICROS_PER_SECOND / MILLIS_PER_SECOND);
        match *around {
            Some(known) if (known[BEFORE - 1]..known[BEFORE]).contains(&now_ms) => known,
            _ => *around.insert(self.boundaries((now / MICROS_PER_SECOND).cast_signed())),
        }
    }

    fn boundaries(&self, now: i64) -> Boundaries {
        // No window lasts twice as long as the usual longest one, so two windows end between that
        // time and now.
        let mut boundary = self.boundary_after(now - 4 * i64::from(self.every.longest()));
        let mut boundaries = [boundary; BEFORE + AFTER];
        while boundary <= now {
            boundaries.copy_within(1..BEFORE, 0);
            boundaries[BEFORE - 1] = boundary;
            boundary = self.boundary_after(boundary);
        }
        for place in &mut boundaries[BEFORE..] {
            *place = boundary;
            boundary = self.boundary_after(boundary);
        }
        boundaries.map(|boundary| boundary.max(0).cast_unsigned() * MILLIS_PER_SECOND)
    }

    /// The first boundary after a time, in seconds.
    fn boundary_after(&self, now: i64) -> i64 {
        match self.every {
            Every::DayPart(part) => self.part_after(part, now),
            _ => self.date_after(now),
        }
    }

    fn date_after(&self, now: i64) -> i64 {
        let mut date = (now + self.zone.offset(now)).div_euclid(date::SECONDS);
        loop {
            date = self.every.next(date);
            let first = self.first_instant(date);
            // The instant may be in the past: a clock that is set back over midnight shows a date
            // again.
            if first > now {
                return first;
            }
        }
    }

    /// The first instant at which the local clock shows a date or a later one.
    fn first_instant(&self, date: i64) -> i64 {
        let midnight = date * date::SECONDS;
        // No local clock is two days from UTC.
        let mut from = midnight - 2 * date::SECONDS;
        let mut offset = self.zone.offset(from);
        loop {
            let shown = midnight - offset;
            let Some(change) = self.zone.change(from, shown) else { return shown };
            // The clock jumps to midnight or past it, or past the whole date.
            if change.at + change.offset >= midnight {
                return change.at;
            }
            (from, offset) = (change.at, change.offset);
        }
    }

    fn part_after(&self, DayPart(length): DayPart, now: i64) -> i64 {
        let length = i64::from(length);
        let mut from = now;
        let mut clock = now + self.zone.offset(now);
        loop {
            let multiple = from + length - clock.rem_euclid(length);
            let Some(change) = self.zone.change(from, multiple - 1) else { return multiple };
            let part = clock.div_euclid(length);
            from = change.at;
            clock = from + change.offset;
            if clock.div_euclid(length) != part || clock.rem_euclid(length) == 0 {
                return from;
            }
        }
    }
}

/// The known part of a window up to its end, in one word, so that threads need no lock: the end in
/// seconds since the Unix epoch, and the length of the known part before it, in 31 bits.
#[derive(Debug, Default)]
struct Known(AtomicU64);

impl Known {
    const SPAN_BITS: u32 = 31;

    fn end_after(&self, now: u64) -> Option<u64> {
        let known = self.0.load(Ordering::Relaxed);
        let (end, span) = (known >> Self::SPAN_BITS, known & ((1 << Self::SPAN_BITS) - 1));
        (end - span..end).contains(&now).then_some(end)
    }

    fn learn(&self, now: u64, end: u64) {
        let span = end - now;
        if span >> Self::SPAN_BITS == 0 && end >> (u64::BITS - Self::SPAN_BITS) == 0 {
            self.0.store(end << Self::SPAN_BITS | span, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
