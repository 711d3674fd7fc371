//! The bucket that is refilled at intervals, call by call.

use super::*;

const SECOND: Micros = 1_000_000;

fn bucket(capacity: u64, tokens: u64, every: Micros) -> IntervalBucket {
    IntervalBucket::new(Levels::full(capacity), tokens, every).unwrap()
}

fn admitted(bucket: &IntervalBucket, state: &mut IntervalState, now: Micros, cost: u64) {
    assert_eq!(bucket.charge(state, now, cost), Outcome::Admitted, "{cost} at {now}");
}

fn refused(bucket: &IntervalBucket, state: &mut IntervalState, now: Micros, cost: u64) {
    let before = state.clone();
    assert_eq!(bucket.charge(state, now, cost), Outcome::Refused, "{cost} at {now}");
    assert_eq!(*state, before);
}

#[test]
fn tokens_come_at_once_at_the_end_of_each_interval() {
    let bucket = bucket(5, 2, SECOND);
    let mut state = bucket.initial_state();
    admitted(&bucket, &mut state, 100, 5);
    refused(&bucket, &mut state, SECOND + 99, 1);
    assert_eq!(bucket.retry_at(&state, SECOND + 99, 1), SECOND + 100);
    assert_eq!(bucket.remaining(&state, SECOND + 100), 2);
    admitted(&bucket, &mut state, SECOND + 500, 2);
    assert_eq!((state.anchor, state.used), (SECOND + 100, 5));
    assert_eq!(bucket.remaining(&state, 2 * SECOND + 100), 2);
    assert_eq!(bucket.remaining(&state, 3 * SECOND + 100), 4);
    assert_eq!((state.reset_at(), bucket.remaining(&state, u64::MAX / 2)), (3_000_100 + SECOND, 5));
}

#[test]
fn a_full_bucket_does_not_tick() {
    let bucket = bucket(2, 1, SECOND);
    let mut state = bucket.initial_state();
    admitted(&bucket, &mut state, 0, 1);
    admitted(&bucket, &mut state, 5 * SECOND + 7, 2);
    assert_eq!(state.anchor, 5 * SECOND + 7);
    refused(&bucket, &mut state, 6 * SECOND + 6, 1);
    admitted(&bucket, &mut state, 6 * SECOND + 7, 1);
}

/// Described elsewhere with clocks of whole seconds, for which an interval of 500 ms is 0 or 1.
#[test]
fn ten_per_half_a_second_come_to_the_microsecond() {
    let bucket = bucket(10, 10, SECOND / 2);
    let mut state = bucket.initial_state();
    for interval in 0..7 {
        let begins = 999_999 + interval * SECOND / 2;
        admitted(&bucket, &mut state, begins, 10);
        refused(&bucket, &mut state, begins + SECOND / 2 - 1, 1);
    }
}

#[test]
fn the_cost_is_added_before_it_is_compared() {
    let bucket = bucket(10, 10, SECOND);
    let mut state = bucket.initial_state();
    admitted(&bucket, &mut state, 0, 9);
    refused(&bucket, &mut state, 0, 2);
    admitted(&bucket, &mut state, 0, 1);
}

#[test]
fn a_bucket_in_debt_waits_for_a_whole_token() {
    let levels = Levels { capacity: 3, initial: 3, debt: 4 };
    let bucket = IntervalBucket::new(levels, 2, SECOND).unwrap();
    let mut state = bucket.initial_state();
    assert_eq!(bucket.charge(&mut state, 0, 8), Outcome::Impossible);
    admitted(&bucket, &mut state, 0, 2);
    assert_eq!(bucket.remaining(&state, 0), 5);
    admitted(&bucket, &mut state, 0, 5);
    refused(&bucket, &mut state, 2 * SECOND - 1, 1);
    // Seven are used: after two refills the level is 0, and one more token is wanted.
    assert_eq!(bucket.retry_at(&state, 0, 1), 3 * SECOND);
    assert_eq!(bucket.remaining(&state, 3 * SECOND), 6);
}

#[test]
fn a_bucket_that_begins_empty_fills_from_its_first_call() {
    let levels = Levels { capacity: 4, initial: 0, debt: 0 };
    let bucket = IntervalBucket::new(levels, 2, SECOND).unwrap();
    let mut state = bucket.initial_state();
    assert_eq!(bucket.remaining(&state, 7), 0);
    assert_eq!(bucket.charge(&mut state, 7, 1), Outcome::Refused);
    refused(&bucket, &mut state, SECOND + 6, 1);
    let day_later = 2 * SECOND + 7 + LINGER;
    assert_eq!(state.reset_at(), day_later);
    assert_eq!(bucket.remaining(&state, day_later - 1), 4);
    assert_eq!(bucket.remaining(&state, day_later), 0);
    assert_eq!(bucket.charge(&mut state, day_later, 5), Outcome::Impossible);
    assert_eq!((state.anchor, state.used), (day_later, 4));
}

#[test]
fn other_numbers_refill_as_they_were_until_a_call_is_admitted() {
    let (slow, fast) = (bucket(10, 1, 10 * SECOND), bucket(4, 2, SECOND));
    let mut state = slow.initial_state();
    admitted(&slow, &mut state, 0, 8);
    refused(&fast, &mut state, 40 * SECOND, 1);
    assert_eq!(fast.retry_at(&state, 40 * SECOND, 1), 50 * SECOND);
    assert_eq!(fast.remaining(&state, 55 * SECOND), 1);
    admitted(&fast, &mut state, 55 * SECOND, 1);
    // Five seconds are more than an interval now: it begins anew.
    assert_eq!((state.anchor, state.used), (55 * SECOND, 4));
    admitted(&fast, &mut state, 56 * SECOND + 1, 1);
    admitted(&slow, &mut state, 56 * SECOND + 2, 1);
    assert_eq!((state.anchor, state.used), (56 * SECOND, 4), "the interval runs on");
}

#[test]
fn a_clock_step_back_locks_a_key_for_no_longer_than_the_horizon() {
    let bucket = bucket(4, 2, SECOND);
    let mut state = bucket.initial_state();
    admitted(&bucket, &mut state, 5 * SECOND, 1);
    let mut a_little = state.clone();
    admitted(&bucket, &mut a_little, 5 * SECOND - 10, 1);
    assert_eq!((a_little.anchor, a_little.used), (5 * SECOND - 10, 2));
    assert_eq!(bucket.charge(&mut state, 0, 1), Outcome::Refused);
    assert_eq!((state.anchor, state.used), (0, 4));
    admitted(&bucket, &mut state, 2 * SECOND, 4);
}

#[test]
fn illegal_numbers_are_named() {
    let option =
        |levels, tokens, every| IntervalBucket::new(levels, tokens, every).unwrap_err().option;
    let day = 86_400 * SECOND;
    assert_eq!(option(Levels::full(0), 1, 1), "capacity");
    assert_eq!(option(Levels::full(1), 0, 1), "refill.tokens");
    assert_eq!(option(Levels::full(1), 1, 0), "refill.every");
    assert_eq!(option(Levels::full(100_000), 1, day), "capacity");
    assert_eq!(option(Levels { debt: 100_000, ..Levels::full(1) }, 1, day), "debt");
    assert_eq!(option(Levels { initial: 1, ..Levels::full(52_124) }, 1, day), "initial");
    assert!(IntervalBucket::new(Levels::full(52_124), 1, day).is_ok());
}

#[test]
fn what_comes_back_is_counted_after_the_refills_and_the_interval_runs_on() {
    let bucket = bucket(10, 2, SECOND);
    let taken = ChargeRecord { at: 100, reset_at: 5 * SECOND + 100 };
    let mut state = bucket.initial_state();
    admitted(&bucket, &mut state, 100, 9);
    assert_eq!(bucket.refund(&mut state, 2 * SECOND + 500, 3, taken), 3);
    assert_eq!((state.anchor, state.used), (2 * SECOND + 100, 2));
    assert_eq!(bucket.remaining(&state, 3 * SECOND + 100), 10);
    assert_eq!(bucket.refund(&mut state, 2 * SECOND + 600, 9, taken), 2);
    assert_eq!(state.reset_at(), 2 * SECOND + 600, "a full bucket does not tick");
    assert_eq!(bucket.refund(&mut state, 2 * SECOND + 600, 9, taken), 0);
}

/// Two calls of 4: two refills of 2 are for the first.
#[test]
fn at_most_the_calls_own_units_come_back() {
    let bucket = bucket(10, 2, SECOND);
    let mut state = bucket.initial_state();
    admitted(&bucket, &mut state, 100, 4);
    let first = ChargeRecord { at: 100, reset_at: state.reset_at() };
    admitted(&bucket, &mut state, 200, 4);
    let refunded = |now| bucket.refund(&mut state.clone(), now, 4, first);
    assert_eq!((refunded(SECOND + 99), refunded(SECOND + 100)), (4, 2));
    assert_eq!((refunded(2 * SECOND + 99), refunded(2 * SECOND + 100)), (2, 0));
}
