//! Encodes policies in requests to the script, and decodes states in its replies and in stored
//! values: one file per algorithm.

mod calendar_window;
mod concurrency;
mod fixed_window;
pub(crate) mod metadata;
mod rate;
pub(crate) mod reply;
pub(crate) mod request;
mod sliding_counter;
mod sliding_log;
mod sliding_window;
mod stored_value;
mod summary;
pub mod text;
mod token_bucket_interval;

pub use metadata::StoredMetadata;
pub use stored_value::{RawValue, layout_of};
pub use summary::KeySummary;

use crate::algorithm::LimitStatus;
use crate::policy::{Policy, State, with_policy};
pub use crate::protocol::{POLICY_KINDS, ScriptAlgorithm};
use crate::time::{MAX_SAFE, Micros};

/// The state of a key after a call, as a script reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyState {
    /// The state itself. The caller's response is computed from it.
    State(State),
    /// The status of each limit of the policy, if the state is too large to send.
    Statuses(Vec<LimitStatus>),
}

/// The number of doubles of a limit's status.
const STATUS_LEN: usize = 5;

/// Encodes a policy for the script and decodes the script's replies.
pub(crate) trait Codec {
    /// The Lua implementation that decides.
    fn algorithm(&self) -> ScriptAlgorithm;

    /// Appends the policy's parameters: the doubles that the script reads.
    fn push_policy(&self, request: &mut Vec<u8>);

    /// Appends the calendar boundaries around the server's estimated time, for calendar policies. A
    /// script that runs outside these boundaries replies
    /// [`CallError::Stale`](super::CallError::Stale).
    fn push_time(&self, _estimated_now: Micros, _request: &mut Vec<u8>) {}

    fn depends_on_time(&self) -> bool {
        false
    }

    /// The number of doubles of an override: the parameters at the front that it replaces, and for
    /// some algorithms further ones for this decoder.
    fn override_len(&self) -> usize;

    /// Appends the doubles of an override that has this policy.
    fn push_override(&self, request: &mut Vec<u8>) {
        let start = request.len();
        self.push_policy(request);
        request.truncate(start + 8 * self.override_len());
    }

    fn with_override(&self, numbers: &[u64]) -> Option<Policy>;

    fn state_len(&self) -> usize;

    /// The number of doubles of a state's own parameters, if they differ from the policy's.
    fn other_parameters_len(&self) -> usize {
        0
    }

    fn take_state<'p>(&self, states: &mut &[u8], buffer: &'p mut [u64]) -> Option<&'p [u64]> {
        doubles(states, buffer.get_mut(..self.state_len())?)
    }

    /// Decodes a state, or returns `None` if it is invalid.
    /// By default it is the statuses of the policy's limits.
    fn decode(&self, state: &[u64], _other_parameters: Option<&[u64]>) -> Option<ReplyState> {
        let (statuses, rest) = state.as_chunks::<STATUS_LEN>();
        let status = |&[limit, remaining, retry_at, next_at, reset_at]: &[u64; STATUS_LEN]| {
            LimitStatus { limit, capacity: limit, remaining, retry_at, next_at, reset_at, mark: 0 }
        };
        rest.is_empty().then(|| ReplyState::Statuses(statuses.iter().map(status).collect()))
    }
}

pub(crate) fn codec(policy: &Policy) -> &dyn Codec {
    with_policy!(policy, algorithm => algorithm)
}

/// Takes whole numbers below 2^53 from the front, as Lua's `struct` packs them with `>d`.
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

/// Appends a whole number up to 2^53, as Lua's `struct` unpacks it with `>d`.
#[expect(clippy::cast_precision_loss, reason = "numbers up to 2^53 are exact")]
pub(crate) fn push_double(request: &mut Vec<u8>, number: u64) {
    debug_assert!(number <= MAX_SAFE + 1, "{number} has no exact double");
    request.extend_from_slice(&(number as f64).to_be_bytes());
}

fn numbers<const N: usize>(bytes: &mut &[u8]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    doubles(bytes, &mut numbers)?;
    Some(numbers)
}

/// A whole number in a reply.
fn decimal(text: &[u8]) -> Option<u64> {
    let text = str::from_utf8(text).ok()?;
    // A score above 10^15 may have an exponent.
    let number = text.parse().ok().or_else(|| whole(text.parse().ok()?));
    number.filter(|number| *number <= MAX_SAFE)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
fn whole(number: f64) -> Option<u64> {
    let cut = number as u64;
    (cut as f64 == number).then_some(cut)
}
