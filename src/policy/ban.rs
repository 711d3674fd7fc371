//! Bans: blocks that keys get for refused calls, each longer than the last.

use crate::time::{MAX_SAFE, Micros, end_of};

/// The most lengths of bans.
pub const MAX_BAN_LENGTHS: usize = 16;

/// The indices of a rule's numbers.
const TARGET: usize = 0;
const AFTER: usize = 1;
const WITHIN: usize = 2;
const FORGET: usize = 3;
const FIRST_LENGTH: usize = 4;

/// The most policies that can be a target: `policies` of a rule has a bit for each.
const MAX_TARGET: u64 = u8::BITS as u64;

/// The rule for bans. A refused call is a *strike* against its key, under each policy that refuses
/// it; with a [`target`](Self::target) it is one strike against the target's key. The key is banned
/// when it has [`after`](Self::after) strikes within a window. The window starts with the first strike,
/// and the next window with the first strike after its end.
///
/// A ban is a block whose length grows with each ban: see [`lengths`](Self::lengths). Only calls
/// that could have been admitted are strikes: no call that a block refuses, whose cost is above the
/// limit, or that asks for as much as is left.
///
/// A caller that waits gets no further strike. Alone on its keys, it is admitted after the retry
/// time of its refusal. So the first refusal after an admitted call is no strike, if the key has
/// strikes or bans: between the two refusals the caller has waited. Nor is the first refusal after
/// the end of an override that the last refusal named as the retry time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BanRule {
    /// The target, `after`, `within`, `forget` and the lengths.
    numbers: Box<[u64]>,
    policies: u8,
}

/// The strikes and the bans of a key under one policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BanRecord {
    /// The strikes in the window.
    pub strikes: u64,
    /// The end of the window; without a window, any time up to now.
    pub window_end: Micros,
    /// The number of the latest ban's length, from 1; 0 if the key has not been banned.
    pub step: u64,
    /// The end of the latest ban.
    pub banned_until: Micros,
    /// The time from which the latest ban no longer counts.
    pub forget_at: Micros,
    /// The time from which the next refusal is no strike: 0 after an admitted call; after a refusal
    /// the end of the override that it named as the retry time, or 2^53 − 1.
    pub excused_from: Micros,
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
    /// A rule.
    ///
    /// `numbers` are 1 plus the [`target`](Self::target) or 0 without one, [`after`](Self::after),
    /// [`within`](Self::within), [`forget`](Self::forget) and the [`lengths`](Self::lengths).
    /// `policies` has a bit for each policy of the limiter, from the lowest: whether its refusals are
    /// strikes.
    ///
    /// Returns `None` unless there are 1 to [`MAX_BAN_LENGTHS`] lengths, a policy, a target of at most 7,
    /// and other numbers from 1 to 2^53 − 1.
    #[must_use]
    pub fn new(policies: u32, numbers: &[u64]) -> Option<Self> {
        let count = FIRST_LENGTH + 1..=FIRST_LENGTH + MAX_BAN_LENGTHS;
        let are_numbers = count.contains(&numbers.len())
            && numbers[TARGET] <= MAX_TARGET
            && numbers[AFTER..].iter().all(|number| (1..=MAX_SAFE).contains(number));
        let policies = policies.try_into().ok().filter(|&policies| policies > 0 && are_numbers)?;
        Some(Self { numbers: numbers.into(), policies })
    }

    /// The numbers of [`new`](Self::new).
    #[must_use]
    pub fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// The bits of [`new`](Self::new).
    #[must_use]
    pub fn policies(&self) -> u8 {
        self.policies
    }

    /// The number of the policy whose key gets the strikes of all policies. `None` if each refusing
    /// policy gives a strike against its own key.
    #[must_use]
    pub fn target(&self) -> Option<usize> {
        usize::try_from(self.numbers[TARGET]).ok()?.checked_sub(1)
    }

    /// Whether refusals may be strikes against the key of the policy with this number.
    #[must_use]
    pub fn may_ban(&self, policy: usize) -> bool {
        self.target().map_or_else(|| self.applies_to(policy), |target| target == policy)
    }

    /// The strikes for a ban.
    #[must_use]
    pub fn after(&self) -> u64 {
        self.numbers[AFTER]
    }

    /// The length of the window in which strikes count, in microseconds.
    #[must_use]
    pub fn within(&self) -> Micros {
        self.numbers[WITHIN]
    }

    /// The time after the end of a ban, in microseconds, after which the next ban has the first
    /// length again.
    #[must_use]
    pub fn forget(&self) -> Micros {
        self.numbers[FORGET]
    }

    /// The lengths of the first, second, … ban, in microseconds. All later bans have the last
    /// length.
    #[must_use]
    pub fn lengths(&self) -> &[Micros] {
        &self.numbers[FIRST_LENGTH..]
    }

    /// Whether refusals by the policy with this number are strikes.
    #[must_use]
    pub fn applies_to(&self, policy: usize) -> bool {
        policy < 8 && self.policies >> policy & 1 > 0
    }

    /// Counts a refused call as a strike, unless its caller has waited. Returns the end of the ban if
    /// this strike bans the key.
    ///
    /// `changes_at` is the end of the override in force. After a clock step, or if the window was
    /// longer by another rule, the window ends at most [`within`](Self::within) from now.
    pub fn strike(
        &self,
        record: &mut BanRecord,
        now: Micros,
        changes_at: Option<Micros>,
    ) -> Option<Micros> {
        let is_excused = record.end() > now && record.excused_from <= now;
        record.excused_from = changes_at.unwrap_or(MAX_SAFE);
        if is_excused {
            return None;
        }
        if record.window_end <= now {
            (record.strikes, record.window_end) = (0, Micros::MAX);
        }
        record.strikes += 1;
        record.window_end = record.window_end.min(end_of(now, self.within()));
        if record.strikes < self.after() {
            return None;
        }
        let earlier = if record.forget_at > now { record.step } else { 0 };
        let lengths = self.lengths();
        let index = usize::try_from(earlier).unwrap_or(usize::MAX).min(lengths.len() - 1);
        let banned_until = end_of(now, lengths[index]);
        *record = BanRecord {
            strikes: 0,
            window_end: 0,
            step: index as u64 + 1,
            banned_until,
            forget_at: end_of(banned_until, self.forget()),
            excused_from: record.excused_from,
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

    /// Forgets what has ended.
    pub(crate) fn drop_ended(&mut self, now: Micros) {
        if self.window_end <= now {
            (self.strikes, self.window_end) = (0, 0);
        }
        if self.forget_at <= now {
            (self.step, self.banned_until, self.forget_at) = (0, 0, 0);
        }
        if self.end() <= now {
            self.excused_from = 0;
        }
    }

    /// The number of the ban's length if a block until this time is a ban, else 0.
    #[must_use]
    pub fn step_of(&self, blocked_until: Micros) -> u64 {
        if blocked_until == self.banned_until { self.step } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Micros = 60_000_000;

    /// 3 strikes within 10 minutes; 1 and 5 minutes long; forgotten after 100 minutes.
    const NUMBERS: [u64; 6] = [0, 3, 10 * MINUTE, 100 * MINUTE, MINUTE, 5 * MINUTE];

    fn rule() -> BanRule {
        BanRule::new(0b101, &NUMBERS).unwrap()
    }

    /// The ends of bans by strikes at these times, in minutes.
    fn bans(times: &[Micros]) -> Vec<Option<Micros>> {
        let mut record = BanRecord::default();
        let ends = times.iter().map(|time| rule().strike(&mut record, time * MINUTE, None));
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
    fn the_first_refusal_after_an_admitted_call_is_no_strike_but_the_very_first() {
        let mut record = BanRecord::default();
        let mut refuse = |time| {
            let banned = rule().strike(&mut record, time, None);
            let strikes = record.strikes;
            record.excused_from = 0;
            (banned, strikes)
        };
        assert_eq!([0, 1, 2, 3, 4].map(&mut refuse), [(None, 1); 5]);
        assert_eq!(refuse(10 * MINUTE), (None, 1), "the first one of another window");
        let mut record = BanRecord::default();
        let ends = [0, 1, 9, 10, 11].map(|time| {
            rule().strike(&mut record, time, Some(9));
            record.strikes
        });
        assert_eq!(ends, [1, 2, 2, 2, 2], "the override ends at 9");
    }

    #[test]
    fn a_clock_that_steps_back_leaves_one_window() {
        let mut record = BanRecord::default();
        rule().strike(&mut record, 1_000 * MINUTE, None);
        rule().strike(&mut record, 0, None);
        assert_eq!((record.strikes, record.window_end), (2, 10 * MINUTE));
        record.drop_ended(10 * MINUTE);
        assert_eq!(record, BanRecord::default());
    }

    #[test]
    fn a_record_ends_with_its_window_and_when_the_ban_is_forgotten() {
        let mut record = BanRecord::default();
        rule().strike(&mut record, 0, None);
        assert_eq!(record.end(), 10 * MINUTE);
        rule().strike(&mut record, 0, None);
        rule().strike(&mut record, 0, None);
        assert_eq!(record.end(), 101 * MINUTE);
        assert_eq!(record.step_of(MINUTE), 1);
        assert_eq!(record.step_of(2 * MINUTE), 0, "another block has replaced it");
        assert_eq!(BanRecord::default().step_of(0), 0);
    }

    #[test]
    fn only_some_policies_give_strikes() {
        let applies = [0, 1, 2, 3, 8, 99].map(|policy| rule().applies_to(policy));
        assert_eq!(applies, [true, false, true, false, false, false]);
    }

    #[test]
    fn a_target_gets_the_strikes_of_all_policies() {
        let mut numbers = NUMBERS;
        assert_eq!(rule().target(), None);
        assert_eq!([0, 1, 2].map(|policy| rule().may_ban(policy)), [true, false, true]);
        numbers[TARGET] = 2;
        let rule = BanRule::new(0b101, &numbers).unwrap();
        assert_eq!(rule.target(), Some(1));
        assert_eq!([0, 1, 2].map(|policy| rule.may_ban(policy)), [false, true, false]);
    }

    #[test]
    fn numbers_outside_their_ranges_are_no_rule() {
        let with = |index: usize, number| {
            let mut numbers = NUMBERS;
            numbers[index] = number;
            BanRule::new(1, &numbers)
        };
        assert_eq!(with(TARGET, MAX_TARGET + 1), None);
        for index in AFTER..6 {
            assert_eq!(with(index, 0), None, "{index}");
            assert_eq!(with(index, MAX_SAFE + 1), None, "{index}");
        }
        assert!(BanRule::new(255, &[1; 4 + MAX_BAN_LENGTHS]).is_some());
        for (policies, numbers) in [(0, 6), (256, 6), (1, 4), (1, 0), (1, 5 + MAX_BAN_LENGTHS)] {
            assert_eq!(BanRule::new(policies, &vec![1; numbers]), None, "{policies} {numbers}");
        }
    }
}
