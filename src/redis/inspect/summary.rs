//! What a stored state tells by itself.

use super::StoredExtras;
use crate::time::Micros;

/// What is known of a key without its policy. What its state does not tell is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The units on the books now. Of a log all that it keeps, which may be more: how long they count only the
    /// policy knows.
    pub used: u64,
    /// The most units that may be on the books.
    pub most: Option<u64>,
    /// The units that drain, or are refilled, in a time.
    pub rate: Option<(u64, Micros)>,
    /// The length of a window.
    pub window: Option<Micros>,
    /// When the window ends that is open.
    pub ends_at: Option<Micros>,
    /// From when on the key is as if never used; a time that has come if it is so now.
    pub settles_at: Option<Micros>,
    /// How many entries it keeps.
    pub entries: Option<u64>,
    /// The time of the oldest of them.
    pub oldest_at: Option<Micros>,
    /// The time of the newest.
    pub newest_at: Option<Micros>,
    /// The latest slot that was booked ahead and is still to come.
    pub booked_until: Option<Micros>,
    /// What stands behind the state.
    pub extras: StoredExtras,
}
