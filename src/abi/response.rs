//! The wire form of an answer: six doubles in an array that JavaScript reads; and four more for each
//! limit, if the limits have names or if an operation is answered.
//!
//! `ts/backends/response.ts` and `ts/backends/multi-policy.ts` are the other end.

use crate::algorithm::{BOOKING_LENGTH, Booking, RateState};
use crate::key::KeyError;
use crate::memory::OperationError;
use crate::policy::decision::{Decision, Status};
use crate::policy::execute::Execution;
use crate::policy::multi_policy::{LimitReport, LimitReports, Response};
use crate::policy::operation::Bookings;
use crate::time::Micros;

/// Doubles per answer: code, time, limit, remaining, retry after, reset after.
pub(crate) const LENGTH: usize = 6;

/// Doubles per limit with a name: limit, remaining, retry after or [`NEVER`], reset after.
const LIMIT_LENGTH: usize = 4;

/// Doubles per answer of so many limits.
pub(crate) const fn length_of(limits: usize) -> usize {
    LENGTH + limits * LIMIT_LENGTH
}

/// Added to the code of a decision of several limits. Its six doubles are: code, time, how far on the
/// limits' numbers begin, the number of the limit that it speaks of, the units of an operation, reset after.
const SEVERAL: f64 = 8.0;

/// The time after which a limit admits a cost that it never can.
const NEVER: f64 = -1.0;

/// Why there is no decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The key is no string.
    NotAString,
    /// The key is empty.
    EmptyKey,
    /// The key is too long.
    KeyTooLong,
    /// The key holds a lone surrogate: two such keys would become one.
    IllFormedKey,
    /// The engine has a defect.
    Panicked,
    /// The embedded store is full, and the key shares its count with others.
    SharedCell,
    /// The embedded store is full, and there is no room to block the key or give it numbers.
    NoRoom,
    /// Redis could not be asked in time. This and what follows has a text.
    #[cfg(any(feature = "redis", feature = "wasm-redis"))]
    Unavailable,
    /// The connection broke: whether units were charged is unknown.
    #[cfg(any(feature = "redis", feature = "wasm-redis"))]
    Broken,
    /// Redis did not answer in time: whether units were charged is unknown.
    #[cfg(any(feature = "redis", feature = "wasm-redis"))]
    TimedOut,
    /// Redis answered with an error.
    #[cfg(any(feature = "redis", feature = "wasm-redis"))]
    Refused,
    /// The store has been closed.
    #[cfg(any(feature = "redis", feature = "wasm-redis"))]
    Closed,
    /// Redis answered with what is no answer: whether units were charged is unknown.
    #[cfg(any(feature = "redis", feature = "wasm-redis"))]
    Malformed,
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Empty => Self::EmptyKey,
            KeyError::TooLong => Self::KeyTooLong,
        }
    }
}

impl From<OperationError> for Failure {
    fn from(unperformed: OperationError) -> Self {
        match unperformed {
            OperationError::SharedCell => Self::SharedCell,
            OperationError::NoRoom => Self::NoRoom,
            // TypeScript makes them of the limiter's own.
            OperationError::OtherNumbers => Self::Panicked,
        }
    }
}

impl Failure {
    pub(crate) fn code(self) -> f64 {
        match self {
            Self::NotAString => -1.0,
            Self::EmptyKey => -2.0,
            Self::KeyTooLong => -3.0,
            Self::IllFormedKey => -4.0,
            Self::Panicked => -5.0,
            Self::SharedCell => -12.0,
            Self::NoRoom => -13.0,
            #[cfg(any(feature = "redis", feature = "wasm-redis"))]
            Self::Unavailable => -6.0,
            #[cfg(any(feature = "redis", feature = "wasm-redis"))]
            Self::Broken => -7.0,
            #[cfg(any(feature = "redis", feature = "wasm-redis"))]
            Self::TimedOut => -8.0,
            #[cfg(any(feature = "redis", feature = "wasm-redis"))]
            Self::Refused => -9.0,
            #[cfg(any(feature = "redis", feature = "wasm-redis"))]
            Self::Closed => -10.0,
            #[cfg(any(feature = "redis", feature = "wasm-redis"))]
            Self::Malformed => -11.0,
        }
    }
}

fn status_code(status: Status) -> f64 {
    match status {
        Status::Allowed => 0.0,
        Status::AllowedLast => 1.0,
        Status::Refused => 2.0,
        Status::Impossible => 3.0,
        Status::Blocked => 4.0,
    }
}

/// An answer's place in an array of doubles.
pub(crate) type Answer = [f64; LENGTH];

/// A place for one answer.
pub(crate) trait Place: 'static {
    /// What is written.
    type Told;

    /// The place at the front of an array, if that is long enough.
    fn in_front_of(array: &mut [f64]) -> Option<&mut Self>;

    /// Writes an answer.
    fn write(&mut self, answer: Result<Self::Told, Failure>);
}

impl Place for Answer {
    /// Nothing if the call was noted.
    type Told = Option<Decision>;

    fn in_front_of(array: &mut [f64]) -> Option<&mut Self> {
        array.first_chunk_mut()
    }

    #[inline]
    fn write(&mut self, answer: Result<Option<Decision>, Failure>) {
        write(self, answer);
    }
}

/// A place for the limits' numbers, too.
impl Place for [f64] {
    type Told = Execution;

    fn in_front_of(array: &mut [f64]) -> Option<&mut Self> {
        (array.len() >= length_of(1)).then_some(array)
    }

    fn write(&mut self, answer: Result<Execution, Failure>) {
        let Some((head, details)) = self.split_first_chunk_mut() else { return };
        match answer {
            Ok(answer) => {
                let (several, bookings);
                (*head, several, bookings) = executed(answer, LENGTH);
                let (limits, booked) = details.split_at_mut(several.limits.len() * LIMIT_LENGTH);
                lay(limits, several.limits.iter().map(doubles_of_limit));
                lay(booked, bookings.iter().map(doubles_of_booking));
            }
            Err(failure) => write(head, Err(failure)),
        }
    }
}

/// The numbers of a single limit.
fn alone(decision: &Decision) -> LimitReports {
    let &Decision { status, limit, remaining, retry_after_ms, reset_after_ms, .. } = decision;
    let retry_after_ms = (status != Status::Impossible).then_some(retry_after_ms);
    let numbers = LimitReport { limit, remaining, retry_after_ms, reset_after_ms };
    LimitReports { reported: 0, limits: [numbers].into_iter().collect() }
}

/// A number of the engine's: they are all below 2^53, so doubles are exact.
#[expect(clippy::cast_precision_loss, reason = "numbers below 2^53 are exact")]
#[inline]
fn double(number: u64) -> f64 {
    // Signed ones are converted in one step.
    number.cast_signed() as f64
}

#[inline]
fn epoch_ms(time: Micros) -> f64 {
    double(time) / 1_000.0
}

/// Writes an answer.
#[inline]
pub(crate) fn write(place: &mut Answer, answer: Result<Option<Decision>, Failure>) {
    match answer {
        Ok(Some(decision)) => {
            place[0] = status_code(decision.status);
            place[1] = epoch_ms(decision.at);
            place[2] = double(decision.limit);
            place[3] = double(decision.remaining);
            place[4] = double(decision.retry_after_ms);
            place[5] = double(decision.reset_after_ms);
        }
        // The call was noted.
        Ok(None) => place[0] = 0.0,
        Err(failure) => place[0] = failure.code(),
    }
}

/// The six doubles of what was performed; the limits, whose numbers stand so much further on; and what was
/// booked, which stands behind those.
pub(crate) fn executed(
    executed: Execution,
    details_from: usize,
) -> (Answer, Box<LimitReports>, Bookings) {
    let Execution { response: Response { decision, limits: several }, units, bookings } = executed;
    let several = several.unwrap_or_else(|| Box::new(alone(&decision)));
    let code = SEVERAL + status_code(decision.status);
    let (from, reported) = (double(details_from as u64), double(several.reported as u64));
    let (units, reset_after) = (double(units), double(decision.reset_after_ms));
    ([code, epoch_ms(decision.at), from, reported, units, reset_after], several, bookings)
}

/// Says that the numbers of several limits, if the answer has them, stand so much further on.
#[cfg(any(feature = "redis", feature = "wasm-redis"))]
pub(crate) fn move_details(place: &mut Answer, by: usize) {
    if place[0] >= SEVERAL {
        place[2] += double(by as u64);
    }
}

/// Lays doubles of parts side by side.
fn lay<const N: usize>(places: &mut [f64], parts: impl Iterator<Item = [f64; N]>) {
    for (place, part) in places.as_chunks_mut().0.iter_mut().zip(parts) {
        *place = part;
    }
}

fn doubles_of_limit(numbers: &LimitReport) -> [f64; LIMIT_LENGTH] {
    let &LimitReport { limit, remaining, retry_after_ms, reset_after_ms } = numbers;
    let retry_after = retry_after_ms.map_or(NEVER, double);
    [double(limit), double(remaining), retry_after, double(reset_after_ms)]
}

fn doubles_of_booking(booking: &Option<Booking<RateState>>) -> [f64; BOOKING_LENGTH] {
    booking.as_ref().map_or([0; BOOKING_LENGTH], Booking::to_numbers).map(double)
}

/// The numbers of several limits.
#[cfg(any(feature = "redis", feature = "wasm-redis", test))]
pub(crate) fn details_of(several: &LimitReports) -> impl Iterator<Item = f64> {
    several.limits.iter().flat_map(doubles_of_limit)
}

/// The doubles of what was booked: so many for each policy, zeros where nothing was.
#[cfg(any(feature = "redis", feature = "wasm-redis", test))]
pub(crate) fn doubles_of(bookings: &Bookings) -> impl Iterator<Item = f64> {
    bookings.iter().flat_map(doubles_of_booking)
}
