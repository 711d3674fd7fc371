//! What policies and states look like on their way to the script and back: one file for each of the
//! algorithms' files.

mod calendar_window;
mod fixed_window;
mod rate;
pub(crate) mod reply;
pub(crate) mod request;
mod sliding_counter;
mod sliding_log;
mod sliding_window;
pub mod text;
mod token_bucket_interval;

pub(crate) use fixed_window::{COUNTS, EPOCH_MS};

use crate::algorithm::LimitStatus;
use crate::policy::{Layout, Policy, State};
use crate::time::{MAX_SAFE, Micros};

/// What a script says of the state that a call left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// The state itself: what a caller is told is computed from it.
    State(State),
    /// How each of the policy's limits stands, where the state is too large to be sent.
    Statuses(Vec<LimitStatus>),
}

/// An algorithm's file in `lua/`, by the number that a request gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Twin {
    Rate = 1,
    FixedWindow = 2,
    SlidingCounter = 3,
    TokenBucketInterval = 4,
    SlidingWindowList = 5,
    SlidingWindowHash = 6,
    SlidingLog = 7,
}

/// The other end of an algorithm's file in `lua/`.
pub(crate) trait Wire {
    /// The file that decides.
    fn twin(&self) -> Twin;

    /// Appends the policy as the script reads it.
    fn push_policy(&self, request: &mut Vec<u8>);

    /// Appends what the script must know of the time around `about`, which should be the server's, where a
    /// policy takes more than arithmetic. A script that is run at another time answers
    /// [`CallError::Stale`](super::CallError::Stale).
    fn push_time(&self, _about: Micros, _request: &mut Vec<u8>) {}

    /// Whether there is such a thing.
    fn is_timed(&self) -> bool {
        false
    }

    /// How many of the policy's doubles a key may have of its own: those at the front.
    fn own_numbers(&self) -> usize;

    /// The policy with a key's own numbers, as they stand at the front of its doubles.
    fn with_own_numbers(&self, numbers: &[u64]) -> Option<Policy>;

    /// The doubles of what the script says of a state.
    fn width(&self) -> usize;

    /// The doubles of what follows for a state in other numbers than the policy's.
    fn others_width(&self) -> usize;

    /// Takes the doubles of what the script says of a state from the front.
    fn take_state<'p>(&self, states: &mut &[u8], places: &'p mut [u64]) -> Option<&'p [u64]> {
        doubles(states, places.get_mut(..self.width())?)
    }

    /// Reads what the script says, or `None` if that makes no sense.
    fn read(&self, state: &[u64], others: Option<&[u64]>) -> Option<Left>;
}

/// How a policy goes over the wire.
pub(crate) fn wire(policy: &Policy) -> &dyn Wire {
    match policy.layout() {
        Layout::Rate(rate) => rate,
        Layout::Window(window) => window,
        Layout::Interval(bucket) => bucket,
        Layout::Counter(counter) => counter,
        Layout::Sliding(window) => window,
        Layout::Calendar(window) => window,
        Layout::Log(log) => log,
    }
}

/// A policy with a key's own numbers.
pub(crate) fn with_own_numbers(policy: &Policy, numbers: &[u64]) -> Option<Policy> {
    match policy {
        Policy::Gcra(_) => rate::gcra(numbers),
        Policy::LeakyBucket(_) => rate::leaky_bucket(numbers),
        policy => wire(policy).with_own_numbers(numbers),
    }
}

/// Takes whole numbers below 2^53 from the front, as Lua's `struct` writes them with `>d`.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "only whole numbers up to 2^53 pass"
)]
pub(crate) fn doubles<'n>(bytes: &mut &[u8], numbers: &'n mut [u64]) -> Option<&'n [u64]> {
    let (taken, rest) = bytes.split_at_checked(8 * numbers.len())?;
    *bytes = rest;
    for (number, bytes) in numbers.iter_mut().zip(taken.as_chunks().0) {
        let double = f64::from_be_bytes(*bytes);
        *number = double as u64;
        if *number as f64 != double || *number > MAX_SAFE {
            return None;
        }
    }
    Some(numbers)
}

/// A whole number below 2^53 as Lua's `struct` reads it with `>d`.
#[expect(clippy::cast_precision_loss, reason = "numbers up to 2^53 are exact")]
pub(crate) fn push_double(request: &mut Vec<u8>, number: u64) {
    debug_assert!(number <= MAX_SAFE + 1, "{number} has no exact double");
    request.extend_from_slice(&(number as f64).to_be_bytes());
}
