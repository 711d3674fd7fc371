//! The decisions of one limiter on the embedded store.

pub(crate) mod multi_key;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};

use super::shard::{Held, Shard};
use super::{MemoryStore, Spot};
use crate::algorithm::Algorithm as _;
use crate::clock::Clock;
use crate::key::Key;
use crate::memory::limiter_state::multi_key::{Desk, OperationError};
use crate::policy::decision::{self, Decision};
use crate::policy::execute::Execution;
use crate::policy::multi_policy::{self, Response, States};
use crate::policy::operation::Operation;
use crate::policy::policy_set::{ByPolicy, Policies};
use crate::policy::{Layout, Policy, State};
use crate::time::Micros;

/// The states of one limiter's keys: its policies and a prefix on a store.
///
/// Dropping it closes it.
#[derive(Debug)]
pub struct Ledger {
    store: Arc<MemoryStore>,
    prefix: Box<str>,
    /// By policy.
    spaces: Box<[u32]>,
    policies: Policies,
    /// The first policy and its space: what a call on a limiter of one policy needs.
    first: (Policy, u32),
    is_several: bool,
    closed: AtomicBool,
}

impl Ledger {
    pub(super) fn new(
        store: Arc<MemoryStore>,
        prefix: &str,
        spaces: Box<[u32]>,
        policies: Policies,
    ) -> Self {
        let first = (policies.named()[0].policy.clone(), spaces[0]);
        let (is_several, closed) = (policies.alone().is_none(), AtomicBool::new(false));
        Self { store, prefix: prefix.into(), spaces, policies, first, is_several, closed }
    }

    /// Frees the prefix for other policies; the states stay until they are as if never used.
    ///
    /// Nobody should ask a closed ledger: its policies may not be the prefix's any more.
    pub fn close(&self) {
        if !self.closed.swap(true, Ordering::Relaxed) {
            self.store.close(&self.prefix);
        }
    }

    /// Takes `cost` units from a key. Several policies all count by it.
    pub fn take(&self, key: Key<'_>, cost: u64, clock: &impl Clock) -> Decision {
        let take = |policy: &_, state: &mut _, now| take_alone(policy, state, now, cost);
        let decide = || self.take_told(key, cost, clock).decision;
        self.change(key, clock, take, decide)
    }

    /// [`take`](Self::take), and how each limit stands where limits have names.
    pub fn take_told(&self, key: Key<'_>, cost: u64, clock: &impl Clock) -> Response {
        let decide = || self.decide(key, &Operation::Take { cost }, clock);
        // WebAssembly is downloaded, and has one way for all.
        if self.is_several && !cfg!(target_arch = "wasm32") {
            return self.take_all(key, cost, clock).unwrap_or_else(decide);
        }
        let take = |policy: &_, state: &mut _, now| multi_policy::take(policy, state, now, cost);
        self.change(key, clock, take, decide)
    }

    /// What [`take`](Self::take) would answer; nothing is charged. The cost may be 0.
    pub fn peek(&self, key: Key<'_>, cost: u64, clock: &impl Clock) -> Decision {
        self.look(key, clock, |policy, state, now| decision::peek(policy, state, now, cost))
            .unwrap_or_else(|| self.decide(key, &Operation::Peek { cost }, clock).decision)
    }

    /// [`peek`](Self::peek), and how each limit stands where limits have names.
    pub fn peek_told(&self, key: Key<'_>, cost: u64, clock: &impl Clock) -> Response {
        self.look(key, clock, |policy, state, now| multi_policy::peek(policy, state, now, cost))
            .unwrap_or_else(|| self.decide(key, &Operation::Peek { cost }, clock))
    }

    /// Performs an operation on the keys of the limiter's subjects, in their order: all at one time, and
    /// nobody sees a part of it.
    ///
    /// Policies whose subject has no key have no say and are left as they are. For calls that take units
    /// and for peeks every subject should have one.
    ///
    /// # Errors
    /// [`OperationError`] if the store is too full for it, or if numbers cannot decide in place of the
    /// limiter's: only where the operation is a reset, a block or an override.
    pub fn execute(
        &self,
        keys: &[Option<Key<'_>>],
        operation: &Operation,
        clock: &impl Clock,
    ) -> Result<Execution, OperationError> {
        self.desk(keys, clock).try_execute(operation)
    }

    /// What the ledger enforces.
    #[must_use]
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// How many limits decisions tell of by name; 0 for a policy that is one limit.
    #[must_use]
    pub fn named_limits(&self) -> usize {
        self.policies.named_limits()
    }

    fn desk<'a>(&'a self, keys: &[Option<Key<'a>>], clock: &impl Clock) -> Desk<'a> {
        Desk::open(&self.store, &self.policies, &self.spaces, keys, clock)
    }

    /// Whether a call takes more than the state of one key.
    #[cold]
    fn needs_desk(&self, shard: &Shard, spot: Spot<'_>) -> bool {
        self.is_several || shard.extras(spot).is_some()
    }

    /// Takes units from a key that all policies count by, if it has a state under each of them and nothing beside: those
    /// are then changed where they are. Otherwise nothing has happened, nor where the visit is one that sweeps.
    fn take_all(&self, key: Key<'_>, cost: u64, clock: &impl Clock) -> Option<Response> {
        if self.policies.subjects() > 1 {
            return None;
        }
        let place = self.store.place(key);
        let mut shard = self.store.shard(place);
        if shard.has_extras() {
            return None;
        }
        let spots = || self.spaces.iter().map(|&space| (space, key, place));
        let guesses: ByPolicy<_> = spots().map(|spot| shard.approach(spot)).collect();
        let now = clock.now();
        let own = |(spot, guess)| shard.own(spot, guess);
        let indices = spots().zip(guesses).map(own).collect::<Option<_>>()?;
        if !shard.count_visit() {
            return None;
        }
        let mut states = Own { indices, shard };
        Some(multi_policy::take_all(&self.policies, &mut states, now, cost))
    }

    /// Performs an operation that cannot fail on a key that all policies count by.
    #[cold]
    fn decide(&self, key: Key<'_>, operation: &Operation, clock: &impl Clock) -> Response {
        let keys = vec![Some(key); self.policies.subjects()];
        self.desk(&keys, clock).execute(operation).response
    }

    /// Lets `take` change the state of a key; if there are several policies, or if the key has more than a
    /// state, `decide` is asked instead. (An `Option` of a decision would be copied in parts: 25 ns.)
    #[inline]
    fn change<T>(
        &self,
        key: Key<'_>,
        clock: &impl Clock,
        take: impl FnOnce(&Policy, &mut State, Micros) -> T,
        decide: impl FnOnce() -> T,
    ) -> T {
        let (policy, space) = &self.first;
        let place = self.store.place(key);
        let spot = (*space, key, place);
        let mut shard = self.store.shard(place);
        // Not `||`: calls on one policy pay for a single test.
        if (self.is_several | shard.has_extras()) && self.needs_desk(&shard, spot) {
            drop(shard);
            return decide();
        }
        let guess = shard.approach(spot);
        let now = clock.now();
        self.store.tidy(&mut shard, now);
        match shard.find(spot, guess, now) {
            Held::Own(state) => take(policy, state, now),
            Held::Newcomer(shared) => {
                let before = shared.unwrap_or_else(|| policy.initial_state());
                let mut state = before.clone();
                let decision = take(policy, &mut state, now);
                if state != before {
                    shard.admit(spot, state, &self.store.room, now);
                }
                decision
            }
        }
    }

    /// Lets `peek` look at the state of a key, as [`change`](Self::change).
    fn look<T>(
        &self,
        key: Key<'_>,
        clock: &impl Clock,
        peek: impl FnOnce(&Policy, &State, Micros) -> T,
    ) -> Option<T> {
        let (policy, space) = &self.first;
        let place = self.store.place(key);
        let spot = (*space, key, place);
        let mut shard = self.store.shard(place);
        // Not `||`: calls on one policy pay for a single test.
        if (self.is_several | shard.has_extras()) && self.needs_desk(&shard, spot) {
            return None;
        }
        let guess = shard.approach(spot);
        let now = clock.now();
        Some(match shard.find(spot, guess, now) {
            Held::Own(state) => peek(policy, state, now),
            Held::Newcomer(shared) => {
                let state = shared.unwrap_or_else(|| policy.initial_state());
                peek(policy, &state, now)
            }
        })
    }

    /// Makes a key as if never used, and ends a block of it.
    ///
    /// # Errors
    /// [`OperationError::SharedCell`] if the key has no room of its own and its cell's count still matters.
    pub fn reset(&self, key: Key<'_>, clock: &impl Clock) -> Result<(), OperationError> {
        // It keeps its entry: a newcomer would take over what its cell has counted.
        let keys = vec![Some(key); self.policies.subjects()];
        self.execute(&keys, &Operation::Reset, clock).map(drop)
    }
}

/// The states of a key, in their entries.
struct Own<'a> {
    shard: MutexGuard<'a, Shard>,
    indices: ByPolicy<usize>,
}

impl States for Own<'_> {
    fn of(&mut self, number: usize) -> &mut State {
        self.shard.state(self.indices[number])
    }
}

/// [`decision::take`], by the algorithm itself where it is one of the most frequent: which one it is, is asked
/// once, where the questions that make a decision would each ask it.
#[inline]
fn take_alone(policy: &Policy, state: &mut State, now: Micros, cost: u64) -> Decision {
    match (policy.layout(), &mut *state) {
        (Layout::Rate(rate), State::Rate(own)) => decision::take(rate, own, now, cost),
        (Layout::Window(window), State::Window(own)) => decision::take(window, own, now, cost),
        _ => take_of_any(policy, state, now, cost),
    }
}

/// Apart, so that the way of those is short.
#[inline(never)]
fn take_of_any(policy: &Policy, state: &mut State, now: Micros, cost: u64) -> Decision {
    decision::take(policy, state, now, cost)
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests;
