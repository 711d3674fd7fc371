//! Calls on keys that repeat, put apart.
//!
//! The script has quick ways for one call on each of some keys, as long as no key is there twice. So the first calls on
//! all keys are a group, the second calls on those that have some another, and so on. Calls on one key stay in order;
//! those on different keys know nothing of each other.

use std::sync::Arc;

use crate::redis::batch::call_batch::groups_of;
use crate::redis::batch::flush::{Group, Round};
use crate::redis::batch::subset::Picker;

impl Round {
    /// Puts calls on keys that repeat in groups of their own. A round is not split any more then.
    #[must_use]
    pub fn in_waves(self) -> Self {
        // A peek leaves nothing to the next.
        let waves_of = |group: &Group| group.batch.waves(&group.policies).filter(|_| !self.peeks);
        let waves: Vec<_> = self.groups.iter().map(waves_of).collect();
        if waves.iter().all(Option::is_none) {
            return self;
        }
        let mut round = Self::default();
        for (Group { policies, batch, .. }, waves) in self.groups.into_iter().zip(waves) {
            let Some(waves) = waves else {
                round.push(policies, batch);
                continue;
            };
            let first = round.groups.len();
            let mut picker = Picker::new(&batch, &policies);
            for wave in 0..groups_of(&waves) {
                let mut calls = (0..waves.len()).collect::<Vec<_>>();
                calls.retain(|&call| usize::from(waves[call]) == wave);
                round.push(Arc::clone(&policies), picker.pick(&calls));
            }
            round.groups[first].waves = waves;
        }
        round
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{CalendarWindow, FixedWindow};
    use crate::calendar::Every;
    use crate::key::Key;
    use crate::policy::Policy;
    use crate::policy::policy_set::Policies;
    use crate::redis::batch::call_batch::Batch;
    use crate::redis::{Answer, Names, Value};

    fn window() -> Policies {
        Policy::FixedWindow(FixedWindow::new(9, 1_000).unwrap()).into()
    }

    fn monthly() -> Policies {
        Policy::CalendarWindow(CalendarWindow::new(9, Every::Month, "UTC").unwrap()).into()
    }

    /// A call of one unit on each of these keys, in waves.
    fn round(policies: &Policies, keys: &str) -> Round {
        let names = Names::new("api", policies);
        let mut batch = Batch::new();
        for key in keys.chars() {
            batch.push(&names, Key::new(&key.to_string()).unwrap(), 1);
        }
        let mut round = Round::default();
        round.push(Arc::new(policies.clone()), batch);
        round.in_waves()
    }

    /// The keys of the groups.
    fn groups(round: &Round) -> Vec<String> {
        let of_name = |name: &[u8]| char::from(name[name.len() - 2]);
        round.groups.iter().map(|group| group.batch.keys().iter().map(of_name).collect()).collect()
    }

    /// An answer: of each call the units used in a window that is open.
    fn told(used: &[u32], outcomes: &[u8]) -> Answer {
        let states = used.iter().flat_map(|&used| [2.0, f64::from(used)].map(f64::to_be_bytes));
        let states = states.flatten().collect();
        let outcomes = Value::Bytes(outcomes.to_vec());
        Ok(vec![Value::Number(900), Value::Bytes(states), outcomes, Value::Bytes(vec![])])
    }

    fn remaining(round: &Round, answers: &[Answer]) -> Vec<u64> {
        let mut all = Vec::new();
        round.settle(answers, |one| all.push(one.unwrap().response.decision.remaining));
        all
    }

    #[test]
    fn the_calls_on_a_key_are_apart_and_come_back_in_the_order_of_all() {
        let round = round(&window(), "abacadb");
        assert_eq!(groups(&round), ["abcd", "ab", "a"]);
        assert_eq!(round.jobs().len(), 1, "one script decides them");
        let answers = [told(&[1, 2, 3, 4, 5, 6, 7], &[])];
        // By call: a b a c a d b.
        assert_eq!(remaining(&round, &answers), [8, 7, 4, 6, 2, 5, 3]);
    }

    #[test]
    fn many_calls_on_a_key_are_left_together() {
        assert_eq!(groups(&round(&window(), "abcdefaaaaaa")), ["abcdef", "a", "a", "a"]);
        assert_eq!(groups(&round(&window(), "abaaaa")), ["ab"], "most of them repeat");
        assert_eq!(groups(&round(&window(), "abc")), ["abc"]);
    }

    #[test]
    fn what_is_stale_is_asked_again_in_waves_and_settles_in_its_place() {
        let mut round = round(&monthly(), "aab");
        let mut answers = vec![told(&[0, 0, 0], &[5, 5, 5])];
        assert_eq!(round.again(&answers), Some(900));
        assert_eq!(round.jobs().len(), 1);
        answers.push(told(&[1, 2, 3], &[]));
        assert_eq!(round.again(&answers), None);
        assert_eq!(remaining(&round, &answers), [8, 6, 7]);
    }
}
