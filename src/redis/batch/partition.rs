//! Partitions a flush by cluster slot.

use std::collections::HashMap;
use std::sync::Arc;

use crate::policy::policy_set::PolicySet;
use crate::redis::batch::call_batch::CallBatch;
use crate::redis::batch::flush::{Flush, FlushEntry};
use crate::redis::batch::subset::SubsetBuilder;
use crate::redis::slot::slot_of;

/// A subset of a flush's calls, in call order.
#[derive(Debug)]
pub struct FlushPartition {
    /// The slot of all their keys.
    pub slot: u16,
    /// The calls. They fit into one script call.
    pub flush: Flush,
    /// The indexes of these calls in the original flush, from 0.
    pub calls: Vec<u32>,
}

/// A flush, partitioned by slot.
#[derive(Debug, Default)]
pub struct SlotPartitions {
    /// The partitions. Those of one slot are in call order.
    pub partitions: Vec<FlushPartition>,
    /// The calls whose keys do not share a slot. No node can decide them.
    pub cross_slot: Option<FlushPartition>,
}

/// The slot value of calls whose keys do not share a slot.
const NO_COMMON_SLOT: u16 = u16::MAX;

impl Flush {
    /// Partitions an unsent flush by the slots of its keys.
    #[must_use]
    pub fn by_slot(self) -> SlotPartitions {
        if let Some(registration) = &self.registration {
            let slot = slot_of(registration.name());
            return SlotPartitions {
                partitions: vec![FlushPartition { slot, flush: self, calls: Vec::new() }],
                cross_slot: None,
            };
        }
        let partitions = self.partition(slots);
        let (mut cross_slot, partitions): (Vec<_>, Vec<_>) =
            partitions.into_iter().partition(|partition| partition.slot == NO_COMMON_SLOT);
        // These calls may exceed one script call. They are merged anyway, because none is sent.
        let cross_slot = cross_slot.drain(..).reduce(|mut all, more| {
            all.flush.extend(more.flush);
            all.calls.extend(more.calls);
            all
        });
        SlotPartitions { partitions, cross_slot }
    }

    /// Splits an unsent flush, all keys of which are in `slot`, into its single calls.
    #[must_use]
    pub fn by_call(self, slot: u16) -> Vec<FlushPartition> {
        let mut all = 0_u16..;
        let mut partitions = self.partition(|batch, _| all.by_ref().take(batch.len()).collect());
        partitions.iter_mut().for_each(|partition| partition.slot = slot);
        partitions
    }

    /// Groups calls with the same id. `ids` returns the id of each call of a batch.
    fn partition(
        self,
        mut ids: impl FnMut(&CallBatch, &PolicySet) -> Vec<u16>,
    ) -> Vec<FlushPartition> {
        let (peeks, entries) = self.into_entries();
        let mut partitions: Vec<FlushPartition> = Vec::new();
        let mut latest: HashMap<u16, usize> = HashMap::new();
        let mut before = 0;
        for FlushEntry { policies, batch, positions, .. } in entries {
            let calls = batch.len();
            let position =
                |call| positions.as_ref().map_or(before + call, |positions| positions[call]);
            // The calls of each id, in the order of first appearance.
            let (mut own, mut found) = (Vec::<(u16, Vec<usize>)>::new(), HashMap::new());
            for (call, id) in ids(&batch, &policies).into_iter().enumerate() {
                let index = *found.entry(id).or_insert(own.len());
                match own.get_mut(index) {
                    Some((_, calls)) => calls.push(call),
                    None => own.push((id, vec![call])),
                }
            }
            let mut batches: Vec<Option<CallBatch>> = match own.len() {
                // The batch stays whole.
                1 => vec![Some(batch)],
                _ => {
                    let mut subsets = SubsetBuilder::new(&batch, &policies);
                    own.iter().map(|(_, calls)| Some(subsets.build(calls))).collect()
                }
            };
            for ((id, calls), batch) in own.into_iter().zip(&mut batches) {
                let Some(batch) = batch.take() else { continue };
                let known = latest.get(&id).copied();
                let fits = |index: &usize| partitions[*index].flush.fits(&policies, &batch);
                let index = known.filter(fits).unwrap_or(partitions.len());
                if index == partitions.len() {
                    let flush = if peeks { Flush::peeking() } else { Flush::default() };
                    partitions.push(FlushPartition { slot: id, flush, calls: Vec::new() });
                    latest.insert(id, index);
                }
                let partition = &mut partitions[index];
                partition.flush.push(Arc::clone(&policies), batch);
                partition.calls.extend(calls.iter().map(|&call| number(position(call))));
            }
            before += calls;
        }
        partitions
    }
}

fn number(call: usize) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

/// For each call: the slot of its keys, or [`NO_COMMON_SLOT`].
fn slots(batch: &CallBatch, policies: &PolicySet) -> Vec<u16> {
    // The keys of one dimension have the same hash tag under all policies.
    let of_dimension = |dimension| -> Vec<u16> {
        batch
            .keys_of(policies, dimension)
            .map(|keys| keys.iter().map(slot_of).collect())
            .unwrap_or_default()
    };
    let by_dimension: Vec<_> = (0..policies.key_dimensions()).map(of_dimension).collect();
    let of_call = |numbers: &[u16]| {
        let keys = numbers.iter().zip(&by_dimension).filter(|(number, _)| **number > 0);
        let mut slots = keys.map(|(number, slots)| slots[usize::from(*number) - 1]);
        // A call without keys can run on any slot.
        let first = slots.next().unwrap_or(0);
        if slots.all(|slot| slot == first) { first } else { NO_COMMON_SLOT }
    };
    batch.calls().map(|(_, numbers)| of_call(numbers)).collect()
}
