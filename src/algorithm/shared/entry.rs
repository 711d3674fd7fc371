//! Units by time, as running totals: the entries of logs and of sliding windows.

use crate::time::Micros;

/// Units of one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnitEntry {
    /// In a log the time of the call, or the next multiple of the precision. In a sliding window
    /// the end of the bucket.
    pub(crate) time: Micros,
    /// The running total of units, including these. In a sliding window it may wrap: only
    /// differences matter.
    pub(crate) after: u64,
}
