//! What a calendar needs to know of a time zone.

use std::fmt;

/// A time zone, as its clocks show it. Times are seconds since the Unix epoch.
pub trait Zone: fmt::Debug + Send + Sync {
    /// How many seconds the clocks are ahead of UTC at a time.
    fn offset(&self, at: i64) -> i64;

    /// The first change of the clocks after a time and up to another: at most a few days further on.
    ///
    /// Found by looking at the clocks, unless a zone knows it: no zone has had two changes within
    /// [`STEP`] that undo each other.
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
    /// The first second after it.
    pub at: i64,
    /// How many seconds the clocks are ahead of UTC from then on.
    pub offset: i64,
}

/// The clocks are looked at so often.
const STEP: i64 = 6 * 3_600;

/// The change between a time at which the clocks show this offset still, and one at which they do not.
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
