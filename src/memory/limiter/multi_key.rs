//! Decisions on several keys, and operations that need more than one state.
//!
//! The shards of the keys are locked in ascending order, each once, so that no two callers can
//! deadlock. The clock is read when all of them are locked. Then the states are taken out of the
//! shards, [`execute`] changes them, and they are put back.

use std::fmt;

use crate::algorithm::Algorithm as _;
use crate::clock::Clock;
use crate::key::Key;
use crate::memory::shard::Shard;
use crate::memory::{KeyRef, MemoryStore, locked};
use crate::policy::State;
use crate::policy::execute::holds::MAX_HOLDS;
use crate::policy::execute::{Execution, KeyEntry, KeyMetadata, execute};
use crate::policy::operation::Operation;
use crate::policy::policy_set::{NamedPolicy, PolicySet};
use crate::sync::MutexGuard;
use crate::time::Micros;

/// The reason for which an operation was not executed. Nothing has been changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationError {
    /// The store is full, and the key shares an overflow bucket, which cannot be reset for one key
    /// alone.
    SharedBucket,
    /// The store is full, and has no capacity for a block, an override, a hold or a remembered call.
    NoCapacity,
    /// The key has 10,000 open holds and remembered calls.
    TooManyHolds,
    /// The numbers of an override are invalid: see [`PolicySet::check_override`].
    InvalidOverride,
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SharedBucket => "the store is full and the key shares its count with others",
            Self::NoCapacity => {
                "the store is full and has no capacity for a block, an override, a hold or a call"
            }
            Self::TooManyHolds => "the key has 10,000 open holds and remembered calls",
            Self::InvalidOverride => "the override does not match the limiter's policies",
        })
    }
}

impl std::error::Error for OperationError {}

/// The keys of a call, with their shards locked.
pub(super) struct MultiKeyDecision<'a> {
    store: &'a MemoryStore,
    policies: &'a PolicySet,
    /// The locked shards, by ascending numbers.
    shards: Vec<(usize, MutexGuard<'a, Shard>)>,
    now: Micros,
    /// The key of each policy; `None` for a policy without a key in this call.
    policy_keys: Vec<Option<PolicyKey<'a>>>,
}

/// The key of one policy.
struct PolicyKey<'a> {
    /// The index of its shard among the locked ones.
    shard: usize,
    key_ref: KeyRef<'a>,
    metadata: KeyMetadata,
    /// Whether the metadata was taken out of its entry, and is neither put back nor stored yet.
    taken_out: bool,
    /// Whether capacity for one entry has been claimed and is not used yet. It is used by
    /// [`Shard::keep_metadata`], or released when the decision ends.
    claimed: bool,
    /// Whether the metadata may have strikes.
    may_strike: bool,
    /// Whether the metadata may have owed units.
    may_owe: bool,
    working: Option<WorkingState>,
}

/// A state that was taken out, and the place to put it back.
struct WorkingState {
    state: State,
    origin: StateOrigin,
}

enum StateOrigin {
    /// The key's own entry.
    Entry(usize),
    /// The key has no entry. `before` is the state of its overflow bucket, or an initial state.
    Vacant { before: State, shared: bool },
}

impl<'a> MultiKeyDecision<'a> {
    /// Locks the shards of the keys. `namespaces` has a number for each policy; `keys` has an entry
    /// for each key dimension.
    pub(super) fn lock(
        store: &'a MemoryStore,
        policies: &'a PolicySet,
        namespaces: &[u32],
        keys: &[Option<Key<'a>>],
        clock: &impl Clock,
    ) -> Self {
        let hash = |key: &Option<Key<'a>>| key.map(|key| (key, store.hash_key(key)));
        let hashes: Vec<_> = keys.iter().map(hash).collect();
        let mut numbers = Vec::with_capacity(hashes.len());
        for (_, hash) in hashes.iter().flatten() {
            let number = store.shard_index(*hash);
            if let Err(index) = numbers.binary_search(&number) {
                numbers.insert(index, number);
            }
        }
        let lock_shard = |number: usize| (number, locked(&store.shards[number].0));
        let mut shards: Vec<_> = numbers.into_iter().map(lock_shard).collect();
        let now = clock.now();
        let policy_key = |(NamedPolicy { key_dimension, .. }, &namespace): (&NamedPolicy, &u32)| {
            let (key, hash) = (*hashes.get(*key_dimension)?)?;
            let number = store.shard_index(hash);
            let shard = shards.binary_search_by_key(&number, |shard| shard.0).ok()?;
            let key_ref = (namespace, key, hash);
            let metadata = shards[shard].1.take_metadata(key_ref);
            Some(PolicyKey {
                shard,
                key_ref,
                taken_out: metadata.is_some(),
                metadata: metadata.unwrap_or_default(),
                claimed: false,
                may_strike: false,
                may_owe: false,
                working: None,
            })
        };
        let policy_keys = policies.named().iter().zip(namespaces).map(policy_key).collect();
        Self { store, policies, shards, now, policy_keys }
    }

    /// Executes any operation.
    pub(super) fn try_execute(
        mut self,
        operation: &Operation,
    ) -> Result<Execution, OperationError> {
        match operation {
            Operation::Reset => self.check_not_shared()?,
            Operation::Block { .. } => self.claim(&|_| true)?,
            Operation::Reserve { .. } | Operation::Acquire { hold: Some(_), .. } => {
                self.check_holds()?;
                self.claim(&|number| number == 0)?;
            }
            Operation::Repeatable(call) => {
                let own = self.policy_keys[0].as_ref();
                let is_repeated =
                    |own: &PolicyKey<'_>| call.is_repeated(self.policies, &own.metadata, self.now);
                if !own.is_some_and(is_repeated) {
                    self.check_holds()?;
                }
                self.claim(&|number| number == 0)?;
            }
            Operation::Override { policies, .. } => {
                let checked = self.policies.check_override(policies);
                checked.map_err(|_| OperationError::InvalidOverride)?;
                self.claim(&|number| policies[number].is_some())?;
            }
            _ => {}
        }
        Ok(self.execute(operation))
    }

    /// Executes an operation that needs no capacity for metadata and cannot fail.
    pub(super) fn execute(mut self, operation: &Operation) -> Execution {
        let changes = !matches!(operation, Operation::Peek { .. });
        if changes {
            for (_, shard) in &mut self.shards {
                self.store.maybe_sweep(shard, self.now);
            }
        }
        self.claim_for_strikes(operation);
        self.claim_for_owed(operation);
        self.take_out_states();
        let executed = self.execute_on_states(operation);
        self.put_back();
        if changes {
            self.store_changes();
        }
        executed
    }

    /// Checks that no key shares its count, which could not be reset for one key alone.
    fn check_not_shared(&mut self) -> Result<(), OperationError> {
        for PolicyKey { shard, key_ref, .. } in self.policy_keys.iter().flatten() {
            let shard = &self.shards[*shard].1;
            if !shard.has_entry(*key_ref) && shard.overflow_bucket(*key_ref, self.now).is_some() {
                return Err(OperationError::SharedBucket);
            }
        }
        Ok(())
    }

    /// Checks that the key of the first policy may have one more hold or remembered call.
    fn check_holds(&self) -> Result<(), OperationError> {
        let metadata = self.policy_keys[0].as_ref().map(|policy_key| &policy_key.metadata);
        let open = metadata.map_or(0, |metadata| {
            let KeyMetadata { holds, repeats, .. } = metadata;
            let holds = holds.iter().filter(|hold| hold.expires_at > self.now).count();
            holds + repeats.as_ref().map_or(0, |calls| calls.open(self.now))
        });
        if open < MAX_HOLDS { Ok(()) } else { Err(OperationError::TooManyHolds) }
    }

    /// Claims capacity for the metadata of some policies' keys, unless they have some already. If
    /// it fails, the claims end with the decision.
    fn claim(&mut self, of: &dyn Fn(usize) -> bool) -> Result<(), OperationError> {
        let has_capacity = (0..self.policy_keys.len())
            .filter(|&number| of(number))
            .all(|number| self.policy_keys[number].is_none() || self.claim_for(number));
        if has_capacity { Ok(()) } else { Err(OperationError::NoCapacity) }
    }

    /// Claims capacity for the metadata of a policy's key, unless it has some already. Returns
    /// whether there is capacity.
    fn claim_for(&mut self, number: usize) -> bool {
        let Some(policy_key) = &mut self.policy_keys[number] else { return false };
        if !policy_key.claimed && !policy_key.taken_out {
            let shard = &mut self.shards[policy_key.shard].1;
            policy_key.claimed = shard.claim_or_sweep(&self.store.capacity, self.now);
            return policy_key.claimed;
        }
        true
    }

    /// Claims capacity for the metadata of keys to which an operation may give strikes. A key
    /// without capacity gets no strikes.
    fn claim_for_strikes(&mut self, operation: &Operation) {
        let may_strike = match operation {
            Operation::Take { .. }
            | Operation::Reserve { .. }
            | Operation::Extend { .. }
            | Operation::Repeatable(_) => true,
            // A call that waits is no strike.
            Operation::Acquire { request, .. } => request.waited.is_none(),
            _ => false,
        };
        let Some(rule) = self.policies.ban().filter(|_| may_strike) else { return };
        for number in 0..self.policy_keys.len() {
            let may_strike = rule.may_ban(number) && self.claim_for(number);
            if let Some(policy_key) = &mut self.policy_keys[number] {
                policy_key.may_strike = may_strike;
            }
        }
    }

    /// Claims capacity for the metadata of keys that an operation may leave owing. A key without capacity
    /// owes nothing.
    fn claim_for_owed(&mut self, operation: &Operation) {
        let policies = self.policies;
        for number in 0..self.policy_keys.len() {
            let limit = match operation {
                Operation::Settle { .. } => policies.owed_limit(number),
                Operation::Penalize { .. } => policies.owed_penalty_limit(number),
                _ => return,
            };
            let may_owe = limit.max > 0 && self.claim_for(number);
            if let Some(policy_key) = &mut self.policy_keys[number] {
                policy_key.may_owe = may_owe;
            }
        }
    }

    /// Takes the states out of their entries.
    fn take_out_states(&mut self) {
        for (policy_key, named) in self.policy_keys.iter_mut().zip(self.policies.named()) {
            let Some(policy_key) = policy_key else { continue };
            let shard = &mut self.shards[policy_key.shard].1;
            policy_key.working = Some(match shard.take_out(policy_key.key_ref) {
                Some((index, state)) => WorkingState { state, origin: StateOrigin::Entry(index) },
                None => {
                    let bucket = shard.overflow_bucket(policy_key.key_ref, self.now);
                    let shared = bucket.is_some();
                    let before = bucket.unwrap_or_else(|| named.policy.initial_state());
                    WorkingState {
                        state: before.clone(),
                        origin: StateOrigin::Vacant { before, shared },
                    }
                }
            });
        }
    }

    /// Executes an operation on the states that were taken out.
    fn execute_on_states(&mut self, operation: &Operation) -> Execution {
        let mut parts = Vec::with_capacity(self.policy_keys.len());
        for policy_key in &mut self.policy_keys {
            parts.push(match policy_key {
                Some(PolicyKey {
                    working: Some(working), metadata, may_strike, may_owe, ..
                }) => {
                    // The units of other keys must not ban this one.
                    let is_shared = working.is_shared();
                    let may_strike = *may_strike && !is_shared;
                    let (state, may_owe) = (&mut working.state, *may_owe);
                    Some(KeyEntry { state, metadata, may_strike, may_owe, is_shared })
                }
                _ => None,
            });
        }
        execute(self.policies, &mut parts, self.now, operation)
    }

    /// Puts the states back into their entries.
    fn put_back(&mut self) {
        for policy_key in self.policy_keys.iter_mut().flatten() {
            let entry =
                |working: &mut WorkingState| matches!(working.origin, StateOrigin::Entry(_));
            if let Some(WorkingState { state, origin: StateOrigin::Entry(index) }) =
                policy_key.working.take_if(entry)
            {
                self.shards[policy_key.shard].1.put_back(index, state);
            }
        }
    }

    /// Stores the metadata of all keys, and the states of keys without an entry.
    fn store_changes(&mut self) {
        let (capacity, now) = (&self.store.capacity, self.now);
        // The metadata first: it may not need the capacity that was claimed, and a new key may.
        for policy_key in self.policy_keys.iter_mut().flatten() {
            let shard = &mut self.shards[policy_key.shard].1;
            let metadata = std::mem::take(&mut policy_key.metadata);
            let claimed = std::mem::take(&mut policy_key.claimed);
            policy_key.taken_out = false;
            shard.keep_metadata(policy_key.key_ref, metadata, claimed, capacity);
        }
        for policy_key in self.policy_keys.iter_mut().flatten() {
            let shard = &mut self.shards[policy_key.shard].1;
            if let Some(WorkingState { state, origin: StateOrigin::Vacant { before, .. } }) =
                policy_key.working.take()
                && state != before
            {
                shard.admit(policy_key.key_ref, state, capacity, now);
            }
        }
    }
}

impl WorkingState {
    fn is_shared(&self) -> bool {
        matches!(self.origin, StateOrigin::Vacant { shared: true, .. })
    }
}

/// No state and no metadata may be missing, and no claim may be left, even after an error or a panic.
impl Drop for MultiKeyDecision<'_> {
    fn drop(&mut self) {
        self.put_back();
        for policy_key in self.policy_keys.iter_mut().flatten() {
            if std::mem::take(&mut policy_key.taken_out) {
                let metadata = std::mem::take(&mut policy_key.metadata);
                self.shards[policy_key.shard].1.put_back_metadata(policy_key.key_ref, metadata);
            }
        }
        let keys = self.policy_keys.iter().flatten();
        let claimed = keys.filter(|policy_key| policy_key.claimed).count();
        if claimed > 0 {
            self.store.capacity.release(claimed);
        }
    }
}
