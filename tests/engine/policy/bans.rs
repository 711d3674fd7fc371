//! Bans: rules for random traces, and an oracle that keeps all strikes and bans of a key.

use proptest::prelude::*;
use tollgate::policy::ban::{Ban, BanRule};

use crate::policy::specs::SECOND;

/// A rule of short times, or none.
pub(crate) fn any_ban() -> impl Strategy<Value = Option<BanRule>> {
    let time = || prop_oneof![1..3_000_u64, 1_000..3 * SECOND];
    let lengths = prop::collection::vec(time(), 1..4);
    let rule = (1..4_u64, time(), prop_oneof![Just(1), time()], lengths, 1..32_u32, 0..6_u64);
    let rule = rule.prop_map(|(after, within, forget, lengths, policies, target)| {
        let numbers = [vec![target, after, within, forget], lengths].concat();
        BanRule::new(policies, &numbers).unwrap()
    });
    prop::option::of(rule)
}

/// The strikes and the bans of one key, since it was reset.
#[derive(Debug, Clone, Default)]
pub(crate) struct BanOracle {
    /// The times of the strikes after the latest ban.
    strikes: Vec<u64>,
    bans: Vec<Ban>,
    /// The time from which the next refusal is no strike; `None` until there was a refusal.
    excused_from: Option<u64>,
}

impl BanOracle {
    /// An operation other than a peek, which drops what has ended.
    pub(crate) fn pass(&mut self, rule: &BanRule, now: u64) {
        if self.window_end(rule) <= now {
            self.strikes.clear();
        }
        if self.bans.last().is_some_and(|ban| ban.until + rule.forget() <= now) {
            self.bans.clear();
        }
        if self.strikes.is_empty() && self.bans.is_empty() {
            self.excused_from = None;
        }
    }

    /// An admitted call.
    pub(crate) fn admit(&mut self) {
        self.excused_from = self.excused_from.map(|_| 0);
    }

    /// The end of the window of the latest strikes.
    fn window_end(&self, rule: &BanRule) -> u64 {
        self.strikes.iter().map(|time| time + rule.within()).min().unwrap_or(0)
    }

    /// Counts a refusal, and returns the end of the ban if the key is banned now. `changes_at` is the
    /// end of the override.
    pub(crate) fn refuse(&mut self, rule: &BanRule, now: u64, changes_at: u64) -> Option<u64> {
        if self.excused_from.replace(changes_at).is_some_and(|excused_from| excused_from <= now) {
            return None;
        }
        self.strikes.push(now);
        // Those of an earlier window are forgotten.
        if (self.strikes.len() as u64) < rule.after() {
            return None;
        }
        self.strikes.clear();
        let remembered = self.bans.last().filter(|ban| now < ban.until + rule.forget());
        let step = remembered.map_or(1, |ban| ban.step + 1).min(rule.lengths().len() as u64);
        let until = now + rule.lengths()[usize::try_from(step - 1).unwrap()];
        self.bans.push(Ban { step, until });
        Some(until)
    }

    /// The ban that a block until this time is.
    pub(crate) fn ban_of(&self, blocked_until: u64, now: u64) -> Option<Ban> {
        self.bans.last().copied().filter(|ban| ban.until == blocked_until && now < blocked_until)
    }
}
