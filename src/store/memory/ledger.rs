//! The decisions of one limiter on the embedded store.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::MemoryStore;
use super::shard::Held;
use crate::algorithm::Algorithm as _;
use crate::clock::Clock;
use crate::decision::{self, Decision};
use crate::key::Key;
use crate::policy::{Policy, State};
use crate::several::{self, Told};
use crate::time::Micros;

/// The states of one limiter's keys: a policy and a prefix on a store.
///
/// Dropping it closes it.
#[derive(Debug)]
pub struct Ledger {
    store: Arc<MemoryStore>,
    prefix: Box<str>,
    space: u32,
    policy: Policy,
    closed: AtomicBool,
}

/// The store is full and the key shares an overflow cell, which cannot be reset for one alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedCell;

impl fmt::Display for SharedCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the store is full and the key shares its count with others")
    }
}

impl std::error::Error for SharedCell {}

impl Ledger {
    pub(super) fn new(store: Arc<MemoryStore>, prefix: &str, space: u32, policy: Policy) -> Self {
        let closed = AtomicBool::new(false);
        Self { store, prefix: prefix.into(), space, policy, closed }
    }

    /// Frees the prefix for another policy; the states stay until they are as if never used.
    ///
    /// Nobody should ask a closed ledger: its policy may not be the prefix's any more.
    pub fn close(&self) {
        if !self.closed.swap(true, Ordering::Relaxed) {
            self.store.close(&self.prefix);
        }
    }

    /// Takes `cost` units from a key.
    pub fn take(&self, key: Key<'_>, cost: u64, clock: &impl Clock) -> Decision {
        self.change(key, clock, |policy, state, now| decision::take(policy, state, now, cost))
    }

    /// [`take`](Self::take), and how each limit stands where limits have names.
    pub fn take_told(&self, key: Key<'_>, cost: u64, clock: &impl Clock) -> Told {
        self.change(key, clock, |policy, state, now| several::take(policy, state, now, cost))
    }

    /// What [`take`](Self::take) would answer; nothing is charged. The cost may be 0.
    pub fn peek(&self, key: Key<'_>, cost: u64, clock: &impl Clock) -> Decision {
        self.look(key, clock, |policy, state, now| decision::peek(policy, state, now, cost))
    }

    /// [`peek`](Self::peek), and how each limit stands where limits have names.
    pub fn peek_told(&self, key: Key<'_>, cost: u64, clock: &impl Clock) -> Told {
        self.look(key, clock, |policy, state, now| several::peek(policy, state, now, cost))
    }

    /// How many limits decisions tell of by name; 0 for a policy that is one limit.
    #[must_use]
    pub fn named_limits(&self) -> usize {
        self.policy.named_limits()
    }

    /// Lets `take` change the state of a key.
    #[inline]
    fn change<T>(
        &self,
        key: Key<'_>,
        clock: &impl Clock,
        take: impl FnOnce(&Policy, &mut State, Micros) -> T,
    ) -> T {
        let place = self.store.place(self.space, key);
        let mut shard = self.store.shard(place);
        let now = clock.now();
        self.store.tidy(&mut shard, now);
        match shard.find(self.space, key, place, now) {
            Held::Own(state) => take(&self.policy, state, now),
            Held::Newcomer(shared) => {
                let before = shared.unwrap_or_else(|| self.policy.unused());
                let mut state = before.clone();
                let decision = take(&self.policy, &mut state, now);
                if state != before {
                    shard.admit((self.space, key, place), state, &self.store.room, now);
                }
                decision
            }
        }
    }

    /// Lets `peek` look at the state of a key.
    fn look<T>(
        &self,
        key: Key<'_>,
        clock: &impl Clock,
        peek: impl FnOnce(&Policy, &State, Micros) -> T,
    ) -> T {
        let place = self.store.place(self.space, key);
        let mut shard = self.store.shard(place);
        let now = clock.now();
        match shard.find(self.space, key, place, now) {
            Held::Own(state) => peek(&self.policy, state, now),
            Held::Newcomer(shared) => {
                let state = shared.unwrap_or_else(|| self.policy.unused());
                peek(&self.policy, &state, now)
            }
        }
    }

    /// Makes a key as if never used.
    ///
    /// # Errors
    /// [`SharedCell`] if the key has no room of its own and its cell's count still matters.
    pub fn reset(&self, key: Key<'_>, clock: &impl Clock) -> Result<(), SharedCell> {
        let place = self.store.place(self.space, key);
        let mut shard = self.store.shard(place);
        let now = clock.now();
        match shard.find(self.space, key, place, now) {
            // It keeps its entry: a newcomer would take over what its cell has counted.
            Held::Own(state) => *state = self.policy.unused(),
            Held::Newcomer(None) => {}
            Held::Newcomer(Some(_)) => return Err(SharedCell),
        }
        Ok(())
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Gcra;
    use crate::decision::Status;

    fn ledger(max_keys: usize) -> Ledger {
        let policy = Policy::Gcra(Gcra::new(2, 1_000_000, 2).unwrap());
        MemoryStore::new(max_keys, (1, 2)).open("test", policy).unwrap()
    }

    fn key(text: &str) -> Key<'_> {
        Key::new(text).unwrap()
    }

    #[test]
    fn a_reset_key_is_as_if_never_used() {
        let ledger = ledger(9);
        assert_eq!(ledger.take(key("a"), 2, &0).status, Status::AllowedLast);
        assert_eq!(ledger.take(key("a"), 1, &0).status, Status::Refused);
        ledger.reset(key("a"), &0).unwrap();
        let fresh = ledger.peek(key("a"), 0, &0);
        assert_eq!((fresh.remaining, fresh.reset_after_ms), (2, 0));
        ledger.reset(key("never seen"), &0).unwrap();
    }

    #[test]
    fn a_key_in_a_shared_cell_cannot_be_reset_alone() {
        let ledger = ledger(1);
        ledger.take(key("resident"), 1, &0);
        ledger.take(key("newcomer"), 1, &0);
        let refused = ledger.reset(key("newcomer"), &0).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the store is full and the key shares its count with others"
        );
        // Once the cell has settled there is nothing to reset.
        assert_eq!(ledger.reset(key("newcomer"), &500_000), Ok(()));
    }

    #[test]
    fn a_reset_key_keeps_its_room_in_a_full_store() {
        let ledger = ledger(1);
        ledger.take(key("resident"), 2, &0);
        ledger.take(key("newcomer"), 2, &0);
        ledger.reset(key("resident"), &0).unwrap();
        assert_eq!(ledger.take(key("resident"), 2, &0).status, Status::AllowedLast);
    }

    #[test]
    fn a_closed_ledger_frees_its_prefix_once() {
        let store = MemoryStore::new(9, (1, 2));
        let gcra = |limit| Policy::Gcra(Gcra::new(limit, 1_000_000, limit).unwrap());
        let (old, same) =
            (store.open("api", gcra(2)).unwrap(), store.open("api", gcra(2)).unwrap());
        old.take(key("a"), 2, &0);
        old.close();
        old.close();
        drop(old);
        assert!(store.open("api", gcra(4)).is_err(), "the other one is still open");
        drop(same);
        let new = store.open("api", gcra(4)).unwrap();
        assert_eq!(new.peek(key("a"), 0, &0).remaining, 2, "the state is still there");
    }

    #[test]
    fn a_refused_newcomer_takes_no_room() {
        let ledger = ledger(9);
        assert_eq!(ledger.take(key("a"), 3, &0).status, Status::Impossible);
        assert_eq!(ledger.store.held_keys(), 0);
    }
}
