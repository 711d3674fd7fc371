//! A round that has policies noted: it goes to the node of its key, as calls do, and what it answers is not theirs.

use super::noted::Noting;
use super::round::Round;

impl Round {
    /// A round without calls, that has the text of a prefix's policies noted, for so many milliseconds: its one
    /// answer are all texts that are.
    #[must_use]
    pub fn noting(prefix: &str, text: &str, lasting_ms: u64) -> Self {
        let noting = Some(Noting::new(prefix, text, lasting_ms));
        let mut round = Self::default();
        (round.noting, round.jobs) = (noting, vec![0]);
        round
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::{Value, slot_of};

    #[test]
    fn a_round_that_notes_goes_to_the_slot_of_its_key_and_is_settled_by_one_answer() {
        let split = Round::noting("api", "default: gcra", 5).by_slot();
        let [part] = &split.parts[..] else { panic!("{split:?}") };
        assert_eq!((part.slot, part.calls.len()), (slot_of(b"api:~policies"), 0));
        assert!(split.crossing.is_none());
        let mut round = Round::noting("api", "default: gcra", 5).in_waves();
        let jobs = round.jobs();
        assert_eq!(jobs[0].keys.iter().collect::<Vec<_>>(), [b"api:~policies"]);
        assert_eq!(
            (jobs.len(), &jobs[0].arguments[..]),
            (1, &[b"default: gcra".to_vec(), b"5".to_vec()][..])
        );
        assert!(jobs[0].script.is_rare());
        assert_eq!(round.again(&[Ok(vec![Value::Bytes(b"default: gcra".to_vec())])]), None);
    }
}
