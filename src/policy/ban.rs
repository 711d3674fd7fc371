//! Bans: blocks that keys get for refused calls, each longer than the last.

use crate::time::{MAX_SAFE, Micros, end_of};

/// The most lengths of bans.
pub const MAX_BAN_LENGTHS: usize = 16;

/// The rule for bans. A refused call is a *strike* against its key, under each policy that refuses
/// it. The key is banned when it has [`after`](Self::after) strikes within a window. The window
/// starts with the first strike, and the next window with the first strike after its end.
///
/// A ban is a block whose length grows with each ban: see [`lengths`](Self::lengths). Only calls
/// that could have been admitted are strikes: no call that a block refuses, whose cost is above the
/// limit, or that asks for as much as is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BanRule {
    /// The strikes that ban a key; at least 1.
    pub after: u64,
    /// The length of the window in which strikes count, in microseconds.
    pub within: Micros,
    /// The time after the end of a ban, in microseconds, after which the next ban has the first
    /// length again.
    pub forget: Micros,
    /// The lengths of the first, second, … ban, in microseconds. All later bans have the last
    /// length. 1 to [`MAX_BAN_LENGTHS`].
    pub lengths: Box<[Micros]>,
    /// By policy of the limiter, from the lowest bit: whether it gives strikes.
    pub policies: u8,
}

/// The strikes and the bans of a key under one policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BanRecord {
    /// The strikes in the window.
    pub strikes: u64,
    /// The end of the window; any time up to now if there is none.
    pub window_end: Micros,
    /// The number of the latest ban's length, from 1; 0 if the key has not been banned.
    pub step: u64,
    /// The end of the latest ban.
    pub banned_until: Micros,
    /// The time from which the latest ban no longer counts.
    pub forget_at: Micros,
}

/// The ban in force on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ban {
    /// The number of its length, from 1.
    pub step: u64,
    /// Its end.
    pub until: Micros,
}

impl BanRule {
    /// The rule with these numbers: [`after`](Self::after), [`within`](Self::within),
    /// [`forget`](Self::forget), [`lengths`](Self::lengths). `None` if some are missing.
    #[must_use]
    pub fn from_numbers(policies: u32, numbers: &[u64]) -> Option<Self> {
        let (&[after, within, forget], lengths) = numbers.split_first_chunk()?;
        let policies = policies.try_into().ok()?;
        Some(Self { after, within, forget, lengths: lengths.into(), policies })
    }

    /// Whether all numbers are in range: 1 to 2^53 − 1 each, `forget` also 0, and 1 to
    /// [`MAX_BAN_LENGTHS`] lengths.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let is_time = |time: Micros| (1..=MAX_SAFE).contains(&time);
        let are_lengths = (1..=MAX_BAN_LENGTHS).contains(&self.lengths.len())
            && self.lengths.iter().copied().all(is_time);
        are_lengths
            && is_time(self.after)
            && is_time(self.within)
            && self.forget <= MAX_SAFE
            && self.policies > 0
    }

    /// Whether refusals by the policy with this number are strikes.
    #[must_use]
    pub fn applies_to(&self, policy: usize) -> bool {
        u32::try_from(policy).is_ok_and(|bit| self.policies.checked_shr(bit).unwrap_or(0) & 1 > 0)
    }

    /// Counts a strike. Returns the end of the ban if this strike bans the key.
    ///
    /// After a clock step, or if the window was longer by other numbers, the window ends at most
    /// [`within`](Self::within) from now.
    pub fn strike(&self, record: &mut BanRecord, now: Micros) -> Option<Micros> {
        if record.window_end <= now {
            (record.strikes, record.window_end) = (0, Micros::MAX);
        }
        record.strikes += 1;
        record.window_end = record.window_end.min(end_of(now, self.within));
        if record.strikes < self.after {
            return None;
        }
        let earlier = if record.forget_at > now { record.step } else { 0 };
        let index = usize::try_from(earlier).unwrap_or(usize::MAX).min(self.lengths.len() - 1);
        let banned_until = end_of(now, self.lengths[index]);
        *record = BanRecord {
            strikes: 0,
            window_end: 0,
            step: index as u64 + 1,
            banned_until,
            forget_at: end_of(banned_until, self.forget),
        };
        Some(banned_until)
    }
}

impl BanRecord {
    /// The time from which the record has no effect.
    #[must_use]
    pub fn end(&self) -> Micros {
        self.window_end.max(self.forget_at)
    }

    /// The ban that the block of a key is, if it is one.
    #[must_use]
    pub fn ban_of(&self, blocked_until: Micros, now: Micros) -> Option<Ban> {
        let is_ban = blocked_until > now && self.step > 0 && blocked_until == self.banned_until;
        is_ban.then_some(Ban { step: self.step, until: blocked_until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Micros = 60_000_000;

    fn rule() -> BanRule {
        BanRule {
            after: 3,
            within: 10 * MINUTE,
            forget: 100 * MINUTE,
            lengths: Box::new([MINUTE, 5 * MINUTE]),
            policies: 0b101,
        }
    }

    /// The ends of bans by strikes at these times, in minutes.
    fn bans(times: &[Micros]) -> Vec<Option<Micros>> {
        let mut record = BanRecord::default();
        let ends = times.iter().map(|time| rule().strike(&mut record, time * MINUTE));
        ends.map(|end| end.map(|end| end / MINUTE)).collect()
    }

    #[test]
    fn strikes_of_one_window_ban_a_key() {
        assert_eq!(bans(&[0, 1, 9]), [None, None, Some(10)]);
        assert_eq!(bans(&[0, 1, 10, 11, 12]), [None, None, None, None, Some(13)]);
    }

    #[test]
    fn each_ban_is_longer_until_it_is_forgotten() {
        let three = |start: Micros| [start; 3];
        let end_of_third =
            |times: &[Micros]| bans(times).chunks(3).map(|all| all[2]).collect::<Vec<_>>();
        let times = [three(0), three(10), three(20), three(125), three(224)].concat();
        // The third ban ends at minute 25, and is forgotten at minute 125.
        assert_eq!(end_of_third(&times), [1, 15, 25, 126, 229].map(Some));
    }

    #[test]
    fn a_clock_that_steps_back_leaves_one_window() {
        let mut record = BanRecord::default();
        rule().strike(&mut record, 1_000 * MINUTE);
        rule().strike(&mut record, 0);
        assert_eq!((record.strikes, record.window_end), (2, 10 * MINUTE));
    }

    #[test]
    fn a_record_ends_with_its_window_and_when_the_ban_is_forgotten() {
        let mut record = BanRecord::default();
        rule().strike(&mut record, 0);
        assert_eq!(record.end(), 10 * MINUTE);
        rule().strike(&mut record, 0);
        rule().strike(&mut record, 0);
        assert_eq!(record.end(), 101 * MINUTE);
        assert_eq!(record.ban_of(MINUTE, 5), Some(Ban { step: 1, until: MINUTE }));
        assert_eq!(record.ban_of(MINUTE, MINUTE), None);
        assert_eq!(record.ban_of(2 * MINUTE, 5), None, "another block has replaced it");
    }

    #[test]
    fn only_some_policies_give_strikes() {
        let applies = [0, 1, 2, 3, 8, 99].map(|policy| rule().applies_to(policy));
        assert_eq!(applies, [true, false, true, false, false, false]);
    }

    #[test]
    fn a_rule_of_numbers() {
        let numbers = [3, 10, 100, 1, 5].map(|number| number * MINUTE);
        let from = BanRule::from_numbers(5, &numbers).unwrap();
        assert_eq!(from, BanRule { after: 3 * MINUTE, ..rule() });
        assert_eq!(BanRule::from_numbers(5, &numbers[..2]), None);
        assert_eq!(BanRule::from_numbers(256, &numbers), None);
    }

    #[test]
    fn invalid_rules() {
        assert!(rule().is_valid());
        let long = vec![1; MAX_BAN_LENGTHS + 1].into_boxed_slice();
        for invalid in [
            BanRule { after: 0, ..rule() },
            BanRule { within: 0, ..rule() },
            BanRule { forget: MAX_SAFE + 1, ..rule() },
            BanRule { lengths: Box::new([]), ..rule() },
            BanRule { lengths: Box::new([1, 0]), ..rule() },
            BanRule { lengths: long, ..rule() },
            BanRule { policies: 0, ..rule() },
        ] {
            assert!(!invalid.is_valid(), "{invalid:?}");
        }
    }
}
