//! The codec of `lua/rate/general.lua`.

use super::{Codec, KeySummary, ReplyState, ScriptAlgorithm, numbers, push_double};
use crate::algorithm::{
    Algorithm as _, Arrival, KeyState as _, Levels, RateBased, RateNumbers, RateState, TokenBucket,
};
use crate::policy::{Policy, State};
use crate::time::{MAX_SAFE, Micros};

/// The script renews a key's TTL when the arrival passes a multiple of the TTL step, which is the
/// time to full, but at least this long: a key that lives a little longer costs less than a
/// renewal.
const MIN_TTL_STEP: Micros = 1_000_000;

impl<T: RateBased> Codec for T {
    fn algorithm(&self) -> ScriptAlgorithm {
        ScriptAlgorithm::Rate
    }

    fn push_policy(&self, request: &mut Vec<u8>) {
        let rate = self.rate();
        let RateNumbers { period, units, burst, .. } = rate.numbers();
        let Levels { capacity, initial, .. } = rate.levels();
        let (unit, full) = (rate.time_of(1), rate.full());
        let ttl_step = full.micros.max(MIN_TTL_STEP);
        for number in [period, units, burst, capacity, initial, unit.micros, unit.part] {
            push_double(request, number);
        }
        for number in [full.micros, full.part, ttl_step] {
            push_double(request, number);
        }
    }

    /// A policy's numbers, with the rate in lowest terms, and the limit that the user wrote.
    fn override_len(&self) -> usize {
        11
    }

    fn push_override(&self, request: &mut Vec<u8>) {
        self.push_policy(request);
        push_double(request, self.limit());
    }

    /// A token bucket, because it can express any rate.
    fn with_override(&self, numbers: &[u64]) -> Option<Policy> {
        let &[period, units, burst, capacity, initial, .., limit] = numbers else { return None };
        let levels = Levels { capacity, initial, debt: burst.checked_sub(capacity)? };
        let bucket = TokenBucket::with_levels(levels, units, period).ok()?;
        Some(Policy::TokenBucket(bucket.with_limit(limit)))
    }

    fn state_len(&self) -> usize {
        2
    }

    fn other_parameters_len(&self) -> usize {
        5
    }

    fn decode(&self, state: &[u64], others: Option<&[u64]>) -> Option<ReplyState> {
        let &[micros, part] = state else { return None };
        let numbers = match others {
            None => self.rate().shared_numbers(),
            Some(&[period, units, burst, lingers, scheduled_until]) => {
                let numbers = [micros, part, period, units, burst, lingers, scheduled_until];
                return RateState::from_numbers(&numbers).map(State::Rate).map(ReplyState::State);
            }
            Some(_) => return None,
        };
        Some(ReplyState::State(State::Rate(RateState {
            arrival: Arrival { micros, part },
            numbers,
        })))
    }
}

pub(crate) fn summary(mut state: &[u8], now: Micros) -> Option<KeySummary> {
    let [micros, part, period, units, burst] = numbers(&mut state)?;
    let (scheduled_until, lingers) = match state {
        [] => (0, false),
        b"l" => (0, true),
        _ => {
            let [booked] = numbers(&mut state)?;
            (booked, state == b"B")
        }
    };
    let numbers = [micros, part, period, units, burst, u64::from(lingers), scheduled_until];
    let state = RateState::from_numbers(&numbers)?;
    Some(KeySummary {
        // Booked slots of a fast rate can hold more units than any number here.
        used: state.used(now).min(MAX_SAFE),
        max_used: Some(burst),
        rate: Some((units, period)),
        reset_at: Some(state.reset_at()),
        scheduled_until: (scheduled_until > now).then_some(scheduled_until),
        ..KeySummary::default()
    })
}
