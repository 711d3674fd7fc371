//! The core of the rates, call by call.

use super::*;

const NAMES: RateOptions = RateOptions { units: "limit", period: "period", burst: "burst" };

fn rate(units: u64, period: Micros, burst: u64) -> Rate {
    Rate::new(&NAMES, units, period, burst).unwrap()
}

/// Charges a fresh key, or a key with the given state.
fn charged(rate: &Rate, state: Option<RateState>, now: Micros, cost: u64) -> RateState {
    let mut state = state.unwrap_or(rate.initial_state());
    assert_eq!(rate.charge(&mut state, now, cost), Outcome::Admitted);
    state
}

fn refused(rate: &Rate, mut state: RateState, now: Micros, cost: u64) -> RateState {
    assert_eq!(rate.charge(&mut state, now, cost), Outcome::Refused);
    state
}

#[test]
fn seven_per_second_drain_without_drift() {
    let rate = rate(7, 1_000_000, 7);
    let state = (0..7).fold(rate.initial_state(), |state, _| charged(&rate, Some(state), 9, 1));
    // Seven sevenths of a second are a second, without a remaining part.
    assert_eq!(state.arrival, Arrival { micros: 1_000_009, part: 0 });
}

#[test]
fn a_cost_is_as_many_units_one_by_one() {
    let rate = rate(1_001, 1_000_000, 500);
    let at_once = charged(&rate, None, 5, 77);
    let one_by_one =
        (0..77).fold(rate.initial_state(), |state, _| charged(&rate, Some(state), 5, 1));
    assert_eq!(at_once, one_by_one);
}

#[test]
fn illegal_numbers_are_named() {
    let years = |burst| Rate::new(&NAMES, 1, 86_400_000_000, burst).unwrap_err();
    assert_eq!(years(100_000).option, "burst");
    assert!(years(100_000).rule.contains("142 years"));
    let carry = Rate::new(&NAMES, MAX_SAFE, 1_000, MAX_SAFE).unwrap_err();
    assert!(carry.rule.contains("below 2^53"), "{carry}");
    assert_eq!(Rate::new(&NAMES, 0, 1, 1).unwrap_err().option, "limit");
    assert_eq!(Rate::new(&NAMES, 1, 0, 1).unwrap_err().option, "period");
    assert_eq!(Rate::new(&NAMES, 1, 1, 0).unwrap_err().option, "burst");
}

#[test]
fn a_clock_step_back_locks_a_key_for_no_longer_than_the_horizon() {
    let rate = rate(10, 1_000_000, 10);
    let year = 31_536_000_000_000;
    let back = refused(&rate, charged(&rate, None, year, 3), 0, 1);
    // The repair stays although the call was refused: after the time to full the key is full.
    assert_eq!(back.arrival, Arrival { micros: 1_000_000, part: 0 });
    charged(&rate, Some(back), 1_000_000, 10);
}

#[test]
fn a_smaller_burst_does_not_forget_what_a_larger_one_admitted() {
    let (large, small) = (rate(10, 1_000_000, 100), rate(10, 1_000_000, 10));
    let spent = charged(&large, None, 0, 100);
    let seen = refused(&small, spent.clone(), 0, 1);
    assert_eq!(seen, spent);
    refused(&large, spent, 0, 1);
    // 91 of the 100 units must drain before the small policy admits one more.
    assert_eq!(small.retry_at(&seen, 0, 1), 9_100_000);
}

#[test]
fn changed_numbers_keep_the_used_units_rounded_up() {
    let (before, after) = (rate(10, 1_000_000, 10), rate(1, 1_000_000, 8));
    let state = charged(&before, None, 0, 4);
    // At 50 ms 3.5 units remain, and count as 4 of 8.
    assert_eq!(after.remaining(&state, 50_000), 4);
    let arrival = charged(&after, Some(state), 50_000, 4).arrival;
    assert_eq!(arrival, Arrival { micros: 8_050_000, part: 0 });
}

/// The refund of a call of `cost` units on an unused key, at the time `at`.
fn refunded(
    rate: &Rate,
    state: &mut RateState,
    now: Micros,
    units: u64,
    (at, cost): (Micros, u64),
) -> u64 {
    let reset_at = at + rate.time_of(cost).micros + 1_000;
    rate.refund(state, now, units, ChargeRecord { at, reset_at, cost, ..ChargeRecord::default() })
}

#[test]
fn what_is_given_back_at_once_leaves_what_was_before() {
    let rate = rate(7, 1_000_000, 7);
    let before = charged(&rate, None, 9, 2);
    let mut state = charged(&rate, Some(before.clone()), 9, 3);
    assert_eq!(refunded(&rate, &mut state, 9, 3, (9, 3)), 3);
    assert_eq!(state, before);
}

#[test]
fn at_most_what_has_not_drained_comes_back() {
    let rate = rate(10, 1_000_000, 10);
    let mut state = charged(&rate, None, 0, 4);
    // 2.5 units have drained. Of the remaining 1.5, two come back, one of them in part.
    assert_eq!(refunded(&rate, &mut state, 250_000, 4, (0, 4)), 2);
    assert_eq!((state.reset_at(), rate.remaining(&state, 250_000)), (250_000, 10));
    let again = ChargeRecord { reset_at: 401_000, cost: 4, mark: 2, ..ChargeRecord::default() };
    assert_eq!(rate.refund(&mut state, 250_000, 3, again), 0);
}

// promise: refund-still-charged
/// Of two calls of 5 units, those of the first have drained at half a second.
#[test]
fn at_most_the_calls_own_units_come_back() {
    let rate = rate(10, 1_000_000, 10);
    let state = charged(&rate, Some(charged(&rate, None, 0, 5)), 0, 5);
    let first = ChargeRecord { reset_at: 501_000, cost: 5, ..ChargeRecord::default() };
    let refunded = |now| {
        let mut state = state.clone();
        (rate.refund(&mut state, now, 5, first), state.arrival.micros)
    };
    assert_eq!(refunded(0), (5, 500_000));
    assert_eq!(refunded(200_000), (3, 700_000));
    // Half a unit of it remains.
    assert_eq!(refunded(450_000), (1, 950_000));
    assert_eq!(refunded(500_000), (0, 1_000_000));
}

/// For a key that lingers, a decision reports when the key is dropped: a day after it is full.
#[test]
fn what_lingers_gives_nothing_back_once_it_has_drained() {
    let levels = Levels { capacity: 10, initial: 0, debt: 0 };
    let rate = Rate::with_levels(&NAMES, 10, 1_000_000, levels).unwrap();
    let mut begun = rate.initial_state();
    rate.normalize(&mut begun, 0);
    let state = charged(&rate, Some(begun), 2_000_000, 5);
    let taken = ChargeRecord {
        at: 2_000_000,
        reset_at: state.reset_at(),
        cost: 5,
        ..ChargeRecord::default()
    };
    assert_eq!(taken.reset_at, 2_500_000 + LINGER);
    assert_eq!(rate.refund(&mut state.clone(), 2_400_000, 5, taken), 1);
    assert_eq!(rate.refund(&mut state.clone(), 2_500_000, 5, taken), 0);
}

#[test]
fn units_come_back_in_the_numbers_that_they_were_written_with() {
    let (before, after) = (rate(10, 1_000_000, 10), rate(1, 1_000_000, 8));
    let mut state = charged(&before, None, 0, 6);
    let taken = ChargeRecord { reset_at: 601_000, cost: 6, ..ChargeRecord::default() };
    assert_eq!(after.refund(&mut state, 50_000, 2, taken), 2);
    assert_eq!(state.arrival, Arrival { micros: 400_000, part: 0 });
    assert_eq!((state.numbers.period, after.remaining(&state, 50_000)), (100_000, 4));
}
