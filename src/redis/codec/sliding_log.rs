//! The codec of `lua/sliding_log/general.lua`.

use super::metadata::split;
use super::{Codec, KeySummary, STATUS_LEN, ScriptAlgorithm, StoredMetadata, decimal, push_double};
use crate::algorithm::{Algorithm as _, LogLimit, SlidingLog};
use crate::policy::Policy;

impl Codec for SlidingLog {
    fn algorithm(&self) -> ScriptAlgorithm {
        ScriptAlgorithm::SlidingLog
    }

    fn push_policy(&self, request: &mut Vec<u8>) {
        push_double(request, u64::from(self.counts_refused()));
        push_double(request, self.precision());
        push_double(request, self.limits().len() as u64);
        for &LogLimit { limit, window } in self.limits() {
            push_double(request, limit);
            push_double(request, window);
        }
    }

    fn override_len(&self) -> usize {
        3 + 2 * self.limits().len()
    }

    fn with_override(&self, numbers: &[u64]) -> Option<Policy> {
        let (&[_, precision, _], numbers) = numbers.split_first_chunk()?;
        let (limits, rest) = numbers.as_chunks();
        let limit = |&[limit, window]: &[u64; 2]| LogLimit { limit, window };
        let limits: Vec<_> = limits.iter().map(limit).collect();
        let same_count = rest.is_empty() && limits.len() == self.limits().len();
        let policy = if !same_count {
            return None;
        } else if self.named_limits() > 0 {
            // That of the override: the limiter's may be longer by now than the override's windows.
            Self::with_limits(&limits, Some(precision))
        } else {
            Self::new(limits[0].limit, limits[0].window, self.counts_refused())
        };
        Some(Policy::SlidingLog(policy.ok()?))
    }

    fn state_len(&self) -> usize {
        STATUS_LEN * self.limits().len()
    }
}

/// A log entry: the units up to and including it, its own, and metadata (of the newest entry).
fn entry(member: &[u8]) -> Option<(u64, u64, StoredMetadata)> {
    let (after, rest) = member.split_at_checked(7)?;
    let (units, rest) = rest.split_at_checked(4)?;
    let metadata_bytes = match rest {
        [_] => &[][..],
        rest => rest.get(12..)?,
    };
    let (state, metadata) = split(metadata_bytes);
    let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    state.is_empty().then(|| (number(after), number(units), metadata))
}

/// Summarizes a log by its oldest and newest entries, each with its score, and the number of
/// entries. Returns `None` for other values.
pub(crate) fn summary(words: &[Vec<u8>]) -> Option<KeySummary> {
    let [oldest, oldest_at, newest, newest_at, size] = words else { return None };
    let ((first, units, _), (after, own, metadata)) = (entry(oldest)?, entry(newest)?);
    let used = after.checked_sub(first)?.checked_add(units)?;
    // An entry without units only carries metadata.
    let is_used = used > 0 && own > 0;
    Some(KeySummary {
        used,
        entries: Some(decimal(size)?),
        oldest_at: is_used.then_some(decimal(oldest_at)?),
        newest_at: is_used.then_some(decimal(newest_at)?),
        reset_at: (!is_used).then_some(0),
        metadata,
        ..KeySummary::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The precision of the limiter may have become longer than the windows of an override.
    #[test]
    fn an_override_keeps_its_own_precision() {
        let log = |window, precision| {
            let limits =
                [(1, window), (2, 2 * window)].map(|(limit, window)| LogLimit { limit, window });
            SlidingLog::with_limits(&limits, Some(precision)).unwrap()
        };
        let (limiters, own) = (log(3_000, 3_000), log(10, 1));
        let mut request = Vec::new();
        own.push_policy(&mut request);
        let doubles = request.as_chunks().0.iter();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
        let numbers: Vec<_> = doubles.map(|&bytes| f64::from_be_bytes(bytes) as u64).collect();
        assert_eq!(limiters.with_override(&numbers), Some(Policy::SlidingLog(own)));
    }
}
