//! Scheduled reservations from and to JavaScript, which keeps them while a caller waits and does
//! not interpret them.

use super::whole;
use crate::algorithm::{SCHEDULED_RESERVATION_LENGTH, ScheduledReservation};
use crate::policy::operation::Operation;

/// Schedules `cost` units for a slot at most `max_wait_us` microseconds away.
pub(crate) fn schedule(cost: f64, max_wait_us: f64) -> Operation {
    Operation::Schedule { cost: whole(cost), max_wait: whole(max_wait_us) }
}

/// Cancels the scheduled reservations of one call.
pub(crate) fn cancel_scheduled(doubles: &[f64]) -> Operation {
    let reservation = |doubles: &[f64]| {
        let numbers: Vec<_> = doubles.iter().copied().map(whole).collect();
        ScheduledReservation::from_numbers(&numbers)
    };
    Operation::CancelScheduled {
        scheduled: doubles.chunks_exact(SCHEDULED_RESERVATION_LENGTH).map(reservation).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::response::scheduled_doubles;
    use crate::algorithm::{Algorithm as _, Gcra, Schedulable as _};

    #[test]
    fn scheduled_reservations_survive_the_conversion() {
        let gcra = Gcra::new(7, 1_000_000, 2).unwrap();
        let mut state = gcra.initial_state();
        let reservation = gcra.schedule(&mut state, 5, 2, 1_000);
        let scheduled = vec![reservation, None];
        let doubles: Vec<_> = scheduled_doubles(&scheduled).collect();
        assert_eq!(doubles.len(), 2 * SCHEDULED_RESERVATION_LENGTH);
        assert_eq!(cancel_scheduled(&doubles), Operation::CancelScheduled { scheduled });
    }
}
