//! The block, the override, the bans, the owed units, the holds and the remembered calls of a key.

use std::sync::Arc;

use super::PolicyEntry;
use crate::policy::Policy;
use crate::policy::ban::BanRecord;
use crate::policy::execute::stored::{Hold, LATE, RememberedCalls};
use crate::policy::owed::Owed;
use crate::time::{Micros, end_of};

/// The block, the override, the bans and the owed units of a key under one policy. A key that has only
/// these is fresh.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyMetadata {
    /// The end of the block; any time up to now if there is none.
    pub blocked_until: Micros,
    /// The override, which may have ended.
    pub numbers: Option<Override>,
    /// The strikes and the bans.
    pub bans: BanRecord,
    /// The units that the key owes.
    pub owed: Owed,
    /// The holds of reservations, if it is the key of the first policy. Some may have expired.
    pub holds: Vec<Hold>,
    /// The calls that may be repeated, if it is the key of the first policy; `None` if there are none.
    pub repeats: Option<Box<RememberedCalls>>,
}

/// Numbers that decide on one key in place of the limiter's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// The policy with these numbers, of the limiter's algorithm.
    pub policy: Arc<Policy>,
    /// The end: the limiter's numbers decide from then on.
    pub until: Micros,
}

impl KeyMetadata {
    /// The time from which all of it has ended.
    #[must_use]
    pub fn end(&self) -> Micros {
        let override_until = self.numbers.as_ref().map_or(0, |numbers| numbers.until);
        let holds_until = self.holds.iter().map(|hold| end_of(hold.expires_at, LATE)).max();
        let repeats_until = self.repeats.as_ref().map(|calls| calls.end());
        let ends = [override_until, self.blocked_until, self.bans.end(), self.owed.end()];
        ends.into_iter().chain(holds_until).chain(repeats_until).max().unwrap_or(0)
    }

    /// Drops the parts that have ended, but no holds and no remembered calls: adding a later one drops
    /// those.
    pub fn drop_ended(&mut self, now: Micros) {
        if self.blocked_until <= now {
            self.blocked_until = 0;
        }
        self.numbers.take_if(|numbers| numbers.until <= now);
        self.bans.drop_ended(now);
        if self.owed.end() <= now {
            self.owed = Owed::default();
        }
    }

    /// Whether there is nothing to store.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { blocked_until, numbers, bans, owed, holds, repeats } = self;
        let has_calls = repeats.as_ref().is_some_and(|calls| !calls.is_empty());
        let is_shown = *blocked_until > 0 || numbers.is_some() || *bans != BanRecord::default();
        !is_shown && owed.units == 0 && holds.is_empty() && !has_calls
    }

    /// The override in force at the time `now`.
    pub(super) fn override_at(&self, now: Micros) -> Option<&Override> {
        self.numbers.as_ref().filter(|numbers| numbers.until > now)
    }

    /// The policy that decides at the time `now`: that of the override, or else the limiter's.
    #[must_use]
    pub fn in_force<'a>(&'a self, limiters: &'a Policy, now: Micros) -> &'a Policy {
        self.override_at(now).map_or(limiters, |numbers| &*numbers.policy)
    }
}

/// Gives keys other numbers until a time, and repairs their states by them.
pub(super) fn override_until(
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    by: &[Option<Arc<Policy>>],
    until: Micros,
) {
    for entry in entries {
        if let Some(Some(policy)) = by.get(entry.number)
            && policy.tag() == entry.own.tag()
        {
            let metadata = &mut *entry.part.metadata;
            metadata.numbers = Some(Override { policy: Arc::clone(policy), until });
            metadata.drop_ended(now);
            if metadata.override_at(now).is_some() {
                entry.repair(now);
            }
        }
    }
}
