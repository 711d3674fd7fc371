//! The sliding logs, call by call.

use super::*;
use Outcome::{Admitted, Impossible, Refused};

const SECOND: Micros = 1_000_000;
const START: Micros = 1_780_000_000 * SECOND;

fn log(limit: u64, window: Micros) -> SlidingLog {
    SlidingLog::new(limit, window, false).unwrap()
}

fn counting_refused(limit: u64, window: Micros) -> SlidingLog {
    SlidingLog::new(limit, window, true).unwrap()
}

fn several(limits: &[(u64, Micros)], precision: Option<Micros>) -> SlidingLog {
    let limits: Vec<_> = limits.iter().map(|&(limit, window)| LogLimit { limit, window }).collect();
    SlidingLog::with_limits(&limits, precision).unwrap()
}

#[test]
fn an_entry_counts_for_exactly_a_window() {
    let two = log(2, 100);
    let mut state = two.initial_state();
    assert_eq!(two.charge(&mut state, 10, 1), Admitted);
    assert_eq!(two.charge(&mut state, 60, 1), Admitted);
    assert_eq!(two.charge(&mut state, 109, 1), Refused);
    assert_eq!((two.retry_at(&state, 109, 1), two.retry_at(&state, 109, 2)), (110, 160));
    assert_eq!(two.charge(&mut state, 110, 1), Admitted);
    assert_eq!((two.remaining(&state, 159), two.remaining(&state, 160)), (0, 1));
    assert_eq!((two.reset_at(&state, 0), state.reset_at()), (210, 110 + 112));
}

/// In logs keyed by their timestamp the second call replaced the first.
#[test]
fn two_calls_in_one_microsecond_both_count() {
    let three = log(3, 100);
    let mut state = three.initial_state();
    let outcomes = [1, 1, 1, 1].map(|cost| three.charge(&mut state, 10, cost));
    assert_eq!(outcomes, [Admitted, Admitted, Admitted, Refused]);
    assert_eq!(state.entries(), 3);
}

#[test]
fn a_refused_or_impossible_call_writes_nothing() {
    let two = log(2, 100);
    let mut state = two.initial_state();
    two.charge(&mut state, 10, 2);
    let before = state.clone();
    assert_eq!(two.charge(&mut state, 50, 1), Refused);
    assert_eq!(two.charge(&mut state, 50, 3), Impossible);
    assert_eq!(state, before);
}

#[test]
fn refused_attempts_count_if_asked_for_and_push_out_the_oldest_units() {
    let three = counting_refused(3, 100);
    let mut state = three.initial_state();
    assert_eq!(three.charge(&mut state, 0, 2), Admitted);
    assert_eq!(three.charge(&mut state, 10, 2), Refused);
    assert_eq!(three.charge(&mut state, 10, 4), Impossible);
    // One unit of the first call and two of the second count.
    assert_eq!((three.remaining(&state, 99), three.remaining(&state, 100)), (0, 1));
    assert_eq!((three.retry_at(&state, 10, 1), three.retry_at(&state, 10, 2)), (100, 110));
    for now in 20..90 {
        assert_eq!(three.charge(&mut state, now, 1), Refused);
        assert!(state.entries() <= 3 + 16);
    }
    assert_eq!((three.remaining(&state, 186), three.remaining(&state, 187)), (0, 1));
}

#[test]
fn a_smaller_limits_attempts_do_not_push_out_what_a_larger_one_counts() {
    let (ten, hundred) = (counting_refused(10, SECOND), counting_refused(100, SECOND));
    let mut state = hundred.initial_state();
    assert_eq!(hundred.charge(&mut state, START, 100), Admitted);
    for now in START..START + 500 {
        assert_eq!(ten.charge(&mut state, now, 1), Refused);
        assert_eq!(hundred.charge(&mut state, now, 1), Refused);
    }
    assert!(state.entries() <= 100 + 16);
}

#[test]
fn each_limit_holds_in_its_own_window() {
    let both = several(&[(2, 10), (3, 100)], None);
    let mut state = both.initial_state();
    let outcomes = [0, 0, 0, 10, 20].map(|now| both.charge(&mut state, now, 1));
    assert_eq!(outcomes, [Admitted, Admitted, Refused, Admitted, Refused]);
    let statuses = both.limit_statuses(&state, 10, 1, Refused);
    assert_eq!(statuses.iter().map(|one| one.remaining).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(statuses.iter().map(|one| one.retry_at).collect::<Vec<_>>(), [0, 100]);
    assert_eq!(statuses.iter().map(|one| one.reset_at).collect::<Vec<_>>(), [20, 110]);
    assert_eq!((both.limit(), both.charge(&mut state, 20, 3)), (2, Impossible));
}

#[test]
fn calls_of_one_multiple_of_the_precision_share_an_entry() {
    let logs = several(&[(5, 100), (1_000, 1_000)], Some(50));
    let mut state = logs.initial_state();
    for now in 0..5_000 {
        logs.charge(&mut state, now, 1);
        assert!(state.entries() <= 1_000 / 50 + 2, "{} at {now}", state.entries());
    }
    let mut state = logs.initial_state();
    assert_eq!(logs.charge(&mut state, 1, 5), Admitted);
    // It counts like a call at 50, so until 150.
    assert_eq!((logs.remaining(&state, 149), logs.remaining(&state, 150)), (0, 5));
    assert_eq!(logs.retry_at(&state, 60, 1), 150);
}

#[test]
fn a_step_back_within_the_window_refills_nothing() {
    let two = log(2, 100);
    let mut state = two.initial_state();
    two.charge(&mut state, 1_000, 1);
    assert_eq!(two.charge(&mut state, 950, 1), Admitted);
    assert_eq!((two.remaining(&state, 1_099), two.remaining(&state, 1_100)), (0, 2));
}

#[test]
fn a_far_step_back_locks_a_key_for_no_longer_than_a_window() {
    let two = log(2, 100);
    let mut state = two.initial_state();
    two.charge(&mut state, 1_000_000, 1);
    assert_eq!(two.charge(&mut state, 500, 1), Refused);
    assert_eq!((two.retry_at(&state, 500, 1), two.reset_at(&state, 0)), (600, 600));
    assert_eq!(state.reset_at(), 500 + 112);
    assert_eq!(two.charge(&mut state, 600, 2), Admitted);
}

#[test]
fn one_call_drops_no_more_than_a_hundred_of_100_000_entries_that_expire_at_once() {
    let most = log(MAX_LOG_LIMIT, SECOND);
    let mut state = most.initial_state();
    for _ in 0..MAX_LOG_LIMIT {
        assert_eq!(most.charge(&mut state, START, 1), Admitted);
    }
    assert_eq!(most.charge(&mut state, START + SECOND - 1, 1), Refused);
    for call in 1..=1_000 {
        let now = START + SECOND;
        assert_eq!(most.remaining(&state, now), MAX_LOG_LIMIT + 1 - call);
        assert_eq!(most.charge(&mut state, now, 1), Admitted);
        let kept = usize::try_from(MAX_LOG_LIMIT).unwrap();
        let call = usize::try_from(call).unwrap();
        assert_eq!(state.entries(), kept + call - MAX_DROPPED * (call / 16));
    }
}

#[test]
fn cumulative_numbers_begin_anew_before_they_lose_their_last_bit() {
    let ten = log(10, 100);
    let mut state = ten.initial_state();
    ten.charge(&mut state, 0, 6);
    let mut state = state.raised(MAX_SAFE - 8);
    assert_eq!(ten.charge(&mut state, 50, 2), Admitted);
    assert_eq!((state.entries(), ten.remaining(&state, 50)), (2, 2));
    assert_eq!(ten.charge(&mut state, 60, 2), Admitted);
    assert_eq!((state.entries(), ten.remaining(&state, 60)), (2, 0));
    // The units count as of then: no more is admitted, and no unit is lost.
    assert_eq!((ten.remaining(&state, 159), ten.remaining(&state, 160)), (0, 10));
}

#[test]
fn other_numbers_count_the_same_entries() {
    let (ten, three) = (log(10, 1_000), log(3, 100));
    let mut state = ten.initial_state();
    ten.charge(&mut state, 0, 10);
    assert_eq!(three.charge(&mut state, 50, 1), Refused);
    assert_eq!((three.remaining(&state, 99), three.remaining(&state, 100)), (0, 3));
    // The log is needed for the longest window, rounded up.
    assert_eq!((three.reset_at(&state, 0), state.reset_at()), (100, 1_024));
}

/// The units that count must not depend on whether a store has dropped the log.
#[test]
fn a_fresh_log_counts_for_no_policy() {
    let (short, long) = (log(3, 100), log(3, 1_000));
    let mut state = short.initial_state();
    assert_eq!(short.charge(&mut state, 0, 3), Admitted);
    assert_eq!(state.reset_at(), 112);
    assert_eq!(long.charge(&mut state.clone(), 111, 1), Refused);
    assert_eq!(long.preview(&state, 112, 3).outcome, Admitted);
    assert_eq!(long.charge(&mut state, 112, 3), Admitted);
    assert_eq!(state.reset_at(), 112 + 1_024);
    // The log remembers the policies that wrote to it until it is fresh.
    assert_eq!(short.charge(&mut state, 900, 3), Admitted);
    assert_eq!(state.reset_at(), 900 + 1_024);
}

#[test]
fn errors_name_the_option() {
    let option = |made: Result<SlidingLog, InvalidNumber>| made.unwrap_err().option;
    assert_eq!(option(SlidingLog::new(0, 1, false)), "limit");
    assert_eq!(option(SlidingLog::new(MAX_LOG_LIMIT + 1, 1, false)), "limit");
    assert_eq!(option(SlidingLog::new(1, 0, false)), "window");
    let of = |limits: &[(u64, Micros)], precision| {
        let limits: Vec<_> =
            limits.iter().map(|&(limit, window)| LogLimit { limit, window }).collect();
        option(SlidingLog::with_limits(&limits, precision))
    };
    assert_eq!(of(&[], None), "limits");
    assert_eq!(of(&[(1, 1); 9], None), "limits");
    assert_eq!(of(&[(2, 10), (2, 5)], None), "limit");
    assert_eq!(of(&[(2, 10), (3, 10)], None), "window");
    assert_eq!(of(&[(2, 10)], Some(0)), "precision");
    assert_eq!(of(&[(2, 10), (3, 20)], Some(11)), "precision");
    assert_eq!(of(&[(2, 10), (3, MAX_TIME)], Some(5)), "precision");
}

#[test]
fn units_leave_the_entry_of_their_call() {
    let ten = log(10, 100);
    let taken = |at| ChargeRecord { at, reset_at: 0, ..ChargeRecord::default() };
    let mut state = ten.initial_state();
    for now in [0, 50, 60] {
        ten.charge(&mut state, now, 3);
    }
    assert_eq!(ten.refund(&mut state.clone(), 60, 9, taken(60)), 3);
    assert_eq!(ten.refund(&mut state, 60, 2, taken(50)), 2);
    assert_eq!((state.entries(), ten.remaining(&state, 60)), (3, 3));
    // The unit at 50 and those at 60 remain at 149.
    assert_eq!((ten.remaining(&state, 149), ten.remaining(&state, 150)), (6, 7));
    assert_eq!(ten.refund(&mut state, 60, 9, taken(50)), 1, "no units of later calls");
    assert_eq!((state.entries(), ten.refund(&mut state, 60, 9, taken(50))), (2, 0));
    assert_eq!((ten.refund(&mut state, 150, 9, taken(50)), ten.remaining(&state, 150)), (0, 7));
    assert_eq!(ten.refund(&mut state, 150, 9, taken(60)), 3);
    assert_eq!(state, ten.initial_state(), "a log of which nothing is left is a new one");
}

#[test]
fn the_newest_entry_that_loses_its_units_leaves_the_log() {
    let ten = log(10, 100);
    let taken = |at| ChargeRecord { at, ..ChargeRecord::default() };
    let mut state = ten.initial_state();
    ten.charge(&mut state, 0, 3);
    let before = state.clone();
    ten.charge(&mut state, 50, 3);
    assert_eq!(ten.refund(&mut state, 60, 9, taken(50)), 3);
    assert_eq!(state, before);
}

/// So that a refund in Redis changes at most a hundred members.
#[test]
fn the_oldest_units_leave_the_log_if_many_entries_follow() {
    let many = log(1_000, 10_000);
    let taken = |at| ChargeRecord { at, ..ChargeRecord::default() };
    let mut state = many.initial_state();
    for now in 0..=200 {
        many.charge(&mut state, now, 3);
    }
    assert_eq!(many.refund(&mut state, 200, 5, taken(50)), 5);
    assert_eq!(many.remaining(&state, 10_001), 1_000 - 3 * 199, "at 1, one of three units remains");
    assert_eq!(many.refund(&mut state.clone(), 200, 9, taken(1)), 1, "none of later calls");
    assert_eq!(many.refund(&mut state, 200, 9, taken(0)), 0);
}

/// Attempts pushed out by newer ones are not refunded, whether or not they have been dropped.
#[test]
fn of_refused_attempts_at_most_the_limit_comes_back() {
    let three = counting_refused(3, 100);
    let mut state = three.initial_state();
    three.charge(&mut state, 0, 3);
    for now in 1..=4 {
        assert_eq!(three.charge(&mut state, now, 1), Refused);
    }
    assert_eq!(state.entries(), 5);
    assert_eq!(three.refund(&mut state, 10, 1, ChargeRecord::default()), 0);
    let mut state = three.initial_state();
    three.charge(&mut state, 0, 3);
    three.charge(&mut state, 1, 1);
    let taken = ChargeRecord::default();
    assert_eq!((three.refund(&mut state, 10, 1, taken), three.remaining(&state, 10)), (1, 1));
    assert_eq!(three.refund(&mut state, 10, 9, taken), 1);
}
