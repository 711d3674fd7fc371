//! Batches of some of a batch's calls. What is learned from their answers is learned for the same limiter.

use std::sync::Arc;

use crate::policy::policy_set::Policies;
use crate::redis::batch::call_batch::{Batch, has_hold};
use crate::redis::script_keys::Keys;

/// Picks calls out of a batch.
pub(crate) struct Picker<'a> {
    batch: &'a Batch,
    policies: &'a Policies,
    /// By subject and key: its number among those that are being picked; 0 if it is not.
    numbers: Vec<Vec<u16>>,
    /// By call that is about holds: the place of the key that keeps them. None if no call is.
    holds: Vec<usize>,
}

impl<'a> Picker<'a> {
    pub(crate) fn new(batch: &'a Batch, policies: &'a Policies) -> Self {
        let keys = |subject| batch.keys_of(policies, subject).map_or(0, Keys::len);
        let numbers = (0..policies.subjects()).map(|subject| vec![0; keys(subject)]).collect();
        let mut holds = Vec::new();
        if !batch.holds.is_empty() {
            let mut before = 0;
            for (asked, numbers) in batch.calls() {
                holds.push(before);
                before += usize::from(has_hold(asked, numbers));
            }
        }
        Self { batch, policies, numbers, holds }
    }

    /// The calls at these places, in this order. They may name the same keys.
    pub(crate) fn pick(&mut self, calls: &[usize]) -> Batch {
        let Self { batch, policies, numbers: new, holds } = self;
        let mut picked = Batch::default();
        picked.names.resize_with(batch.names.len(), Keys::default);
        picked.calls.reserve_exact(calls.len());
        picked.numbers.reserve_exact(calls.len() * new.len());
        picked.about = batch.about;
        picked.outlook = Arc::clone(&batch.outlook);
        let subjects = new.len();
        let numbers_of = |call: usize| &batch.numbers[call * subjects..][..subjects];
        for &call in calls {
            let (asked, numbers) = (&batch.calls[call], numbers_of(call));
            for (subject, &number) in numbers.iter().enumerate() {
                let Some(old) = usize::from(number).checked_sub(1) else {
                    picked.numbers.push(0);
                    continue;
                };
                if new[subject][old] == 0 {
                    let mut count = 0;
                    for (policy, named) in policies.named().iter().enumerate() {
                        if named.subject == subject {
                            let name = batch.names[policy].get(old);
                            picked.names[policy].push(|names| names.extend_from_slice(name));
                            count = picked.names[policy].len();
                        }
                    }
                    new[subject][old] = u16::try_from(count).unwrap_or(u16::MAX);
                }
                picked.numbers.push(new[subject][old]);
            }
            if !holds.is_empty() && has_hold(asked, numbers) {
                let name = batch.holds.get(holds[call]);
                picked.holds.push(|names| names.extend_from_slice(name));
            }
            picked.calls.push(asked.clone());
        }
        for &call in calls {
            for (subject, &number) in numbers_of(call).iter().enumerate() {
                if number > 0 {
                    new[subject][usize::from(number) - 1] = 0;
                }
            }
        }
        picked
    }
}
