//! Time zones from the system's data, or from the copy in this crate if the system has none. A
//! calendar keeps the zone as it was when the calendar was created. `TZDIR` names another folder of
//! such data.

use std::fmt;

use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, tz};

use super::{Change, Zone};

/// The error for an unknown time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownZone;

impl fmt::Display for UnknownZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no time zone of this name")
    }
}

impl std::error::Error for UnknownZone {}

impl Zone for TimeZone {
    fn offset(&self, at: i64) -> i64 {
        self.to_offset(timestamp(at)).seconds().into()
    }

    fn change(&self, from: i64, to: i64) -> Option<Change> {
        let change = self.following(timestamp(from)).next()?;
        let (at, offset) = (change.timestamp().as_second(), change.offset().seconds().into());
        (at <= to).then_some(Change { at, offset })
    }
}

fn timestamp(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}

/// The time zone of an IANA name, in any case.
pub(super) fn zone_of(name: &str) -> Result<Box<dyn Zone>, UnknownZone> {
    let zone = tz::db().get(name).or_else(|_| TimeZoneDatabase::bundled().get(name));
    let zone = zone.ok().filter(|zone| !zone.is_unknown()).ok_or(UnknownZone)?;
    Ok(Box::new(zone))
}

/// Whether there is a time zone of this name.
#[must_use]
pub fn is_time_zone(name: &str) -> bool {
    zone_of(name).is_ok()
}
