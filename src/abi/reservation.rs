//! Bookings as JavaScript asks for them and gives them back: it keeps them while a caller waits, and looks into
//! none.

use super::whole;
use crate::algorithm::{BOOKING_LENGTH, Booking};
use crate::policy::operation::Operation;

/// Books `cost` units for a slot that is at most so many microseconds away.
pub(crate) fn book(cost: f64, max_wait_us: f64) -> Operation {
    Operation::Book { cost: whole(cost), max_wait: whole(max_wait_us) }
}

/// Gives back what was booked.
pub(crate) fn unbook(doubles: &[f64]) -> Operation {
    let booking = |doubles: &[f64]| {
        let numbers: Vec<_> = doubles.iter().copied().map(whole).collect();
        Booking::from_numbers(&numbers)
    };
    Operation::Unbook { bookings: doubles.chunks_exact(BOOKING_LENGTH).map(booking).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::response::doubles_of;
    use crate::algorithm::{Algorithm as _, Bookable as _, Gcra};

    #[test]
    fn bookings_come_back_as_they_were() {
        let gcra = Gcra::new(7, 1_000_000, 2).unwrap();
        let mut state = gcra.initial_state();
        let booking = gcra.book(&mut state, 5, 2, 1_000);
        let bookings = vec![booking, None];
        let doubles: Vec<_> = doubles_of(&bookings).collect();
        assert_eq!(doubles.len(), 2 * BOOKING_LENGTH);
        assert_eq!(unbook(&doubles), Operation::Unbook { bookings });
    }
}
