//! Each algorithm as a pure function on one state, with advancing time.

use std::hint::black_box;

use tollgate::algorithm::{
    Algorithm as _, BucketLayout, CalendarWindow, Concurrency, IntervalBucket, InvalidNumber,
    LeakyBucket, Levels, LogLimit, SlidingCounter, SlidingLog, SlidingWindow, TokenBucket,
};
use tollgate::calendar::Every;
use tollgate::policy::Policy;
use tollgate::policy::decision::{self, Status};

use crate::{HOUR, LIMIT, START, count, fixed_window, gcra};

const CALLS: usize = 1_000;

/// A steady caller takes half of the limit.
const PACE: u64 = 2 * HOUR / LIMIT;

/// Every algorithm, with `limit` units per hour.
fn policies() -> Result<[(&'static str, Policy); 11], InvalidNumber> {
    let buckets = SlidingWindow::new(LIMIT, HOUR, 10, BucketLayout::List)?;
    let calendar = CalendarWindow::new(LIMIT, Every::HOUR, "Europe/Berlin")?;
    let limits = [
        LogLimit { limit: LIMIT / 60, window: HOUR / 60 },
        LogLimit { limit: LIMIT, window: HOUR },
    ];
    Ok([
        ("gcra", gcra(LIMIT)),
        ("token bucket", Policy::TokenBucket(TokenBucket::new(LIMIT, LIMIT, HOUR)?)),
        ("leaky bucket", Policy::LeakyBucket(LeakyBucket::new(LIMIT, LIMIT, HOUR)?)),
        (
            "token bucket, intervals",
            Policy::IntervalBucket(IntervalBucket::new(Levels::full(LIMIT), LIMIT, HOUR)?),
        ),
        ("fixed window", fixed_window(LIMIT)),
        ("calendar window", Policy::CalendarWindow(calendar)),
        ("sliding counter", Policy::SlidingCounter(SlidingCounter::new(LIMIT, HOUR)?)),
        ("sliding window", Policy::SlidingWindow(buckets)),
        ("sliding log", Policy::SlidingLog(SlidingLog::new(LIMIT, HOUR, false)?)),
        ("sliding logs", Policy::SlidingLog(SlidingLog::with_limits(&limits, None)?)),
        ("concurrency", Policy::Concurrency(Concurrency::new(LIMIT, HOUR)?)),
    ])
}

pub(crate) fn count_all() {
    for (name, policy) in policies().expect("legal numbers") {
        admitted(name, &policy);
        refused(name, &policy);
    }
}

fn admitted(name: &str, policy: &Policy) {
    let (mut state, mut now) = (policy.initial_state(), START);
    let mut take = |expected: bool| {
        now += PACE;
        let decision = decision::take(black_box(policy), &mut state, now, black_box(1));
        let admitted = matches!(decision.status, Status::Allowed | Status::AllowedLast);
        assert_eq!(admitted, expected, "{name}");
    };
    // Two hours, so that windows and logs reach their steady state.
    (0..CALLS).for_each(|_| take(true));
    count(&format!("{name}, admitted"), CALLS, || (0..CALLS).for_each(|_| take(true)));
}

fn refused(name: &str, policy: &Policy) {
    let (mut state, mut now) = (policy.initial_state(), START);
    let mut take = || {
        now += 1;
        decision::take(black_box(policy), &mut state, now, black_box(1)).status
    };
    while take() != Status::Refused {}
    count(&format!("{name}, refused"), CALLS, || {
        (0..CALLS).for_each(|_| assert_eq!(take(), Status::Refused, "{name}"));
    });
}
