//! The time zone of a calendar.

use std::fmt;

/// A time zone. Times are seconds since the Unix epoch.
pub trait Zone: fmt::Debug + Send + Sync {
    /// How many seconds the clocks are ahead of UTC at a time.
    fn offset(&self, at: i64) -> i64;

    /// The first change of the clocks after `from` and up to `to`, at most a few days later.
    ///
    /// The default compares offsets every six hours: no zone has had two changes within six hours
    /// that undo each other.
    fn change(&self, from: i64, to: i64) -> Option<Change> {
        let offset = self.offset(from);
        let mut before = from;
        while before < to {
            let after = to.min(before + STEP);
            if self.offset(after) != offset {
                return Some(narrowed(self, offset, before, after));
            }
            before = after;
        }
        None
    }
}

/// A change of a zone's clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The first second after the change.
    pub at: i64,
    /// How many seconds the clocks are ahead of UTC after the change.
    pub offset: i64,
}

/// The distance between two compared offsets.
const STEP: i64 = 6 * 3_600;

/// The change between `before`, when the clocks still have this offset, and `after`, when they do
/// not.
fn narrowed(zone: &(impl Zone + ?Sized), offset: i64, mut before: i64, mut after: i64) -> Change {
    while after - before > 1 {
        let middle = before.midpoint(after);
        if zone.offset(middle) == offset {
            before = middle;
        } else {
            after = middle;
        }
    }
    Change { at: after, offset: zone.offset(after) }
}
