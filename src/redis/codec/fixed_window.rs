//! The codec of `lua/fixed_window/general.lua`.

use super::{Codec, KeySummary, ReplyState, ScriptAlgorithm, doubles, numbers, push_double};
use crate::algorithm::{Algorithm as _, FixedWindow, WindowState};
use crate::policy::{Policy, State};
use crate::protocol::value::{COUNTS, EPOCH_MS};
use crate::time::{MAX_SAFE, MICROS_PER_MILLI, Micros};

/// Takes a window's end and count from the front: two doubles, or a negative one if it is packed.
pub(crate) fn take_window<'p>(states: &mut &[u8], buffer: &'p mut [u64]) -> Option<&'p [u64]> {
    let buffer = buffer.get_mut(..2)?;
    let (first, rest) = states.split_first_chunk::<8>()?;
    let window = -f64::from_be_bytes(*first);
    if window <= 0.0 {
        return doubles(states, buffer);
    }
    *states = rest;
    let mut packed = [0];
    doubles(&mut &window.to_be_bytes()[..], &mut packed)?;
    buffer.copy_from_slice(&[packed[0] / COUNTS + EPOCH_MS, packed[0] % COUNTS]);
    Some(buffer)
}

impl Codec for FixedWindow {
    fn algorithm(&self) -> ScriptAlgorithm {
        ScriptAlgorithm::FixedWindow
    }

    fn push_policy(&self, request: &mut Vec<u8>) {
        push_double(request, self.limit());
        push_double(request, self.window());
        push_double(request, u64::from(self.counts_refused()));
    }

    fn override_len(&self) -> usize {
        2
    }

    fn with_override(&self, numbers: &[u64]) -> Option<Policy> {
        let &[limit, window] = numbers else { return None };
        let own = Self::new(limit, window).ok()?.counting_refused(self.counts_refused());
        Some(Policy::FixedWindow(own))
    }

    fn state_len(&self) -> usize {
        2
    }

    fn take_state<'p>(&self, states: &mut &[u8], buffer: &'p mut [u64]) -> Option<&'p [u64]> {
        take_window(states, buffer)
    }

    fn decode(&self, state: &[u64], _others: Option<&[u64]>) -> Option<ReplyState> {
        let &[ends_ms, count] = state else { return None };
        Some(ReplyState::State(State::Window(WindowState { ends_ms, count })))
    }
}

pub(crate) fn summary(mut state: &[u8], now: Micros) -> Option<KeySummary> {
    let packed = str::from_utf8(state).ok().and_then(|text| text.parse::<u64>().ok());
    let [ends_ms, count] = match packed {
        Some(packed) => [packed / COUNTS + EPOCH_MS, packed % COUNTS],
        None => numbers(&mut state).filter(|_| state.is_empty())?,
    };
    let is_counted = ends_ms <= MAX_SAFE / MICROS_PER_MILLI && count <= MAX_SAFE;
    let ends_at = is_counted.then_some(ends_ms * MICROS_PER_MILLI)?;
    let is_open = ends_at > now && count > 0;
    Some(KeySummary {
        used: if is_open { count } else { 0 },
        ends_at: is_open.then_some(ends_at),
        reset_at: Some(if count > 0 { ends_at } else { 0 }),
        ..KeySummary::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(numbers: &[f64]) -> (Option<Vec<u64>>, usize) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
        let mut rest = &bytes[..];
        let mut buffer = [7; 4];
        (take_window(&mut rest, &mut buffer).map(<[u64]>::to_vec), rest.len())
    }

    #[test]
    fn a_window_is_two_doubles_or_a_packed_one() {
        let ends_ms = EPOCH_MS + 200_000_000_000;
        assert_eq!(taken(&[1_777_836_800_000.0, 9.0, 1.0]), (Some(vec![ends_ms, 9]), 8));
        assert_eq!(taken(&[0.0, 0.0]), (Some(vec![0, 0]), 0));
        let packed = 200_000_000_000.0 * 8_192.0 + 8_191.0;
        assert_eq!(taken(&[-packed, 9.0]), (Some(vec![ends_ms, 8_191]), 8));
    }

    #[test]
    fn other_doubles_are_no_window() {
        for numbers in [&[f64::NAN, 1.0][..], &[-1.5, 1.0], &[-1e300, 1.0], &[1.0]] {
            assert_eq!(taken(numbers).0, None, "{numbers:?}");
        }
        assert_eq!(taken(&[]).0, None);
    }
}
