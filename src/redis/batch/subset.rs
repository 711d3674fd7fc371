//! Builds batches of some of a batch's calls, without their policy variants. They share its hit
//! predictor.

use std::sync::Arc;

use crate::policy::policy_set::PolicySet;
use crate::redis::batch::call_batch::{CallBatch, has_hold};
use crate::redis::script_keys::ScriptKeys;

pub(crate) struct SubsetBuilder<'a> {
    batch: &'a CallBatch,
    policies: &'a PolicySet,
    /// For each dimension and key: its number in the subset that is being built; 0 if absent.
    numbers: Vec<Vec<u16>>,
    /// For each call: the index of its hold key, if it has one. Empty if no call has one.
    holds: Vec<usize>,
}

impl<'a> SubsetBuilder<'a> {
    pub(crate) fn new(batch: &'a CallBatch, policies: &'a PolicySet) -> Self {
        let keys = |dimension| batch.keys_of(policies, dimension).map_or(0, ScriptKeys::len);
        let numbers =
            (0..policies.key_dimensions()).map(|dimension| vec![0; keys(dimension)]).collect();
        let mut holds = Vec::new();
        if !batch.holds.is_empty() {
            let mut before = 0;
            for (call, numbers) in batch.calls() {
                holds.push(before);
                before += usize::from(has_hold(call, numbers));
            }
        }
        Self { batch, policies, numbers, holds }
    }

    /// For each group: a batch of its calls, and their indexes. `groups` has the group of each call.
    pub(crate) fn build_groups(&mut self, groups: &[usize]) -> Vec<(CallBatch, Vec<usize>)> {
        let count = groups.iter().max().map_or(0, |last| last + 1);
        let mut calls = vec![Vec::new(); count];
        groups.iter().enumerate().for_each(|(call, &group)| calls[group].push(call));
        calls.into_iter().map(|calls| (self.build(&calls), calls)).collect()
    }

    /// Builds a batch of the calls with these indexes, in this order. They may share keys.
    pub(crate) fn build(&mut self, indexes: &[usize]) -> CallBatch {
        let Self { batch, policies, numbers: new, holds } = self;
        let mut subset = CallBatch::default();
        let part_of = |keys| ScriptKeys::with_capacity_of(keys, indexes.len());
        subset.names = batch.names.iter().map(part_of).collect();
        subset.calls.reserve_exact(indexes.len());
        subset.numbers.reserve_exact(indexes.len() * new.len());
        subset.estimated_now = batch.estimated_now;
        subset.predictor = Arc::clone(&batch.predictor);
        let dimensions = new.len();
        let numbers_of = |index: usize| &batch.numbers[index * dimensions..][..dimensions];
        for &index in indexes {
            let (call, numbers) = (&batch.calls[index], numbers_of(index));
            for (dimension, &number) in numbers.iter().enumerate() {
                let Some(old) = usize::from(number).checked_sub(1) else {
                    subset.numbers.push(0);
                    continue;
                };
                if new[dimension][old] == 0 {
                    let mut count = 0;
                    for (policy, named) in policies.named().iter().enumerate() {
                        if named.key_dimension == dimension {
                            let name = batch.names[policy].get(old);
                            subset.names[policy].push(|names| names.extend_from_slice(name));
                            count = subset.names[policy].len();
                        }
                    }
                    new[dimension][old] = u16::try_from(count).unwrap_or(u16::MAX);
                }
                subset.numbers.push(new[dimension][old]);
            }
            if !holds.is_empty() && has_hold(call, numbers) {
                let name = batch.holds.get(holds[index]);
                subset.holds.push(|names| names.extend_from_slice(name));
            }
            subset.calls.push(call.clone());
        }
        for &index in indexes {
            for (dimension, &number) in numbers_of(index).iter().enumerate() {
                if number > 0 {
                    new[dimension][usize::from(number) - 1] = 0;
                }
            }
        }
        subset
    }
}
