//! The sliding counter, call by call.

use super::*;

fn counter(limit: u64, window_ms: u64) -> SlidingCounter {
    SlidingCounter::new(limit, window_ms * MICROS_PER_MILLI).unwrap()
}

fn state(ends_ms: u64, current: u64, previous: u64, window_ms: u64) -> CounterState {
    CounterState { ends_ms, current, previous, window_ms }
}

#[test]
fn windows_are_those_of_the_epochs_grid() {
    let two = counter(2, 1_000);
    let mut kept = two.initial_state();
    assert_eq!(two.charge(&mut kept, 1_999_999, 2), Outcome::Admitted);
    assert_eq!(kept, state(2_000, 2, 0, 1_000));
    assert_eq!(two.charge(&mut kept, 1_999_999, 1), Outcome::Refused);
    assert_eq!(two.retry_at(&kept, 1_999_999, 1), 2_500_000);
    assert_eq!(two.charge(&mut kept, 2_499_999, 1), Outcome::Refused);
    assert_eq!(kept, state(2_000, 2, 0, 1_000), "a refused call rolls nothing on");
    assert_eq!(two.charge(&mut kept, 2_500_000, 1), Outcome::Admitted);
    assert_eq!(kept, state(3_000, 1, 2, 1_000));
}

#[test]
fn the_older_window_fades_and_is_rounded_up() {
    let ten = counter(10, 1_000);
    let kept = state(2_000, 0, 10, 1_000);
    for (now, used) in [
        (1_000_000, 10),
        (1_000_999, 10),
        (1_100_000, 9),
        (1_100_001, 9),
        (1_101_000, 9),
        (1_199_999, 9),
        (1_200_000, 8),
        (1_999_999, 1),
        (2_000_000, 0),
    ] {
        assert_eq!(ten.remaining(&kept, now), 10 - used, "{now}");
    }
}

#[test]
fn after_two_windows_a_key_is_as_if_never_used() {
    let ten = counter(10, 1_000);
    let mut kept = ten.initial_state();
    ten.charge(&mut kept, 1_500_000, 10);
    assert_eq!(kept.reset_at(), 3_000_000);
    assert_eq!(ten.remaining(&kept, 2_999_999), 9);
    assert_eq!(ten.remaining(&kept, 3_000_000), 10);
}

#[test]
fn a_cost_waits_for_the_window_after_when_its_own_has_no_room() {
    let ten = counter(10, 1_000);
    let mut kept = state(2_000, 8, 2, 1_000);
    assert_eq!(ten.charge(&mut kept, 1_000_000, 1), Outcome::Refused);
    assert_eq!(ten.retry_at(&kept, 1_000_000, 1), 1_500_000);
    assert_eq!(ten.retry_at(&kept, 1_000_000, 2), 2_000_000);
    assert_eq!(ten.retry_at(&kept, 1_000_000, 3), 2_125_000);
    assert_eq!(ten.retry_at(&kept, 1_000_000, 10), 3_000_000);
}

#[test]
fn a_step_back_into_the_window_before_refills_nothing() {
    let ten = counter(10, 1_000);
    let mut kept = state(2_000, 4, 5, 1_000);
    assert_eq!(ten.remaining(&kept, 999_000), 1);
    assert_eq!(ten.charge(&mut kept, 1_000, 1), Outcome::Admitted);
    assert_eq!(kept, state(2_000, 5, 5, 1_000));
    assert_eq!(ten.charge(&mut kept, 0, 1), Outcome::Refused);
    assert_eq!(ten.retry_at(&kept, 0, 1), 1_200_000);
}

#[test]
fn a_longer_step_back_locks_a_key_for_no_longer_than_two_windows() {
    let ten = counter(10, 1_000);
    let mut kept = state(3_000, 1, 0, 1_000);
    assert_eq!(ten.charge(&mut kept, 999_999, 1), Outcome::Refused);
    assert_eq!(kept, state(1_000, 10, 0, 1_000));
    assert_eq!(ten.charge(&mut kept, 2_000_000, 10), Outcome::Admitted);
}

#[test]
fn another_length_takes_the_used_units_along_when_a_call_is_admitted() {
    let (seconds, minutes) = (counter(10, 1_000), counter(20, 60_000));
    let mut kept = state(2_000, 3, 5, 1_000);
    // 3 and 2.5 of 5 are left at half of the second.
    assert_eq!(minutes.remaining(&kept, 1_500_000), 14);
    assert_eq!(minutes.charge(&mut kept, 1_500_000, 15), Outcome::Refused);
    assert_eq!(kept, state(2_000, 3, 5, 1_000));
    assert_eq!(minutes.charge(&mut kept, 1_500_000, 14), Outcome::Admitted);
    assert_eq!(kept, state(60_000, 20, 0, 60_000));
    assert_eq!(seconds.charge(&mut kept, 1_500_000, 1), Outcome::Refused);
    // 9 of 20 are left after 55 % of the next minute.
    assert_eq!(seconds.retry_at(&kept, 1_500_000, 1), 93_000_000);
}

#[test]
fn what_a_window_cannot_count_is_not_asked_of_it() {
    let (large, long) = (counter(MAX_SAFE, 1), counter(10, MAX_SAFE / 10_000));
    let ends_ms = 5 * long.window_ms();
    let mut kept = state(ends_ms, 7, 0, long.window_ms());
    assert_eq!(large.charge(&mut kept, 0, MAX_SAFE), Outcome::Refused);
    assert_eq!(kept.current, 10_000);
    assert_eq!(large.charge(&mut kept, 0, MAX_SAFE - 10_000), Outcome::Admitted);
    assert_eq!(kept, state(1, MAX_SAFE, 0, 1));
    assert_eq!(long.charge(&mut kept, 1_000, 1), Outcome::Refused);
    assert_eq!(long.retry_at(&kept, 1_000, 1), 2_000);
}

#[test]
fn errors_name_the_option_and_the_rule() {
    assert_eq!(SlidingCounter::new(0, 1_000).unwrap_err().option, "limit");
    assert_eq!(SlidingCounter::new(1, 0).unwrap_err().option, "window");
    let part = SlidingCounter::new(1, 1_500).unwrap_err();
    assert_eq!(part.to_string(), "window must be in whole milliseconds");
    assert!(SlidingCounter::new(MAX_SAFE, 1_000).is_ok());
    let large = SlidingCounter::new(MAX_SAFE, 2_000).unwrap_err();
    assert_eq!(large.option, "limit");
    assert!(large.rule.contains("below 2^53"));
}

#[test]
fn units_come_back_within_the_window_that_they_were_taken_in() {
    let ten = counter(10, 1_000);
    let taken = |at| ChargeRecord { at, reset_at: 0 };
    let mut kept = state(2_000, 6, 4, 1_000);
    assert_eq!(ten.refund(&mut kept, 1_500_000, 3, taken(1_000_000)), 3);
    assert_eq!(kept, state(2_000, 3, 4, 1_000));
    for (now, at) in [(1_500_000, 999_999), (2_000_000, 1_999_999), (2_000_000, 2_000_000)] {
        assert_eq!(ten.refund(&mut kept, now, 1, taken(at)), 0, "{at} at {now}");
    }
    assert_eq!(counter(10, 500).refund(&mut kept, 1_500_000, 1, taken(1_500_000)), 0);
    assert_eq!(ten.refund(&mut kept, 1_999_999, 9, taken(1_000_000)), 3);
    assert_eq!(kept, state(2_000, 0, 4, 1_000), "what fades does not come back");
}
