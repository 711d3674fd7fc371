//! What the sorted set of a key's holds contains: see `lua/executor/holds.lua` and `repeats.lua`.

use redis::Value;

use crate::redis::inspect::key_query::bytes;
use crate::time::Micros;

/// A key's open holds, and the calls on it that are remembered by an identifier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HoldSummary {
    /// The number of open holds.
    pub holds: u64,
    /// The end of the last open hold, in epoch microseconds.
    pub holds_until: Micros,
    /// The number of remembered calls.
    pub calls: u64,
    /// The time until which the last of these calls is remembered, in epoch microseconds.
    pub calls_until: Micros,
}

impl HoldSummary {
    /// Summarizes the members of the set from replies to `ZRANGE … WITHSCORES`; `None` if all have ended.
    pub(crate) fn read(pages: &[Value], now: Micros) -> Option<Self> {
        let mut summary = Self::default();
        for page in pages {
            let Value::Array(words) = page else { continue };
            for [_, score] in words.as_chunks().0 {
                let score = bytes(score).and_then(|score| str::from_utf8(score).ok()?.parse().ok());
                summary.add(score.unwrap_or(0.0), now);
            }
        }
        // Each hold and each call has two members.
        summary.holds /= 2;
        summary.calls /= 2;
        (summary.holds + summary.calls > 0).then_some(summary)
    }

    fn add(&mut self, score: f64, now: Micros) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "times are below 2^53"
        )]
        let ends_at = score.ceil() as Micros;
        if ends_at <= now {
            return;
        }
        // The score of a call is its expiry less one half.
        let is_call = score.fract() != 0.0;
        let (count, until) = if is_call {
            (&mut self.calls, &mut self.calls_until)
        } else {
            (&mut self.holds, &mut self.holds_until)
        };
        *count += 1;
        *until = ends_at.max(*until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two members for each score, as the script writes them.
    fn page(scores: &[&str]) -> Value {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let members =
            scores.iter().flat_map(|score| [text("id"), text(score), text("id…"), text(score)]);
        Value::Array(members.collect())
    }

    #[test]
    fn holds_and_calls_are_counted_apart() {
        let pages = [page(&["9", "10.5", "20"]), page(&["1.7e+15", "1795872546041999.5"])];
        let summary = HoldSummary::read(&pages, 10).unwrap();
        assert_eq!((summary.holds, summary.holds_until), (2, 1_700_000_000_000_000));
        assert_eq!((summary.calls, summary.calls_until), (2, 1_795_872_546_042_000));
    }

    #[test]
    fn what_has_ended_is_nothing() {
        assert_eq!(HoldSummary::read(&[page(&["10", "9.5"])], 10), None);
        assert_eq!(HoldSummary::read(&[], 10), None);
        assert_eq!(HoldSummary::read(&[Value::Nil, page(&["x"])], 10), None);
    }
}
