//! Splitting a round, so that the keys of each part share a slot.

use std::collections::HashMap;
use std::sync::Arc;

use crate::policy::policy_set::Policies;
use crate::redis::batch::call_batch::Batch;
use crate::redis::batch::flush::{Group, Round};
use crate::redis::batch::subset::Picker;
use crate::redis::slot::slot_of;

/// Some of a round's calls, in their order.
#[derive(Debug)]
pub struct Part {
    /// The slot of all their keys.
    pub slot: u16,
    /// The calls: one job decides them.
    pub round: Round,
    /// Which calls of the round they are, counted from 0.
    pub calls: Vec<u32>,
}

/// A round, split by slot.
#[derive(Debug, Default)]
pub struct Split {
    /// Parts that can be decided. Those of one slot are in the order of their calls.
    pub parts: Vec<Part>,
    /// The calls whose keys do not share a slot, if there are any: nobody can decide them.
    pub crossing: Option<Part>,
}

/// The slot of calls whose keys do not share one.
const CROSSING: u16 = u16::MAX;

impl Round {
    /// Splits a round that has not been sent by the slots of its keys.
    #[must_use]
    pub fn by_slot(self) -> Split {
        if let Some(noting) = &self.noting {
            let slot = slot_of(noting.name());
            return Split {
                parts: vec![Part { slot, round: self, calls: Vec::new() }],
                crossing: None,
            };
        }
        let parts = self.split(slots);
        let (mut crossing, parts): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|part| part.slot == CROSSING);
        // They need not fit into one job.
        let crossing = crossing.drain(..).reduce(|mut all, more| {
            all.round.extend(more.round);
            all.calls.extend(more.calls);
            all
        });
        Split { parts, crossing }
    }

    /// Splits a round that has not been sent into its calls, of which all keys are in this slot.
    #[must_use]
    pub fn by_call(self, slot: u16) -> Vec<Part> {
        let mut all = 0_u16..;
        let mut parts = self.split(|batch, _| all.by_ref().take(batch.len()).collect());
        parts.iter_mut().for_each(|part| part.slot = slot);
        parts
    }

    /// Puts calls together for which `places` says the same.
    fn split(self, mut places: impl FnMut(&Batch, &Policies) -> Vec<u16>) -> Vec<Part> {
        let (peeks, groups) = self.into_groups();
        let mut parts: Vec<Part> = Vec::new();
        let mut latest: HashMap<u16, usize> = HashMap::new();
        let mut before = 0;
        for Group { policies, batch, .. } in groups {
            let calls = batch.len();
            // By place, in the order in which they come first: its calls.
            let (mut own, mut found) = (Vec::<(u16, Vec<usize>)>::new(), HashMap::new());
            for (call, place) in places(&batch, &policies).into_iter().enumerate() {
                let index = *found.entry(place).or_insert(own.len());
                match own.get_mut(index) {
                    Some((_, calls)) => calls.push(call),
                    None => own.push((place, vec![call])),
                }
            }
            let mut batches: Vec<Option<Batch>> = match own.len() {
                // The whole batch, as it is.
                1 => vec![Some(batch)],
                _ => {
                    let mut picker = Picker::new(&batch, &policies);
                    own.iter().map(|(_, calls)| Some(picker.pick(calls))).collect()
                }
            };
            for ((place, calls), batch) in own.into_iter().zip(&mut batches) {
                let Some(batch) = batch.take() else { continue };
                let known = latest.get(&place).copied();
                let fits = |index: &usize| parts[*index].round.has_room_for(&policies, &batch);
                let index = known.filter(fits).unwrap_or(parts.len());
                if index == parts.len() {
                    let round = if peeks { Round::peeking() } else { Round::default() };
                    parts.push(Part { slot: place, round, calls: Vec::new() });
                    latest.insert(place, index);
                }
                let part = &mut parts[index];
                part.round.push(Arc::clone(&policies), batch);
                part.calls.extend(calls.iter().map(|call| number(before + call)));
            }
            before += calls;
        }
        parts
    }
}

fn number(call: usize) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

/// By call: the slot of its keys.
fn slots(batch: &Batch, policies: &Policies) -> Vec<u16> {
    // The keys of one subject have the same hash tag under all policies.
    let of_subject = |subject| -> Vec<u16> {
        batch
            .keys_of(policies, subject)
            .map(|keys| keys.iter().map(slot_of).collect())
            .unwrap_or_default()
    };
    let by_subject: Vec<_> = (0..policies.subjects()).map(of_subject).collect();
    let of_call = |numbers: &[u16]| {
        let named = numbers.iter().zip(&by_subject).filter(|(number, _)| **number > 0);
        let mut slots = named.map(|(number, slots)| slots[usize::from(*number) - 1]);
        // A call without a key is at home everywhere.
        let first = slots.next().unwrap_or(0);
        if slots.all(|slot| slot == first) { first } else { CROSSING }
    };
    batch.calls().map(|(_, numbers)| of_call(numbers)).collect()
}
