//! The other end of `lua/rate.lua`.

use std::sync::Arc;

use super::{Left, Twin, Wire, push_double};
use crate::algorithm::{Arrival, Levels, Rate, RateNumbers, RateState};
use crate::policy::State;
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

    fn width(&self) -> usize {
        2
    }

    fn others_width(&self) -> usize {
        4
    }

    fn read(&self, state: &[u64], others: Option<&[u64]>) -> Option<Left> {
        let &[micros, part] = state else { return None };
        let numbers = match others {
            None => self.shared_numbers(),
            Some(&[period, units, burst, lingers]) if period > 0 && units > 0 && burst > 0 => {
                Arc::new(RateNumbers { period, units, burst, lingers: lingers > 0 })
            }
            Some(_) => return None,
        };
        Some(Left::State(State::Rate(RateState { arrival: Arrival { micros, part }, numbers })))
    }
}
