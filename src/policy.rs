//! Any algorithm with its numbers, and any algorithm's state: what stores and bindings handle.

use crate::algorithm::{
    self, Algorithm, FixedWindow, Gcra, Outcome, Rate, RateBased as _, RateState, TokenBucket,
    WindowState,
};
use crate::time::Micros;

/// One algorithm with its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// See [`FixedWindow`].
    FixedWindow(FixedWindow),
    /// See [`TokenBucket`].
    TokenBucket(TokenBucket),
    /// See [`Gcra`].
    Gcra(Gcra),
}

/// What stands behind algorithms whose states are laid out alike.
#[derive(Debug, Clone, Copy)]
pub enum Layout<'a> {
    /// The rate algorithms.
    Rate(&'a Rate),
    /// The window algorithms.
    Window(&'a FixedWindow),
}

/// What is remembered of one key under one policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The state of the window algorithms.
    Window(WindowState),
    /// The state of the rate algorithms.
    Rate(RateState),
}

impl Policy {
    /// The algorithm, by the layout of its state.
    #[must_use]
    pub fn layout(&self) -> Layout<'_> {
        match self {
            Self::FixedWindow(window) => Layout::Window(window),
            Self::TokenBucket(bucket) => Layout::Rate(bucket.rate()),
            Self::Gcra(gcra) => Layout::Rate(gcra.rate()),
        }
    }

    /// Names the algorithm and the layout of its state.
    ///
    /// It is part of every stored key, so that a policy that changes its algorithm never meets a
    /// state of the old one.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Self::FixedWindow(_) => "fw",
            Self::TokenBucket(_) => "tb",
            Self::Gcra(_) => "gcra",
        }
    }
}

impl algorithm::State for State {
    #[inline]
    fn settled_at(&self) -> Micros {
        match self {
            Self::Window(state) => state.settled_at(),
            Self::Rate(state) => state.settled_at(),
        }
    }

    fn drains(&self) -> bool {
        match self {
            Self::Window(state) => state.drains(),
            Self::Rate(state) => state.drains(),
        }
    }
}

/// Hands each call to the algorithm.
///
/// A state of another algorithm cannot be met, because [`Policy::tag`] keeps them apart; it counts
/// as that of an unused key.
impl Algorithm for Policy {
    type State = State;

    #[inline]
    fn unused(&self) -> State {
        match self {
            Self::FixedWindow(algorithm) => State::Window(algorithm.unused()),
            Self::TokenBucket(algorithm) => State::Rate(algorithm.unused()),
            Self::Gcra(algorithm) => State::Rate(algorithm.unused()),
        }
    }

    #[inline]
    fn limit(&self) -> u64 {
        match self {
            Self::FixedWindow(algorithm) => algorithm.limit(),
            Self::TokenBucket(algorithm) => algorithm.limit(),
            Self::Gcra(algorithm) => algorithm.limit(),
        }
    }

    #[inline]
    fn charge(&self, state: &mut State, now: Micros, cost: u64) -> Outcome {
        match (self, &mut *state) {
            (Self::FixedWindow(algorithm), State::Window(state)) => {
                algorithm.charge(state, now, cost)
            }
            (Self::TokenBucket(algorithm), State::Rate(state)) => {
                algorithm.charge(state, now, cost)
            }
            (Self::Gcra(algorithm), State::Rate(state)) => algorithm.charge(state, now, cost),
            _ => {
                *state = self.unused();
                self.charge(state, now, cost)
            }
        }
    }

    #[inline]
    fn remaining(&self, state: &State, now: Micros) -> u64 {
        match (self, state) {
            (Self::FixedWindow(algorithm), State::Window(state)) => algorithm.remaining(state, now),
            (Self::TokenBucket(algorithm), State::Rate(state)) => algorithm.remaining(state, now),
            (Self::Gcra(algorithm), State::Rate(state)) => algorithm.remaining(state, now),
            _ => self.limit(),
        }
    }

    #[inline]
    fn retry_at(&self, state: &State, now: Micros, cost: u64) -> Micros {
        match (self, state) {
            (Self::FixedWindow(algorithm), State::Window(state)) => {
                algorithm.retry_at(state, now, cost)
            }
            (Self::TokenBucket(algorithm), State::Rate(state)) => {
                algorithm.retry_at(state, now, cost)
            }
            (Self::Gcra(algorithm), State::Rate(state)) => algorithm.retry_at(state, now, cost),
            _ => now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::State as _;

    fn policies() -> [Policy; 3] {
        [
            Policy::FixedWindow(FixedWindow::new(3, 1_000_000).unwrap()),
            Policy::TokenBucket(TokenBucket::new(3, 3, 1_000_000).unwrap()),
            Policy::Gcra(Gcra::new(3, 1_000_000, 3).unwrap()),
        ]
    }

    #[test]
    fn tags_differ() {
        let [window, bucket, gcra] = policies();
        assert_eq!([window.tag(), bucket.tag(), gcra.tag()], ["fw", "tb", "gcra"]);
    }

    #[test]
    fn every_algorithm_is_reached_with_its_own_state() {
        for policy in policies() {
            let mut state = policy.unused();
            assert_eq!(policy.charge(&mut state, 0, 3), Outcome::Admitted, "{policy:?}");
            assert_eq!(policy.limit(), 3);
            assert_eq!(policy.remaining(&state, 0), 0);
            assert_eq!(policy.charge(&mut state, 0, 1), Outcome::Refused, "{policy:?}");
            let retry_at = policy.retry_at(&state, 0, 1);
            assert!(retry_at > 0 && retry_at <= state.settled_at());
        }
    }

    #[test]
    fn a_state_of_another_algorithm_counts_as_unused() {
        let [window, _, gcra] = policies();
        let mut state = window.unused();
        window.charge(&mut state, 0, 3);
        assert_eq!(gcra.remaining(&state, 0), 3);
        assert_eq!(gcra.charge(&mut state, 0, 3), Outcome::Admitted);
    }
}
