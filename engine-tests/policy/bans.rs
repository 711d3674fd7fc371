//! Bans: rules for random traces, and an oracle that keeps all strikes and bans of a key.

use proptest::prelude::*;
use tollgate::policy::ban::{Ban, BanRule};

use crate::policy::specs::SECOND;

/// A rule of short times, or none.
pub(crate) fn any_ban() -> impl Strategy<Value = Option<BanRule>> {
    let time = || prop_oneof![1..3_000_u64, 1_000..3 * SECOND];
    let lengths = prop::collection::vec(time(), 1..4);
    let rule = (1..4_u64, time(), prop_oneof![Just(1), time()], lengths, 1..32_u32).prop_map(
        |(after, within, forget, lengths, policies)| {
            BanRule::new(policies, &[vec![after, within, forget], lengths].concat()).unwrap()
        },
    );
    prop::option::of(rule)
}

/// The strikes and the bans of one key, since it was reset.
#[derive(Debug, Clone, Default)]
pub(crate) struct BanOracle {
    /// The times of the strikes after the latest ban.
    strikes: Vec<u64>,
    bans: Vec<Ban>,
}

impl BanOracle {
    /// Counts a strike, and returns the end of the ban if the key is banned now.
    pub(crate) fn strike(&mut self, rule: &BanRule, now: u64) -> Option<u64> {
        self.strikes.push(now);
        let (mut count, mut window_end) = (0, 0);
        for &time in &self.strikes {
            if time < window_end {
                // A strike earlier than the last: the clock has stepped back.
                (count, window_end) = (count + 1, window_end.min(time + rule.within()));
            } else {
                (count, window_end) = (1, time + rule.within());
            }
        }
        if count < rule.after() {
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
