//! Partitions a flush by cluster slot.

use std::collections::HashMap;
use std::sync::Arc;

use crate::policy::policy_set::PolicySet;
use crate::redis::batch::call_batch::CallBatch;
use crate::redis::batch::flush::Flush;
use crate::redis::batch::split::groups_by_id;
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
            let slot = slot_of(registration.keys.get(0));
            return SlotPartitions {
                partitions: vec![FlushPartition { slot, flush: self, calls: Vec::new() }],
                cross_slot: None,
            };
        }
        let mut partitions = self.partition(slots);
        let cross_slot = partitions.iter().position(|part| part.slot == NO_COMMON_SLOT);
        let cross_slot = cross_slot.map(|index| partitions.remove(index));
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
        let mut partitions: Vec<FlushPartition> = Vec::new();
        let mut latest = HashMap::new();
        let mut before = 0;
        for entry in self.entries {
            let (policies, count) = (Arc::clone(&entry.policies), entry.batch.len());
            let (groups, ids) = groups_by_id(ids(&entry.batch, &policies));
            for ((batch, calls), id) in entry.into_parts(&groups, before).into_iter().zip(ids) {
                // Calls without a common slot are not sent, so they need not fit into a script call.
                let fits = |index: &usize| {
                    id == NO_COMMON_SLOT || partitions[*index].flush.fits(&policies, &batch)
                };
                let known = latest.get(&id).copied().filter(fits);
                let index = known.unwrap_or_else(|| {
                    let flush = Flush { peeks: self.peeks, ..Flush::default() };
                    partitions.push(FlushPartition { slot: id, flush, calls: Vec::new() });
                    partitions.len() - 1
                });
                latest.insert(id, index);
                let partition = &mut partitions[index];
                partition.flush.push_entry(Arc::clone(&policies), batch, None);
                partition.calls.extend(calls.iter().map(|&call| number(call)));
            }
            before += count;
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
