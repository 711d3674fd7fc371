//! The other end of `lua/rate/general.lua`.

use super::{Left, Twin, Wire, push_double};
use crate::algorithm::{
    Arrival, Gcra, LeakyBucket, Levels, Rate, RateNumbers, RateState, TokenBucket,
};
use crate::policy::{Policy, State};
use crate::time::Micros;

/// A TTL is set anew when the arrival passes a multiple of this, the time to full; short ones are
/// stretched, because a key that lives a little longer costs less than a TTL.
const SHORTEST_TTL_STEP: Micros = 1_000_000;

impl Wire for Rate {
    fn twin(&self) -> Twin {
        Twin::Rate
    }

    fn push_policy(&self, request: &mut Vec<u8>) {
        let RateNumbers { period, units, burst, .. } = self.numbers();
        let Levels { capacity, initial, .. } = self.levels();
        let (unit, full) = (self.time_of(1), self.full());
        let ttl_step = full.micros.max(SHORTEST_TTL_STEP);
        for number in [period, units, burst, capacity, initial, unit.micros, unit.part] {
            push_double(request, number);
        }
        for number in [full.micros, full.part, ttl_step] {
            push_double(request, number);
        }
    }

    fn own_numbers(&self) -> usize {
        10
    }

    /// Those of a token bucket, which can be any rate's.
    fn with_own_numbers(&self, numbers: &[u64]) -> Option<Policy> {
        let &[period, units, burst, capacity, initial, ..] = numbers else { return None };
        let levels = Levels { capacity, initial, debt: burst.checked_sub(capacity)? };
        Some(Policy::TokenBucket(TokenBucket::with_levels(levels, units, period).ok()?))
    }

    fn width(&self) -> usize {
        2
    }

    fn others_width(&self) -> usize {
        5
    }

    fn read(&self, state: &[u64], others: Option<&[u64]>) -> Option<Left> {
        let &[micros, part] = state else { return None };
        let numbers = match others {
            None => self.shared_numbers(),
            Some(&[period, units, burst, lingers, booked_until]) => {
                let numbers = [micros, part, period, units, burst, lingers, booked_until];
                return RateState::from_numbers(&numbers).map(State::Rate).map(Left::State);
            }
            Some(_) => return None,
        };
        Some(Left::State(State::Rate(RateState { arrival: Arrival { micros, part }, numbers })))
    }
}

/// GCRA with a key's own numbers.
pub(crate) fn gcra(numbers: &[u64]) -> Option<Policy> {
    let &[period, units, burst, ..] = numbers else { return None };
    Some(Policy::Gcra(Gcra::new(units, period, burst).ok()?))
}

/// The leaky bucket with a key's own numbers.
pub(crate) fn leaky_bucket(numbers: &[u64]) -> Option<Policy> {
    let &[period, units, capacity, ..] = numbers else { return None };
    Some(Policy::LeakyBucket(LeakyBucket::new(capacity, units, period).ok()?))
}
