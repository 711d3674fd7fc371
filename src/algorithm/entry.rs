//! Units by time, as running totals: what the log and the buckets are made of.

use crate::time::Micros;

/// Units of one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// Of a log: when they were used, or the next multiple of its precision. Of buckets: the end of theirs.
    pub(super) time: Micros,
    /// The running total of units, these included. That of buckets may wrap: only differences matter.
    pub(super) after: u64,
}
