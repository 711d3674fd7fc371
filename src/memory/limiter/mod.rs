//! One limiter on the embedded store.

pub(crate) mod multi_key;

use std::sync::Arc;

use super::shard::{Shard, StateEntry};
use super::{KeyRef, MemoryStore, locked};
use crate::algorithm::{Algorithm as _, Rewrites};
use crate::clock::Clock;
use crate::key::Key;
use crate::memory::limiter::multi_key::{MultiKeyDecision, OperationError};
use crate::policy::decision::{self, Decision, Status};
use crate::policy::execute::Execution;
use crate::policy::multi_policy::{self, Cost, Response, States};
use crate::policy::operation::Operation;
use crate::policy::policy_set::{InvalidPolicySet, PerPolicy, PolicySet};
use crate::policy::{Policy, State};
use crate::prefixes::VariantIndex;
use crate::sync::MutexGuard;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::time::Micros;

/// One limiter on the embedded store: its policies, and the states of its keys under a prefix.
///
/// Dropping it closes it.
#[derive(Debug)]
pub struct MemoryLimiter {
    store: Arc<MemoryStore>,
    prefix: Box<str>,
    /// The number of each policy's namespace.
    namespaces: Box<[u32]>,
    policies: PolicySet,
    /// The first policy and its namespace: all that a call needs if there is only one policy.
    first: (Policy, u32),
    /// Whether a call needs more than the state of one key: there are several policies, or bans.
    is_general: bool,
    /// Whether another limiter had the prefix open with other numbers.
    has_other_numbers: bool,
    closed: AtomicBool,
}

impl MemoryLimiter {
    pub(super) fn new(
        store: Arc<MemoryStore>,
        prefix: &str,
        namespaces: Box<[u32]>,
        policies: PolicySet,
        has_other_numbers: bool,
    ) -> Self {
        let first = (policies.named()[0].policy.clone(), namespaces[0]);
        let is_general = policies.alone().is_none() || policies.ban().is_some();
        let closed = AtomicBool::new(false);
        Self {
            store,
            prefix: prefix.into(),
            namespaces,
            policies,
            first,
            is_general,
            has_other_numbers,
            closed,
        }
    }

    /// The prefix, if another limiter had it open with other numbers when this one was opened.
    #[must_use]
    pub fn prefix_with_other_numbers(&self) -> Option<&str> {
        self.has_other_numbers.then_some(&self.prefix)
    }

    /// Frees the prefix for other policies. The states stay until they are fresh.
    ///
    /// Do not use a closed limiter: the prefix may be open with other policies.
    pub fn close(&self) {
        if !self.closed.swap(true, Ordering::Relaxed) {
            self.store.close(&self.prefix);
        }
    }

    /// Opens a limiter on the same states whose policies have other numbers: a variant of these.
    ///
    /// # Errors
    /// [`InvalidPolicySet`] if the policies differ in more than numbers.
    pub fn open_variant(
        &self,
        index: VariantIndex,
        policies: PolicySet,
    ) -> Result<Self, InvalidPolicySet> {
        self.policies.check_variant(&policies)?;
        let differs = locked(&self.store.prefixes).open_variant(&self.prefix, index, &policies)?;
        let (store, namespaces) = (Arc::clone(&self.store), self.namespaces.clone());
        Ok(Self::new(store, &self.prefix, namespaces, policies, differs))
    }

    /// Takes `cost` units from a key. If there are several policies, all of them count by this key.
    pub fn take(&self, key: Key<'_>, cost: u64, clock: &impl Clock) -> Decision {
        let take = |policy: &_, state: &mut _, now| take_alone(policy, state, now, cost);
        let decide = || self.take_general(key, cost, clock).decision;
        self.change(key, clock, take, decide)
    }

    /// [`take`](Self::take), with a report of each limit if the limits have names.
    pub fn take_with_report(&self, key: Key<'_>, cost: u64, clock: &impl Clock) -> Response {
        if self.is_general {
            return self.take_general(key, cost, clock);
        }
        let decide = || self.decide(key, &Operation::Take { cost: cost.into() }, clock);
        let take = |policy: &_, state: &mut _, now| multi_policy::take(policy, state, now, cost);
        self.change(key, clock, take, decide)
    }

    /// Takes units from a key under any policies and with any metadata.
    fn take_general(&self, key: Key<'_>, cost: u64, clock: &impl Clock) -> Response {
        let decide = || self.decide(key, &Operation::Take { cost: cost.into() }, clock);
        // WebAssembly has one path for all, to keep the download small.
        if cfg!(target_arch = "wasm32") {
            return decide();
        }
        self.take_all(key, cost, clock).unwrap_or_else(decide)
    }

    /// Executes an operation on the keys of the limiter's key dimensions, in their order. It is
    /// atomic: no other thread sees a part of it.
    ///
    /// A policy whose key dimension has no key does not take part, and its state does not change.
    /// Calls that take units and peeks should name a key of every dimension.
    ///
    /// # Errors
    /// [`OperationError`] if the store is too full for the operation, or if an override's numbers
    /// are invalid. Only resets, blocks and overrides can fail.
    pub fn execute(
        &self,
        keys: &[Option<Key<'_>>],
        operation: &Operation,
        clock: &impl Clock,
    ) -> Result<Execution, OperationError> {
        if let (&[Some(key)], Operation::Take { cost }) = (keys, operation)
            && self.policies.alone().is_none()
            && !cfg!(target_arch = "wasm32")
            && let Some(response) = self.take_all(key, cost, clock)
        {
            let is_allowed =
                matches!(response.decision.status, Status::Allowed | Status::AllowedLast);
            return Ok(Execution::new(response, cost.if_charged(is_allowed)));
        }
        self.lock_keys(keys, clock).try_execute(operation)
    }

    /// The policies of the limiter.
    #[must_use]
    pub fn policies(&self) -> &PolicySet {
        &self.policies
    }

    /// The number of limits that decisions report by name; 0 for a policy with one limit.
    #[must_use]
    pub fn named_limits(&self) -> usize {
        self.policies.named_limits()
    }

    fn lock_keys<'a>(
        &'a self,
        keys: &[Option<Key<'a>>],
        clock: &impl Clock,
    ) -> MultiKeyDecision<'a> {
        MultiKeyDecision::lock(&self.store, &self.policies, &self.namespaces, keys, clock)
    }

    /// Whether a call needs more than the state of one key.
    #[cold]
    fn needs_multi_key(&self, shard: &Shard, key_ref: KeyRef<'_>) -> bool {
        self.is_general || shard.metadata(key_ref).is_some()
    }

    /// Takes units from a key that all policies count by, if the key has a state under each of them
    /// and no metadata. The states are changed in place.
    ///
    /// Returns `None`, and charges nothing, if the key does not qualify, if this visit has to sweep,
    /// or if the call is refused and may be a strike.
    fn take_all(&self, key: Key<'_>, cost: impl Cost, clock: &impl Clock) -> Option<Response> {
        if self.policies.key_dimensions() > 1 {
            return None;
        }
        let hash = self.store.hash_key(key);
        let mut shard = self.store.shard(hash);
        if shard.has_metadata() {
            return None;
        }
        let key_refs = || self.namespaces.iter().map(|&namespace| (namespace, key, hash));
        let hints: PerPolicy<_> = key_refs().map(|key_ref| shard.prefetch(key_ref)).collect();
        let now = clock.now();
        let own = |(key_ref, hint)| shard.entry_index(key_ref, hint);
        let indices = key_refs().zip(hints).map(own).collect::<Option<_>>()?;
        if !shard.count_visit() {
            return None;
        }
        let mut states = OccupiedStates { indices, shard };
        multi_policy::take_all(&self.policies, &mut states, now, cost)
    }

    /// Executes an operation that cannot fail on a key that all policies count by.
    #[cold]
    fn decide(&self, key: Key<'_>, operation: &Operation, clock: &impl Clock) -> Response {
        let keys = vec![Some(key); self.policies.key_dimensions()];
        self.lock_keys(&keys, clock).execute(operation).response
    }

    /// Calls `take` on the state of a key. If there are several policies or bans, or the key has
    /// metadata, it calls `decide` instead. (An `Option` of a decision would be copied in parts,
    /// which takes 25 ns.)
    #[inline]
    fn change<T>(
        &self,
        key: Key<'_>,
        clock: &impl Clock,
        take: impl FnOnce(&Policy, &mut State, Micros) -> T,
        decide: impl FnOnce() -> T,
    ) -> T {
        let (policy, namespace) = &self.first;
        let hash = self.store.hash_key(key);
        let key_ref = (*namespace, key, hash);
        let mut shard = self.store.shard(hash);
        // Not `||`: a call on one policy should pay for a single test.
        if (self.is_general | shard.has_metadata()) && self.needs_multi_key(&shard, key_ref) {
            drop(shard);
            return decide();
        }
        let hint = shard.prefetch(key_ref);
        let now = clock.now();
        self.store.maybe_sweep(&mut shard, now);
        match shard.find(key_ref, hint, now) {
            StateEntry::Occupied(state) => take(policy, state, now),
            StateEntry::Vacant(shared) => {
                let before = shared.unwrap_or_else(|| policy.initial_state());
                let mut state = before.clone();
                let decision = take(policy, &mut state, now);
                if state != before {
                    shard.admit(key_ref, state, &self.store.capacity, now);
                }
                decision
            }
        }
    }
}

/// The states of a key, in their table entries.
struct OccupiedStates<'a> {
    shard: MutexGuard<'a, Shard>,
    indices: PerPolicy<usize>,
}

impl States for OccupiedStates<'_> {
    fn of(&mut self, number: usize) -> &mut State {
        self.shard.state(self.indices[number])
    }
}

/// [`decision::take`], with a direct call of the most frequent algorithms. The algorithm is
/// selected once, instead of in each step of a decision.
#[inline]
fn take_alone(policy: &Policy, state: &mut State, now: Micros, cost: u64) -> Decision {
    match (policy.rate(), policy, &mut *state) {
        // Others may need a mark.
        (Some(rate), _, State::Rate(own)) if rate.shares_numbers(own) => {
            decision::take(rate, own, now, cost)
        }
        (_, Policy::FixedWindow(window), State::Window(own))
            if window.rewrites(own, now) == Rewrites::Never =>
        {
            decision::take(window, own, now, cost)
        }
        _ => take_any_algorithm(policy, state, now, cost),
    }
}

/// Not inlined, to keep the code of the frequent algorithms short.
#[inline(never)]
fn take_any_algorithm(policy: &Policy, state: &mut State, now: Micros, cost: u64) -> Decision {
    decision::take(policy, state, now, cost)
}

impl Drop for MemoryLimiter {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests;
