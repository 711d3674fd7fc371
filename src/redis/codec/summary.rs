//! The summary of a stored state.

use super::StoredMetadata;
use crate::time::Micros;

/// What a key's state alone reveals, without its policy. Unknown values are `None`. Times are in
/// epoch microseconds, durations in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeySummary {
    /// The charged units. For a log, the units of all stored entries, some of which may have
    /// expired: only the policy knows when.
    pub used: u64,
    /// The maximum of charged units.
    pub max_used: Option<u64>,
    /// The refill or drain rate: units per duration.
    pub rate: Option<(u64, Micros)>,
    /// The length of a window.
    pub window: Option<Micros>,
    /// The end of the open window.
    pub ends_at: Option<Micros>,
    /// The time from which the key is fresh, which may have passed.
    pub reset_at: Option<Micros>,
    /// The number of stored entries.
    pub entries: Option<u64>,
    /// The time of the oldest entry.
    pub oldest_at: Option<Micros>,
    /// The time of the newest entry.
    pub newest_at: Option<Micros>,
    /// The latest slot of a scheduled reservation that is still ahead.
    pub scheduled_until: Option<Micros>,
    /// The block, the override and the bans, stored after the state.
    pub metadata: StoredMetadata,
}
