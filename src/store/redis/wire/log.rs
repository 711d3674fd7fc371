//! The other end of `lua/sliding_log.lua`.

use super::{Left, Twin, Wire, push_double};
use crate::algorithm::{LogLimit, SlidingLog, Standing};

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

    fn width(&self) -> usize {
        STANDING * self.limits().len()
    }

    fn others_width(&self) -> usize {
        0
    }

    fn read(&self, state: &[u64], _others: Option<&[u64]>) -> Option<Left> {
        let (standings, rest) = state.as_chunks::<STANDING>();
        let standing = |&[limit, remaining, retry_at, settled_at]: &[u64; STANDING]| Standing {
            limit,
            remaining,
            retry_at,
            settled_at,
        };
        rest.is_empty().then(|| Left::Told(standings.iter().map(standing).collect()))
    }

    fn tells(&self) -> bool {
        true
    }
}
