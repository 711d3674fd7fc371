//! The mark of a key: how far its counts have moved other than by calls and by time.
//!
//! A decision tells where the units of its call lay: in a rate, below an arrival; in a window, below
//! its end. A refund finds them there unless something else has moved them since. Three things do:
//!
//! - **A refund under a rate** moves all later units forward by the units that it gives back, and a
//!   refund of the units that opened a fixed window may move the window's end. Both add to
//!   [`moved`](Mark::moved). A decision carries this sum as its mark, so the difference is what has
//!   moved since.
//! - **A reset** gives back everything.
//! - **Changed numbers** rewrite the units of earlier calls when a call is charged under them. After
//!   both, the units of earlier calls cannot be told from others: [`valid_from`](Mark::valid_from)
//!   rises above the marks of all earlier decisions, and nothing of theirs comes back.
//!
//! A key without a mark has moved by 0. So keys that are neither refunded, reset nor renumbered
//! store nothing, and their decisions carry 0. A decision whose mark was lost counts as one with the
//! mark 0: less comes back, never more.
//!
//! A mark lives [until](Mark::until) the units of all decisions before it have gone, even if a store
//! could have dropped the state earlier.

use std::mem;

use crate::algorithm::{Algorithm as _, ChargeRecord, KeyState as _, Outcome, Rewrites};
use crate::policy::{Policy, State, with_algorithm};
use crate::time::{MAX_SAFE, MICROS_PER_MILLI, Micros};

/// The mark of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark {
    /// How far units have moved, in the algorithm's unit: microseconds of a rate, units of an interval
    /// bucket, milliseconds of a window.
    pub moved: u64,
    /// Only the units of decisions with at least this mark may come back.
    pub valid_from: u64,
    /// The units in an open window that count as long as the call that opened it; 0 if unknown.
    pub early: u64,
    /// From this time on there is no mark.
    pub until: Micros,
}

/// A state with a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    /// The state.
    pub state: State,
    /// Its mark.
    pub mark: Mark,
}

impl Mark {
    /// Makes the units of all earlier decisions come back no more.
    pub(crate) fn invalidate(&mut self) {
        self.moved = (self.moved + 1).min(MAX_SAFE);
        (self.valid_from, self.early) = (self.moved, 0);
    }

    /// Makes the mark last until a time.
    pub(crate) fn last_until(&mut self, until: Micros) {
        self.until = self.until.max(until.min(MAX_SAFE));
    }

    /// This mark, with the changes of a state that had none.
    pub(crate) fn followed_by(self, other: Self) -> Self {
        let moved = (self.moved + other.moved).min(MAX_SAFE);
        Self { moved, valid_from: moved, early: other.early, until: self.until.max(other.until) }
    }

    /// How far the units of a decision with this mark have moved since; `None` if they do not come
    /// back.
    pub(crate) fn moved_since(self, mark: u64) -> Option<u64> {
        self.moved.checked_sub(mark).filter(|_| mark >= self.valid_from)
    }
}

impl State {
    /// The state without its mark.
    #[must_use]
    pub fn unmarked(&self) -> &Self {
        match self {
            Self::Marked(marked) => &marked.state,
            state => state,
        }
    }

    /// The state without its mark, to change in place.
    pub(crate) fn unmarked_mut(&mut self) -> &mut Self {
        match self {
            Self::Marked(marked) => &mut marked.state,
            state => state,
        }
    }

    /// The mark.
    #[must_use]
    pub fn mark(&self) -> Mark {
        match self {
            Self::Marked(marked) => marked.mark,
            _ => Mark::default(),
        }
    }

    /// Sets the mark.
    pub(crate) fn set_mark(&mut self, mark: Mark) {
        if let Self::Marked(marked) = self {
            marked.mark = mark;
        } else {
            let state = mem::replace(self, Self::NONE);
            *self = Self::Marked(Box::new(Marked { state, mark }));
        }
    }

    /// Makes the units of all earlier decisions come back no more. They last until `until`.
    pub(crate) fn invalidate(&mut self, until: Micros) {
        let mut mark = self.mark();
        mark.invalidate();
        mark.last_until(until);
        self.set_mark(mark);
        self.extend_mark();
    }

    /// The mark, unless it has ended.
    pub(crate) fn mark_at(&self, now: Micros) -> Mark {
        let mark = self.mark();
        if mark.until > now { mark } else { Mark::default() }
    }

    /// Drops a mark that has ended. Returns whether there was one.
    pub fn drop_ended_mark(&mut self, now: Micros) -> bool {
        let Self::Marked(marked) = self else { return false };
        let has_ended = marked.mark.until <= now;
        if has_ended {
            *self = mem::replace(&mut marked.state, Self::NONE);
        }
        has_ended
    }

    /// Makes a mark last as long as the state.
    pub(crate) fn extend_mark(&mut self) {
        if let Self::Marked(marked) = self {
            marked.mark.last_until(marked.state.reset_at());
        }
    }
}

impl Policy {
    /// [`charge`](Algorithm::charge) of a state without a mark that rewrites the units of earlier
    /// calls.
    #[cold]
    pub(super) fn charge_rewritten(
        &self,
        state: &mut State,
        now: Micros,
        cost: u64,
        rewrites: Rewrites,
    ) -> Outcome {
        let repairs = rewrites == Rewrites::Always;
        if !repairs && cost > 0 {
            // A key that begins low may be fresh: then it has the numbers of this policy.
            with_algorithm!(self, &mut *state, algorithm, own => algorithm.normalize(own, now), else ());
            if self.rewrites(state, now) == Rewrites::Never {
                return self.charge(state, now, cost);
            }
        }
        let until = state.reset_at();
        let outcome = with_algorithm!(self, &mut *state, algorithm, own => {
            algorithm.charge(own, now, if repairs { 0 } else { cost })
        }, else Outcome::Refused);
        // Without units that count, there is nothing to lose.
        if until > now && (repairs || (cost > 0 && outcome == Outcome::Admitted)) {
            state.invalidate(until);
        }
        if repairs && cost > 0 { self.charge(state, now, cost) } else { outcome }
    }

    /// [`charge`](Algorithm::charge) of a state with a mark, or of another algorithm.
    #[cold]
    pub(super) fn charge_other(&self, state: &mut State, now: Micros, cost: u64) -> Outcome {
        if state.drop_ended_mark(now) {
            return self.charge(state, now, cost);
        }
        let State::Marked(marked) = state else {
            let is_own = self.is_own(state);
            if !is_own {
                *state = self.initial_state();
            }
            return self.charge(state, now, cost);
        };
        let mut mark = marked.mark;
        let mut inner = mem::replace(&mut marked.state, State::NONE);
        if !self.is_own(&inner) {
            inner = self.initial_state();
        }
        if cost > 0 {
            self.normalize(&mut inner, now);
            // As if the state had been normalized before the call.
            mark.last_until(inner.reset_at());
        }
        let rewrites = self.rewrites(inner.unmarked(), now);
        let outcome = self.charge(&mut inner, now, cost);
        let takes = cost > 0 && outcome == Outcome::Admitted;
        *state = match inner {
            // The units of earlier calls were rewritten.
            State::Marked(rewritten) => {
                let mut state = rewritten.state;
                state.set_mark(mark.followed_by(rewritten.mark));
                state.extend_mark();
                state
            }
            mut state => {
                state.set_mark(mark);
                // What has moved was counted in the former numbers.
                if takes && rewrites == Rewrites::IfAdmitted {
                    state.invalidate(mark.until);
                }
                state.extend_mark();
                state
            }
        };
        outcome
    }

    /// [`normalize`](Algorithm::normalize) of a state with a mark, of another algorithm, or that is
    /// repaired.
    #[cold]
    pub(super) fn normalize_other(&self, state: &mut State, now: Micros) {
        if state.drop_ended_mark(now) {
            return self.normalize(state, now);
        }
        self.charge(state, now, 0);
        with_algorithm!(self, state.unmarked_mut(), algorithm, own => {
            algorithm.normalize(own, now);
        }, else {
            *state = self.initial_state();
        });
        state.extend_mark();
    }

    /// Whether a state without a mark is one of this algorithm.
    fn is_own(&self, state: &State) -> bool {
        with_algorithm!(self, state, _algorithm, _own => true, else false)
    }

    /// The state of a key that is reset. It keeps a mark until the units of earlier decisions would
    /// have gone, so that none of them comes back.
    #[must_use]
    pub fn reset(&self, state: &State, now: Micros) -> State {
        let until = state.reset_at();
        let mut fresh = self.initial_state();
        if until > now && self.concurrency().is_none() {
            fresh.set_mark(state.mark());
            fresh.invalidate(until);
        }
        fresh
    }

    /// [`refund`](Algorithm::refund): units come back where the mark of the state says that they are.
    pub(super) fn refund_by_mark(
        &self,
        state: &mut State,
        now: Micros,
        units: u64,
        taken: ChargeRecord,
    ) -> u64 {
        // The units of the call are no longer charged, though under a longer window they may count
        // again. The decision rounded the time up; the ends of windows are whole milliseconds.
        let is_whole = matches!(self, Self::FixedWindow(_) | Self::CalendarWindow(_));
        let rounding = if is_whole { 0 } else { MICROS_PER_MILLI };
        if taken.reset_at <= now || taken.reset_at - rounding.min(taken.reset_at) < now {
            return 0;
        }
        state.drop_ended_mark(now);
        let mut mark = state.mark();
        let Some(moved) = mark.moved_since(taken.mark) else { return 0 };
        let taken = ChargeRecord { mark: moved, ..taken };
        let inner = state.unmarked_mut();
        let until = inner.reset_at();
        let before = mark;
        let inner_before = match inner {
            State::Rate(own) => Some(own.arrival),
            _ => None,
        };
        let given = match (self, &mut *inner) {
            (Self::FixedWindow(window), State::Window(own)) => {
                let ends_ms = own.ends_ms;
                let given = window.refund_with(own, now, units, taken, &mut mark.early);
                mark.moved += own.ends_ms.saturating_sub(ends_ms);
                given
            }
            _ => {
                with_algorithm!(self, &mut *inner, algorithm, own => algorithm.refund(own, now, units, taken), else 0)
            }
        };
        mark.moved += match (self, inner_before, &*inner) {
            (Self::IntervalBucket(_), ..) => given,
            (_, Some(before), State::Rate(after)) => {
                before.lead_over(after.arrival, &after.numbers)
            }
            _ => 0,
        };
        mark.moved = mark.moved.min(MAX_SAFE);
        if mark != before {
            mark.last_until(until);
            state.set_mark(mark);
            state.extend_mark();
        }
        given
    }
}
