//! Time zones from the system's data, or from the copy in this crate if the system has none. A
//! calendar keeps the zone as it was when the calendar was created. `TZDIR` names another folder of
//! such data.

use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, tz};

use super::{Change, Zone};

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

/// The time zone of an IANA name, in any case; `None` if there is none.
pub(super) fn zone_of(name: &str) -> Option<Box<dyn Zone>> {
    let zone = tz::db().get(name).or_else(|_| TimeZoneDatabase::bundled().get(name));
    Some(Box::new(zone.ok().filter(|zone| !zone.is_unknown())?))
}

/// Whether there is a time zone of this name.
#[must_use]
pub fn is_time_zone(name: &str) -> bool {
    zone_of(name).is_some()
}
