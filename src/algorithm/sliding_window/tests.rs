//! The sliding window, call by call.

use super::*;
use crate::algorithm::State as _;

fn sliding(limit: u64, window: Micros, buckets: u64) -> SlidingWindow {
    SlidingWindow::new(limit, window, buckets, BucketLayout::List).unwrap()
}

fn entries(state: &SlidingState) -> Vec<(Micros, u64)> {
    let Some(buckets) = &state.0 else { return Vec::new() };
    let mut before = buckets.before;
    let units = |entry: &Entry| {
        let units = entry.after.wrapping_sub(before);
        before = entry.after;
        (entry.time, units)
    };
    buckets.entries.iter().map(units).collect()
}

fn admitted(policy: &SlidingWindow, state: &mut SlidingState, now: Micros, cost: u64) {
    assert_eq!(policy.charge(state, now, cost), Outcome::Admitted, "at {now}");
}

fn refused(policy: &SlidingWindow, state: &mut SlidingState, now: Micros, cost: u64) {
    let before = state.clone();
    assert_eq!(policy.charge(state, now, cost), Outcome::Refused, "at {now}");
    assert_eq!(*state, before);
}

#[test]
fn a_bucket_counts_until_the_window_has_left_it() {
    let ten = sliding(10, 100, 10);
    let mut state = ten.initial_state();
    admitted(&ten, &mut state, 1_009, 4);
    admitted(&ten, &mut state, 1_010, 6);
    assert_eq!(entries(&state), [(1_010, 4), (1_020, 6)]);
    refused(&ten, &mut state, 1_109, 1);
    assert_eq!((ten.retry_at(&state, 1_109, 4), ten.retry_at(&state, 1_109, 5)), (1_110, 1_120));
    assert_eq!((ten.remaining(&state, 1_109), ten.remaining(&state, 1_110)), (0, 4));
    assert_eq!(state.reset_at(), 1_120);
    admitted(&ten, &mut state, 1_110, 4);
    assert_eq!(entries(&state), [(1_020, 6), (1_120, 4)]);
}

/// A described system counted only as many buckets as the window has: what was admitted at the
/// end of the oldest bucket was forgotten a bucket too early.
#[test]
fn the_bucket_that_the_window_partly_covers_counts_in_full() {
    let two = sliding(10, 20, 2);
    let mut state = two.initial_state();
    admitted(&two, &mut state, 1_009, 10);
    // [1_009, 1_029) holds both calls, and three buckets.
    refused(&two, &mut state, 1_028, 1);
    refused(&two, &mut state, 1_029, 1);
    admitted(&two, &mut state, 1_030, 10);
}

/// A described system dropped one expired bucket per request, so what had expired long ago
/// refused call after call.
#[test]
fn all_that_has_expired_is_dropped_at_once() {
    let ten = sliding(10, 100, 10);
    let mut state = ten.initial_state();
    for bucket in 0..10 {
        admitted(&ten, &mut state, 1_000 + 10 * bucket, 1);
    }
    assert_eq!(entries(&state).len(), 10);
    assert_eq!((ten.remaining(&state, 1_109), ten.remaining(&state, 1_189)), (0, 8));
    admitted(&ten, &mut state, 1_180, 8);
    assert_eq!(entries(&state), [(1_090, 1), (1_100, 1), (1_190, 8)]);
    admitted(&ten, &mut state, 9_000, 10);
    assert_eq!(entries(&state), [(9_010, 10)]);
}

#[test]
fn a_window_that_does_not_divide_is_rounded_up() {
    let three = sliding(1, 100, 3);
    assert_eq!((three.width(), three.span()), (34, 102));
    assert_eq!(sliding(1, 5, 10).span(), 10);
}

#[test]
fn a_step_back_is_no_refill_and_keeps_the_entries_in_order() {
    let ten = sliding(10, 100, 10);
    let mut state = ten.initial_state();
    admitted(&ten, &mut state, 1_000, 5);
    admitted(&ten, &mut state, 1_050, 2);
    admitted(&ten, &mut state, 960, 3);
    assert_eq!(entries(&state), [(1_010, 5), (1_060, 5)]);
    refused(&ten, &mut state, 960, 1);
    assert_eq!(ten.retry_at(&state, 960, 1), 1_110);
}

#[test]
fn what_lies_too_far_ahead_keeps_its_units_and_counts_for_a_window_and_a_bucket() {
    let ten = sliding(10, 100, 10);
    // As a clock that has jumped leaves it, or a window of a day.
    for other in [ten, sliding(10, 1_000_000, 10)] {
        let mut state = other.initial_state();
        admitted(&other, &mut state, 1_000_000, 3);
        let now = if other == ten { 1_000 } else { 1_000_000 };
        assert_eq!(ten.charge(&mut state, now, 8), Outcome::Refused);
        assert_eq!(entries(&state), [(now + 10, 3)]);
        assert_eq!((ten.retry_at(&state, now, 8), state.reset_at()), (now + 110, now + 110));
        admitted(&ten, &mut state, now, 7);
        refused(&ten, &mut state, now + 109, 1);
        admitted(&ten, &mut state, now + 110, 10);
    }
}

#[test]
fn a_key_that_settled_under_the_numbers_that_wrote_it_counts_for_nobody() {
    let (short, long) = (sliding(10, 100, 10), sliding(10, 1_000, 10));
    let mut state = short.initial_state();
    admitted(&short, &mut state, 1_000, 10);
    refused(&long, &mut state, 1_109, 1);
    assert_eq!(long.retry_at(&state, 1_109, 1), 1_110);
    admitted(&long, &mut state, 1_110, 10);
    assert_eq!(entries(&state), [(1_200, 10)]);
}

/// Were the newest entry's end less the reader's width taken for a time that has been, the
/// wide buckets of one version would make the other forget: 20 units in 1 us.
#[test]
fn the_wide_buckets_of_another_version_make_nobody_forget() {
    let (narrow, wide) = (sliding(10, 100, 10), sliding(11, 1_200, 10));
    let mut state = narrow.initial_state();
    admitted(&narrow, &mut state, 1_200, 10);
    admitted(&wide, &mut state, 1_200, 1);
    assert_eq!(narrow.remaining(&state, 1_201), 0);
    assert_eq!(narrow.charge(&mut state, 1_201, 1), Outcome::Refused);
}

#[test]
fn errors_name_the_option() {
    let new = |limit, window, buckets| {
        let made = SlidingWindow::new(limit, window, buckets, BucketLayout::Hash);
        made.map_err(|invalid| invalid.option)
    };
    assert_eq!(new(0, 1, 1), Err("limit"));
    assert_eq!(new(1, 0, 1), Err("window"));
    assert_eq!(new(1, 1, 0), Err("buckets"));
    assert_eq!(new(1, 1, 1_001), Err("buckets"));
    assert!(new(1, 1 << 50, 1).is_ok() && new(1, 1, 1_000).is_ok());
    assert_eq!(new(1, (1 << 50) + 1, 1), Err("window"));
}

#[test]
fn units_come_back_from_the_bucket_that_they_were_put_into() {
    let ten = sliding(10, 100, 10);
    let taken = |at| ChargeRecord { at, reset_at: 0 };
    let mut state = ten.initial_state();
    admitted(&ten, &mut state, 1_009, 4);
    admitted(&ten, &mut state, 1_010, 3);
    assert_eq!(ten.refund(&mut state, 1_050, 2, taken(1_010)), 2);
    assert_eq!(entries(&state), [(1_010, 4), (1_020, 1)]);
    assert_eq!(ten.refund(&mut state, 1_050, 9, taken(1_009)), 4);
    assert_eq!((entries(&state), ten.remaining(&state, 1_050)), (vec![(1_010, 0), (1_020, 1)], 9));
    assert_eq!(ten.refund(&mut state.clone(), 1_050, 9, taken(1_009)), 0, "nothing is left of it");
    assert_eq!(ten.refund(&mut state.clone(), 1_050, 9, taken(1_020)), 0, "nothing was taken then");
    assert_eq!(ten.refund(&mut state.clone(), 1_120, 9, taken(1_010)), 0, "it counts no more");
    assert_eq!(ten.refund(&mut state, 1_050, 9, taken(1_010)), 1);
    assert_eq!(state, ten.initial_state());
}
