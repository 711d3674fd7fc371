//! The other end of `lua/sliding_log.lua`.

use super::{Left, Twin, Wire, push_double};
use crate::algorithm::{Algorithm as _, LimitStatus, LogLimit, SlidingLog};
use crate::policy::Policy;

/// Doubles of how a limit stands.
const STANDING: usize = 4;

impl Wire for SlidingLog {
    fn twin(&self) -> Twin {
        Twin::SlidingLog
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

    fn own_numbers(&self) -> usize {
        3 + 2 * self.limits().len()
    }

    fn with_own_numbers(&self, numbers: &[u64]) -> Option<Policy> {
        let (limits, rest) = numbers.get(3..)?.as_chunks();
        let limit = |&[limit, window]: &[u64; 2]| LogLimit { limit, window };
        let limits: Vec<_> = limits.iter().map(limit).collect();
        let as_many = rest.is_empty() && limits.len() == self.limits().len();
        let own = if !as_many {
            return None;
        } else if self.named_limits() > 0 {
            Self::several(&limits, Some(self.precision()))
        } else {
            Self::new(limits[0].limit, limits[0].window, self.counts_refused())
        };
        Some(Policy::SlidingLog(own.ok()?))
    }

    fn width(&self) -> usize {
        STANDING * self.limits().len()
    }

    fn others_width(&self) -> usize {
        0
    }

    fn read(&self, state: &[u64], _others: Option<&[u64]>) -> Option<Left> {
        let (statuses, rest) = state.as_chunks::<STANDING>();
        let standing = |&[limit, remaining, retry_at, reset_at]: &[u64; STANDING]| LimitStatus {
            limit,
            remaining,
            retry_at,
            reset_at,
        };
        rest.is_empty().then(|| Left::Statuses(statuses.iter().map(standing).collect()))
    }
}
