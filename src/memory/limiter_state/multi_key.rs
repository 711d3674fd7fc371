//! Several keys side by side: decided together, or under an operation that needs more than a state.
//!
//! The shards of the keys are locked in ascending order, each once, so that no two callers wait for
//! each other, and the clock is read when all are locked. Then what is kept of the keys is laid out,
//! [`execute`] changes it, and it is put back.

use std::fmt;
use std::sync::MutexGuard;

use crate::algorithm::Algorithm as _;
use crate::clock::Clock;
use crate::key::Key;
use crate::memory::shard::Shard;
use crate::memory::{MemoryStore, Spot, locked};
use crate::policy::State;
use crate::policy::execute::{Execution, KeyEntry, KeyMetadata, execute};
use crate::policy::operation::Operation;
use crate::policy::policy_set::{NamedPolicy, Policies};
use crate::time::Micros;

/// Why an operation was not performed. Nothing has been changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationError {
    /// The store is full and the key shares an overflow cell, which cannot be reset for one alone.
    SharedCell,
    /// The store is full and has no room for a block or an override.
    NoRoom,
    /// The numbers are none that can decide in place of the limiter's: see
    /// [`Policies::check_override`].
    OtherNumbers,
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SharedCell => "the store is full and the key shares its count with others",
            Self::NoRoom => "the store is full and has no room to note this of the key",
            Self::OtherNumbers => "the numbers are not of the limiter's kinds",
        })
    }
}

impl std::error::Error for OperationError {}

/// The keys of a call under the locks of their shards.
pub(super) struct Desk<'a> {
    store: &'a MemoryStore,
    policies: &'a Policies,
    /// By their numbers, which ascend.
    shards: Vec<(usize, MutexGuard<'a, Shard>)>,
    now: Micros,
    /// By policy; nothing for those that the call names no key for.
    slots: Vec<Option<Slot<'a>>>,
}

/// The key of one policy.
struct Slot<'a> {
    /// Where its shard is among those that are locked.
    shard: usize,
    spot: Spot<'a>,
    extras: KeyMetadata,
    /// Whether room for extras has been claimed.
    claimed: bool,
    laid_out: Option<LaidOut>,
}

/// A state that is changed, and where it belongs.
struct LaidOut {
    state: State,
    home: Home,
}

enum Home {
    /// The key's own entry.
    Entry(usize),
    /// The key has none yet; what stood in its overflow cell, or an unused state.
    Newcomer { before: State, shared: bool },
}

impl<'a> Desk<'a> {
    /// Locks. Each policy has a space, and each subject may have a key.
    pub(super) fn open(
        store: &'a MemoryStore,
        policies: &'a Policies,
        spaces: &[u32],
        keys: &[Option<Key<'a>>],
        clock: &impl Clock,
    ) -> Self {
        let place = |key: &Option<Key<'a>>| key.map(|key| (key, store.place(key)));
        let places: Vec<_> = keys.iter().map(place).collect();
        let mut numbers = Vec::with_capacity(places.len());
        for (_, place) in places.iter().flatten() {
            let number = store.number_of_shard(*place);
            if let Err(index) = numbers.binary_search(&number) {
                numbers.insert(index, number);
            }
        }
        let lock = |number: usize| (number, locked(&store.shards[number].0));
        let shards: Vec<_> = numbers.into_iter().map(lock).collect();
        let now = clock.now();
        let slot = |(NamedPolicy { subject, .. }, &space): (&NamedPolicy, &u32)| {
            let (key, place) = (*places.get(*subject)?)?;
            let number = store.number_of_shard(place);
            let shard = shards.binary_search_by_key(&number, |shard| shard.0).ok()?;
            let spot = (space, key, place);
            let extras = shards[shard].1.extras(spot).cloned().unwrap_or_default();
            Some(Slot { shard, spot, extras, claimed: false, laid_out: None })
        };
        let slots = policies.named().iter().zip(spaces).map(slot).collect();
        Self { store, policies, shards, now, slots }
    }

    /// Performs any operation.
    pub(super) fn try_execute(
        mut self,
        operation: &Operation,
    ) -> Result<Execution, OperationError> {
        match operation {
            Operation::Reset => self.check_own()?,
            Operation::Block { .. } => self.claim(|_| true)?,
            Operation::Override { policies, .. } => {
                let checked = self.policies.check_override(policies);
                checked.map_err(|_| OperationError::OtherNumbers)?;
                self.claim(|number| policies[number].is_some())?;
            }
            _ => {}
        }
        Ok(self.execute(operation))
    }

    /// Performs an operation that needs no room for extras and cannot fail.
    pub(super) fn execute(mut self, operation: &Operation) -> Execution {
        let changes = !matches!(operation, Operation::Peek { .. });
        if changes {
            for (_, shard) in &mut self.shards {
                self.store.tidy(shard, self.now);
            }
        }
        self.lay_out();
        let executed = match operation {
            _ if gives_back(operation) => {
                // From a count that is shared, nothing is given back.
                let units = self.on(|laid_out| !laid_out.is_shared(), operation).units;
                Execution { units, ..self.on(|_| true, &Operation::Peek { cost: 0 }) }
            }
            _ => self.on(|_| true, operation),
        };
        self.put_back();
        if changes {
            self.keep();
        }
        executed
    }

    /// Sees to it that no key shares its count: that could not be reset for one alone.
    fn check_own(&mut self) -> Result<(), OperationError> {
        for Slot { shard, spot, .. } in self.slots.iter().flatten() {
            let shard = &self.shards[*shard].1;
            if !shard.has_entry(*spot) && shard.cell(*spot, self.now).is_some() {
                return Err(OperationError::SharedCell);
            }
        }
        Ok(())
    }

    /// Claims room for the extras of some policies' keys, if they have none yet: for all or for none.
    fn claim(&mut self, of: impl Fn(usize) -> bool) -> Result<(), OperationError> {
        let (room, now) = (&self.store.room, self.now);
        for (number, slot) in self.slots.iter_mut().enumerate() {
            let Some(slot) = slot.as_mut().filter(|_| of(number)) else { continue };
            // What has ended may be dropped while room is sought.
            if slot.extras.end() <= now {
                slot.claimed = self.shards[slot.shard].1.find_room(room, now);
                if !slot.claimed {
                    let claimed = self.slots.iter().flatten().filter(|slot| slot.claimed);
                    room.give_back(claimed.count());
                    return Err(OperationError::NoRoom);
                }
            }
        }
        Ok(())
    }

    /// Takes the states out of their entries.
    fn lay_out(&mut self) {
        for (slot, named) in self.slots.iter_mut().zip(self.policies.named()) {
            let Some(slot) = slot else { continue };
            let shard = &mut self.shards[slot.shard].1;
            slot.laid_out = Some(match shard.lift(slot.spot) {
                Some((index, state)) => LaidOut { state, home: Home::Entry(index) },
                None => {
                    let cell = shard.cell(slot.spot, self.now);
                    let shared = cell.is_some();
                    let before = cell.unwrap_or_else(|| named.policy.initial_state());
                    LaidOut { state: before.clone(), home: Home::Newcomer { before, shared } }
                }
            });
        }
    }

    /// Performs an operation on what is laid out, or on some of it.
    fn on(&mut self, which: impl Fn(&LaidOut) -> bool, operation: &Operation) -> Execution {
        let mut parts = Vec::with_capacity(self.slots.len());
        for slot in &mut self.slots {
            parts.push(match slot {
                Some(Slot { laid_out: Some(laid_out), extras, .. }) if which(laid_out) => {
                    Some(KeyEntry { state: &mut laid_out.state, metadata: extras })
                }
                _ => None,
            });
        }
        execute(self.policies, &mut parts, self.now, operation)
    }

    /// Puts the states back that were taken out of entries.
    fn put_back(&mut self) {
        for slot in self.slots.iter_mut().flatten() {
            let entry = |laid_out: &mut LaidOut| matches!(laid_out.home, Home::Entry(_));
            if let Some(LaidOut { state, home: Home::Entry(index) }) = slot.laid_out.take_if(entry)
            {
                self.shards[slot.shard].1.put_back(index, state);
            }
        }
    }

    /// Keeps what newcomers have used, and the extras.
    fn keep(&mut self) {
        let (room, now) = (&self.store.room, self.now);
        for slot in self.slots.iter_mut().flatten() {
            let shard = &mut self.shards[slot.shard].1;
            if let Some(LaidOut { state, home: Home::Newcomer { before, .. } }) =
                slot.laid_out.take()
                && state != before
            {
                shard.admit(slot.spot, state, room, now);
            }
            let extras = std::mem::take(&mut slot.extras);
            shard.keep_extras(slot.spot, extras, slot.claimed, room, now);
        }
    }
}

fn gives_back(operation: &Operation) -> bool {
    match operation {
        Operation::Refund { .. } | Operation::Unbook { .. } => true,
        Operation::Settle { units, actual, .. } => actual < units,
        _ => false,
    }
}

impl LaidOut {
    fn is_shared(&self) -> bool {
        matches!(self.home, Home::Newcomer { shared: true, .. })
    }
}

/// Also if there was a panic, no state may be missing.
impl Drop for Desk<'_> {
    fn drop(&mut self) {
        self.put_back();
    }
}
