//! The encoding of a response: ten doubles in an array that JavaScript reads. If the limits have
//! names, a key is blocked, or the response is to an operation, six more follow for each limit, then
//! two for the block of each limit's key if any is blocked, and then the units that were moved by
//! policy, the units of a hold (one number, or one for each policy), the numbers of the first call that
//! this one repeats, or the numbers of scheduled reservations.
//!
//! `ts/backends/response.ts` and `ts/backends/multi-policy.ts` decode it.

use crate::algorithm::{SCHEDULED_RESERVATION_LENGTH, ScheduledReservation};
use crate::key::KeyError;
use crate::memory::OperationError;
use crate::policy::decision::{Decision, Status};
use crate::policy::execute::{Execution, MoreUnits};
use crate::policy::multi_policy::{Block, Blocks, LimitReport, LimitReports, Response};
use crate::policy::operation::ScheduledReservations;
use crate::protocol::{failure, status};
use crate::time::{Micros, whole_millis};

/// The doubles of a decision: code, time, limit, remaining, retry after, reset after, capacity, next
/// after, retry time, reset time. Of an allowed call they have the mark of the key instead of the
/// retry after.
pub(crate) const LENGTH: usize = 10;

/// The doubles of a limit's report: limit, remaining, retry after or [`NEVER`], reset after,
/// capacity, next after. Of an allowed call they have the mark of the limit's key instead of the
/// retry after.
const LIMIT_LENGTH: usize = 6;

/// The doubles of a block: the number of the ban's length or 0, its end in epoch milliseconds; zeros
/// for a key that is not blocked.
const BLOCK_LENGTH: usize = 2;

/// The doubles of a hold: its units, and after a settlement the owed ones and whether the hold had
/// expired. (Units by policy need more, and have the space of scheduled reservations.)
const HELD_LENGTH: usize = 3;

/// The doubles of a response with reports of `limits` limits.
pub(crate) const fn length_of(limits: usize) -> usize {
    LENGTH + limits * (LIMIT_LENGTH + BLOCK_LENGTH) + HELD_LENGTH
}

/// Added to the status code of a response with limit reports. Its doubles are: code, time,
/// offset of the reports, index of the reported limit, units of the operation, reset after, 0, next
/// after, retry time, reset time.
const MULTI_LIMIT: f64 = 8.0;

/// Added to the status code, with [`MULTI_LIMIT`], if a block refused the call. The doubles of the
/// blocks follow the reports.
const BLOCKED: f64 = 16.0;

/// Added to the status code, with [`MULTI_LIMIT`], if the call repeats another one. Its units, and the
/// hold's end and identifier if it is a reservation, follow the reports.
const REPEATED: f64 = 32.0;

/// The retry time of a limit that never admits the cost.
const NEVER: f64 = -1.0;

/// The reason for which there is no decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
#[cfg_attr(
    not(any(feature = "redis", feature = "wasm-redis")),
    allow(dead_code, reason = "some are failures of Redis")
)]
pub(crate) enum FailureCode {
    /// The key is not a string.
    NotAString = failure::NOT_A_STRING,
    /// The key is empty.
    EmptyKey = failure::EMPTY_KEY,
    /// The key is too long.
    KeyTooLong = failure::KEY_TOO_LONG,
    /// The key has a lone surrogate: two such keys would become equal.
    IllFormedKey = failure::ILL_FORMED_KEY,
    /// The engine panicked.
    Panicked = failure::PANICKED,
    /// The embedded store is full, and the key shares its count with others.
    SharedBucket = failure::SHARED_BUCKET,
    /// The embedded store is full, and has no capacity for a block or an override of the key.
    NoCapacity = failure::NO_CAPACITY,
    /// The key has 10,000 open reservations and remembered calls.
    TooManyHolds = failure::TOO_MANY_HOLDS,
    /// Redis was not available in time. This code and those below come with a text.
    Unavailable = failure::UNAVAILABLE,
    /// The connection broke: it is unknown whether units were charged.
    Broken = failure::BROKEN,
    /// Redis did not reply in time: it is unknown whether units were charged.
    TimedOut = failure::TIMED_OUT,
    /// Redis replied with an error.
    Refused = failure::REFUSED,
    /// The store has been closed.
    Closed = failure::CLOSED,
    /// The reply of Redis is malformed: it is unknown whether units were charged.
    Malformed = failure::MALFORMED,
}

impl From<KeyError> for FailureCode {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Empty => Self::EmptyKey,
            KeyError::TooLong => Self::KeyTooLong,
        }
    }
}

impl From<OperationError> for FailureCode {
    fn from(unperformed: OperationError) -> Self {
        match unperformed {
            OperationError::SharedBucket => Self::SharedBucket,
            OperationError::NoCapacity => Self::NoCapacity,
            OperationError::TooManyHolds => Self::TooManyHolds,
            // TypeScript builds an override from the limiter's own policies.
            OperationError::InvalidOverride => Self::Panicked,
        }
    }
}

impl FailureCode {
    pub(crate) fn code(self) -> f64 {
        f64::from(self as i32)
    }
}

fn status_code(decided: Status) -> f64 {
    let code = match decided {
        Status::Allowed => status::ALLOWED,
        Status::AllowedLast => status::ALLOWED_LAST,
        Status::Refused => status::REFUSED,
        Status::Impossible => status::IMPOSSIBLE,
        Status::Blocked => status::BLOCKED,
    };
    f64::from(code)
}

/// The array into which a decision is written.
pub(crate) type DecisionBuffer = [f64; LENGTH];

/// The array into which one response is written.
pub(crate) trait ResponseBuffer: 'static {
    /// The response that it holds.
    type Response;

    /// The buffer at the start of an array, if the array is long enough.
    fn at_start_of(array: &mut [f64]) -> Option<&mut Self>;

    /// Writes a response.
    fn write(&mut self, result: Result<Self::Response, FailureCode>);
}

impl ResponseBuffer for DecisionBuffer {
    /// `None` if the call was queued.
    type Response = Option<Decision>;

    fn at_start_of(array: &mut [f64]) -> Option<&mut Self> {
        array.first_chunk_mut()
    }

    #[inline]
    fn write(&mut self, result: Result<Option<Decision>, FailureCode>) {
        write(self, result);
    }
}

/// A buffer for limit reports, too.
impl ResponseBuffer for [f64] {
    type Response = Execution;

    fn at_start_of(array: &mut [f64]) -> Option<&mut Self> {
        (array.len() >= length_of(1)).then_some(array)
    }

    fn write(&mut self, result: Result<Execution, FailureCode>) {
        let Some((head, details)) = self.split_first_chunk_mut() else { return };
        match result {
            Ok(result) => {
                let found;
                (*head, found) = encode_execution(result, LENGTH);
                let ResponseDetails { reports, blocks, more_units, scheduled } = found;
                let (limits, others) = details.split_at_mut(reports.limits.len() * LIMIT_LENGTH);
                copy_chunks(limits, reports.limits.iter().map(doubles_of_limit));
                let count = blocks.as_ref().map_or(0, |blocks| blocks.len());
                let (blocked, others) = others.split_at_mut(count * BLOCK_LENGTH);
                copy_chunks(
                    blocked,
                    blocks.iter().flat_map(|all| all.iter()).map(doubles_of_block),
                );
                let units = more_units.iter().flat_map(|more| more.numbers());
                // No operation has both units and reservations.
                copy_chunks(others, units.map(|units| [double(units)]));
                copy_chunks(others, scheduled.iter().map(doubles_of_reservation));
            }
            Err(failure) => write(head, Err(failure)),
        }
    }
}

/// The reports of a single limit.
fn single_report(decision: &Decision) -> LimitReports {
    let &Decision { status, limit, capacity, remaining, retry_after_ms, .. } = decision;
    let Decision { next_after_ms, reset_after_ms, .. } = *decision;
    let retry_after_ms = (status != Status::Impossible).then_some(retry_after_ms);
    let numbers = LimitReport {
        limit,
        capacity,
        remaining,
        retry_after_ms,
        next_after_ms,
        reset_after_ms,
        mark: 0,
    };
    LimitReports { reported: 0, limits: [numbers].into_iter().collect() }
}

/// Converts a number of the engine. All of them are below 2^53, so doubles are exact.
#[expect(clippy::cast_precision_loss, reason = "numbers below 2^53 are exact")]
#[inline]
fn double(number: u64) -> f64 {
    // A signed number is converted in one instruction.
    number.cast_signed() as f64
}

#[inline]
fn epoch_ms(time: Micros) -> f64 {
    double(time) / 1_000.0
}

/// Writes a response.
#[inline]
pub(crate) fn write(buffer: &mut DecisionBuffer, result: Result<Option<Decision>, FailureCode>) {
    match result {
        Ok(Some(decision)) => {
            buffer[0] = status_code(decision.status);
            buffer[1] = epoch_ms(decision.at);
            buffer[2] = double(decision.limit);
            buffer[3] = double(decision.remaining);
            buffer[4] = double(decision.retry_after_ms);
            buffer[5] = double(decision.reset_after_ms);
            buffer[6] = double(decision.capacity);
            buffer[7] = double(decision.next_after_ms);
            buffer[8] = epoch_ms(decision.retry_at);
            buffer[9] = epoch_ms(decision.reset_at);
        }
        // The call was queued.
        Ok(None) => buffer[0] = 0.0,
        Err(failure) => buffer[0] = failure.code(),
    }
}

/// The details of a response, which follow its own doubles in this order.
pub(crate) struct ResponseDetails {
    reports: Box<LimitReports>,
    blocks: Option<Box<Blocks>>,
    more_units: Option<Box<MoreUnits>>,
    scheduled: ScheduledReservations,
}

/// The doubles of an executed operation, and the details, which start `details_from` doubles
/// after the buffer's start.
pub(crate) fn encode_execution(
    executed: Execution,
    details_from: usize,
) -> (DecisionBuffer, ResponseDetails) {
    let Execution { response, units, more_units, scheduled } = executed;
    let Response { decision, limits: reports, blocks } = response;
    let reports = reports.unwrap_or_else(|| Box::new(single_report(&decision)));
    let blocked = if blocks.is_some() { BLOCKED } else { 0.0 };
    let is_repeated = more_units.as_ref().is_some_and(|more| more.first.is_some());
    let repeated = if is_repeated { REPEATED } else { 0.0 };
    let code = MULTI_LIMIT + blocked + repeated + status_code(decision.status);
    let (from, reported) = (double(details_from as u64), double(reports.reported as u64));
    let (units, reset_after) = (double(units), double(decision.reset_after_ms));
    let details = ResponseDetails { reports, blocks, more_units, scheduled };
    let next_after = double(decision.next_after_ms);
    let [at, retry_at, reset_at] =
        [decision.at, decision.retry_at, decision.reset_at].map(epoch_ms);
    let doubles =
        [code, at, from, reported, units, reset_after, 0.0, next_after, retry_at, reset_at];
    (doubles, details)
}

/// Adds `by` to the offset of the reports, if the response has any.
#[cfg(any(feature = "redis", feature = "wasm-redis"))]
pub(crate) fn shift_details(buffer: &mut DecisionBuffer, by: usize) {
    if buffer[0] >= MULTI_LIMIT {
        buffer[2] += double(by as u64);
    }
}

/// Copies chunks of doubles side by side.
fn copy_chunks<const N: usize>(buffer: &mut [f64], parts: impl Iterator<Item = [f64; N]>) {
    for (chunk, part) in buffer.as_chunks_mut().0.iter_mut().zip(parts) {
        *chunk = part;
    }
}

fn doubles_of_limit(numbers: &LimitReport) -> [f64; LIMIT_LENGTH] {
    let &LimitReport { limit, capacity, remaining, retry_after_ms, mark, .. } = numbers;
    let &LimitReport { next_after_ms, reset_after_ms, .. } = numbers;
    let retry_after = match mark {
        0 => retry_after_ms.map_or(NEVER, double),
        mark => double(mark),
    };
    let [limit, remaining, reset_after, capacity, next_after] =
        [limit, remaining, reset_after_ms, capacity, next_after_ms].map(double);
    [limit, remaining, retry_after, reset_after, capacity, next_after]
}

fn doubles_of_block(block: &Option<Block>) -> [f64; BLOCK_LENGTH] {
    block
        .map_or([0; BLOCK_LENGTH], |Block { until, ban_step }| [ban_step, whole_millis(until)])
        .map(double)
}

fn doubles_of_reservation(
    reservation: &Option<ScheduledReservation>,
) -> [f64; SCHEDULED_RESERVATION_LENGTH] {
    reservation
        .as_ref()
        .map_or([0; SCHEDULED_RESERVATION_LENGTH], ScheduledReservation::to_numbers)
        .map(double)
}

#[cfg(any(feature = "redis", feature = "wasm-redis"))]
impl ResponseDetails {
    /// Appends the doubles of the details.
    pub(crate) fn append_to(&self, doubles: &mut Vec<f64>) {
        doubles.extend(self.reports.limits.iter().flat_map(doubles_of_limit));
        doubles.extend(self.blocks.iter().flat_map(|all| all.iter()).flat_map(doubles_of_block));
        doubles.extend(self.more_units.iter().flat_map(|more| more.numbers()).map(double));
        doubles.extend(scheduled_doubles(&self.scheduled));
    }
}

/// The doubles of scheduled reservations: the same number for each policy, zeros for a policy
/// without one.
#[cfg(any(feature = "redis", feature = "wasm-redis", test))]
pub(crate) fn scheduled_doubles(scheduled: &ScheduledReservations) -> impl Iterator<Item = f64> {
    scheduled.iter().flat_map(doubles_of_reservation)
}
