//! Scheduled reservations obey the law of the rate, are granted at exactly the promised time, and
//! leave no trace when they are cancelled.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::{
    Algorithm as _, ChargeRecord, KeyState as _, MAX_WAIT, Outcome, RateBased as _,
    ScheduledReservation, TokenBucket,
};

use crate::algorithm::buckets::{BucketSpec, any_versions};
use crate::laws::min_admission::any_slow_rate;
use crate::laws::trace::{START, Step, any_trace};
use crate::policy::specs::{RateSpec, SECOND, any_rate};

const STEPS: usize = 200;

fn bucket(spec: BucketSpec) -> TokenBucket {
    let RateSpec { units, period, .. } = spec.rate;
    TokenBucket::with_levels(spec.levels(), units, period).unwrap()
}

fn gcra(rate: RateSpec) -> TokenBucket {
    bucket(BucketSpec { rate, initial: rate.burst, debt: 0 })
}

/// An event: a take, the booking of a slot, or a refund (with units below 0).
#[derive(Debug, Clone)]
struct Event {
    at: u64,
    units: i128,
    booking: Option<ScheduledReservation>,
}

/// The action of a step: most steps wait for a slot, some take, some refund a take or cancel a
/// booking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Wait { later: u64 },
    Take,
    Refund,
    Unbook,
}

fn act(step: &Step) -> Act {
    match step.choice / 4 {
        0..6 => Act::Wait { later: 0 },
        // Another policy may have a later slot.
        6..8 => Act::Wait { later: u64::try_from(step.choice).unwrap() * SECOND / 50 },
        8..11 => Act::Take,
        11..13 => Act::Refund,
        _ => Act::Unbook,
    }
}

/// Runs a trace with policy versions in turn and a clock that never steps back.
fn run(versions: &[TokenBucket], trace: &[Step]) -> Result<Vec<Event>, TestCaseError> {
    let (mut now, mut retry_at) = (START, START);
    let mut state = versions[0].initial_state();
    let mut events: Vec<Event> = Vec::new();
    for step in trace {
        let policy = &versions[step.choice % versions.len()];
        now = step.time.onward_from(now, state.reset_at(), retry_at);
        let cost = step.cost.of(policy.capacity());
        policy.normalize(&mut state, now);
        let before = state.clone();
        let mut happened = |at, units, booking| events.push(Event { at, units, booking });
        match act(step) {
            Act::Wait { later } => {
                let Some(own) = policy.rate().slot(&state, now, cost) else {
                    prop_assert!(cost > policy.capacity());
                    continue;
                };
                let admits = |at| policy.outcome(&state, at, cost) == Outcome::Admitted;
                prop_assert!(own >= now && admits(own) && (own == now || !admits(own - 1)));
                let slot = own + later;
                let booking = policy.rate().schedule(&mut state, now, cost, slot);
                prop_assert_eq!(booking.is_some(), slot <= now + MAX_WAIT, "{} at {}", slot, now);
                prop_assert_eq!(booking.is_none(), before == state);
                if booking.is_some() {
                    happened(slot, i128::from(cost), booking);
                }
                retry_at = own;
            }
            Act::Take => match policy.charge(&mut state, now, cost) {
                Outcome::Admitted => happened(now, i128::from(cost), None),
                _ => retry_at = policy.retry_at(&state, now, 1),
            },
            Act::Refund => {
                let taken = ChargeRecord { at: now, reset_at: now, ..ChargeRecord::default() };
                let given = policy.refund(&mut state, now, cost, taken);
                prop_assert_eq!(given == 0, before == state);
                if given > 0 {
                    happened(now, -i128::from(given), None);
                }
            }
            Act::Unbook => {
                let Some(last) = events.pop() else { continue };
                let is_back = match &last.booking {
                    Some(booking) => policy.rate().cancel(&mut state, booking),
                    None => false,
                };
                if !is_back {
                    prop_assert!(before == state);
                    events.push(last);
                }
            }
        }
        // A cancelled slot may leave a key that has been reset since.
        policy.normalize(&mut state, now);
        let remaining = policy.remaining(&state, now);
        let admits = |cost| policy.outcome(&state, now, cost) == Outcome::Admitted;
        prop_assert!(admits(remaining) && !admits(remaining + 1));
    }
    Ok(events)
}

/// Slots and calls are in the order of their times, and admit no more than the law allows.
fn law(specs: &[BucketSpec], trace: &[Step]) -> TestCaseResult {
    let versions: Vec<TokenBucket> = specs.iter().map(|&spec| bucket(spec)).collect();
    let events = run(&versions, trace)?;
    prop_assert!(events.is_sorted_by_key(|event| event.at), "{:?}", events);
    let speed = |spec: &BucketSpec| (spec.rate.units, spec.rate.period);
    let faster = |one: (u64, u64), other: (u64, u64)| {
        let first = u128::from(one.0) * u128::from(other.1);
        if first >= u128::from(other.0) * u128::from(one.1) { one } else { other }
    };
    let (units, period) = specs.iter().map(speed).reduce(faster).unwrap();
    let burst = specs.iter().map(|spec| spec.rate.burst + spec.debt).max().unwrap();
    for (index, first) in events.iter().enumerate() {
        let mut sum = 0;
        for last in &events[index..] {
            sum += last.units;
            let drained = u128::from(last.at - first.at) * u128::from(units) / u128::from(period);
            let bound = i128::from(burst) + i128::try_from(drained).unwrap();
            prop_assert!(sum <= bound, "{} from {} to {}", sum, first.at, last.at);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(crate::cases::cases(500))]

    #[test]
    fn slots_obey_the_law(spec in any_versions(1..2), trace in any_trace(STEPS)) {
        law(&spec[..1], &trace)?;
    }

    #[test]
    fn slots_under_versions_that_take_turns_obey_the_law(
        specs in any_versions(2..5),
        trace in any_trace(STEPS),
    ) {
        law(&specs, &trace)?;
    }

    /// Rates of similar speed, so that calls of several versions wait at the same time.
    #[test]
    fn slots_under_like_versions_obey_the_law(
        rates in prop::collection::vec((1..12_u64, 1..12_u64, 0..3_u64), 2..4),
        trace in any_trace(STEPS),
    ) {
        let spec = |(units, burst, debt)| {
            let rate = RateSpec { units, period: SECOND, burst };
            BucketSpec { rate, initial: burst, debt }
        };
        let specs: Vec<BucketSpec> = rates.into_iter().map(spec).collect();
        law(&specs, &trace)?;
    }

    /// The burst immediately, then each unit at the first microsecond at which it is due.
    #[test]
    fn those_who_come_together_go_on_when_each_is_due(rate in any_slow_rate(), callers in 1..100_u64) {
        let policy = gcra(rate);
        let mut state = policy.initial_state();
        policy.charge(&mut state, START, rate.burst);
        for caller in 1..=callers {
            let due = (u128::from(caller) * u128::from(rate.period)).div_ceil(u128::from(rate.units));
            let due = START + u64::try_from(due).unwrap();
            prop_assert_eq!(policy.rate().slot(&state, START, 1), Some(due), "caller {}", caller);
            let booking = policy.rate().schedule(&mut state, START, 1, due);
            if due > START + MAX_WAIT {
                prop_assert!(booking.is_none());
                break;
            }
            prop_assert!(booking.is_some());
        }
    }

    /// A burst of one at a rate that divides evenly.
    #[test]
    fn slots_of_single_units_are_an_exact_progression(
        interval in 1..10 * SECOND,
        gaps in prop::collection::vec(0..10 * SECOND, 1..200),
    ) {
        let policy = gcra(RateSpec { units: 1, period: interval, burst: 1 });
        let (mut state, mut now, mut free) = (policy.initial_state(), START, START);
        for gap in gaps {
            now += gap % (2 * interval);
            free = free.max(now);
            policy.normalize(&mut state, now);
            prop_assert_eq!(policy.rate().slot(&state, now, 1), Some(free));
            if policy.rate().schedule(&mut state, now, 1, free).is_some() {
                free += interval;
            }
        }
    }

    /// In reverse order, all cancellations succeed and leave nothing. In any other order, only the
    /// latest booking can be cancelled.
    #[test]
    fn what_is_given_back_is_as_if_it_had_never_been_booked(
        specs in any_versions(1..4),
        calls in prop::collection::vec((1..8_u64, 0..4_usize, 0..2_u64), 1..30),
        first in 0..30_usize,
    ) {
        let versions: Vec<TokenBucket> = specs.iter().map(|&spec| bucket(spec)).collect();
        let mut state = versions[0].initial_state();
        versions[0].charge(&mut state, START, 1);
        let taken = state.clone();
        let mut booked = Vec::new();
        for (cost, version, later) in calls {
            let policy = &versions[version % versions.len()];
            let cost = cost.min(policy.capacity());
            policy.normalize(&mut state, START);
            let slot = policy.rate().slot(&state, START, cost).unwrap();
            let before = state.clone();
            if let Some(booking) = policy.rate().schedule(&mut state, START, cost, slot + later * SECOND) {
                prop_assert_eq!((&booking.before, &booking.after), (&before, &state));
                booked.push((version % versions.len(), booking));
            }
        }
        if let Some((version, booking)) = booked.get(first)
            && first + 1 < booked.len()
        {
            let before = state.clone();
            prop_assert!(!versions[*version].rate().cancel(&mut state, booking));
            prop_assert_eq!(before, state.clone());
        }
        // Versions that begin low record the first call. A cancellation does not undo that.
        for (version, booking) in booked.into_iter().rev() {
            if state == booking.after {
                prop_assert!(versions[version].rate().cancel(&mut state, &booking));
                prop_assert_eq!(&state, &booking.before);
            }
        }
        prop_assert!(versions.len() > 1 || state == taken);
    }

    // promise: locks-after-clock-step
    /// After a step back of the clock, waiting calls keep their slots. After a long step back the
    /// key is fully used, so it is locked for no longer than the longest wait and the time to full.
    #[test]
    fn a_step_back_locks_a_key_for_no_longer_than_a_wait_and_the_time_to_full(
        rate in any_rate(),
        calls in 0..100_u64,
        back in prop_oneof![0..SECOND, 0..2 * MAX_WAIT, 0..START],
        other in any_rate(),
    ) {
        let (policy, other) = (gcra(rate), gcra(other));
        let mut state = policy.initial_state();
        policy.charge(&mut state, START, rate.burst);
        for _ in 0..calls {
            let slot = policy.rate().slot(&state, START, 1).unwrap();
            policy.rate().schedule(&mut state, START, 1, slot);
        }
        let now = START - back;
        other.normalize(&mut state, now);
        let full = policy.rate().full().micros + 1;
        prop_assert!(state.reset_at() <= now + MAX_WAIT + full);
        prop_assert!(other.rate().slot(&state, now, 1).unwrap() <= now + MAX_WAIT + full);
        if back > MAX_WAIT {
            prop_assert!(state.reset_at() <= now + full);
        }
    }
}
