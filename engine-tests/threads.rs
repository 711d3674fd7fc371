//! Many threads on one store: the law holds across them, and exactly the burst is admitted.

use std::sync::Arc;
use std::thread;

use tollgate::clock::{Clock, SystemClock};
use tollgate::decision::{Decision, Status};
use tollgate::key::Key;
use tollgate::policy::Policy;
use tollgate::store::memory::MemoryStore;

use crate::policies::{RateSpec, SECOND, WindowSpec};
use crate::trace::{Admitted, START, excess_over_rate, most_in_any_window};

const THREADS: usize = 8;
const CALLS: usize = 5_000;

/// Every decision that eight threads on one key get.
fn hammered(policy: &Policy, clock: impl Clock + Copy + Send + 'static) -> Vec<Decision> {
    let store = MemoryStore::new(1_000, (5, 6));
    let ledger = Arc::new(store.open("hot", policy.clone()).unwrap());
    let hammer = || {
        let ledger = Arc::clone(&ledger);
        thread::spawn(move || -> Vec<Decision> {
            (0..CALLS).map(|_| ledger.take(Key::new("hot").unwrap(), 1, &clock)).collect()
        })
    };
    let threads: Vec<_> = (0..THREADS).map(|_| hammer()).collect();
    threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
}

fn admitted(decisions: &[Decision]) -> Vec<Admitted> {
    let allowed = decisions
        .iter()
        .filter(|decision| matches!(decision.status, Status::Allowed | Status::AllowedLast));
    let mut trace: Vec<_> = allowed.map(|decision| Admitted { at: decision.at, cost: 1 }).collect();
    trace.sort_by_key(|call| call.at);
    trace
}

#[test]
fn with_the_clock_standing_still_exactly_the_burst_is_admitted() {
    let rate = RateSpec { units: 1_000, period: SECOND, burst: 777 };
    let window = WindowSpec { limit: 777, window: SECOND };
    for policy in [rate.gcra(), rate.token_bucket(), window.policy()] {
        let decisions = hammered(&policy, START);
        assert_eq!(decisions.len(), THREADS * CALLS);
        assert_eq!(admitted(&decisions).len(), 777);
        let last = decisions.iter().filter(|decision| decision.status == Status::AllowedLast);
        assert_eq!(last.count(), 1, "one call took the last unit");
    }
}

#[test]
fn by_the_system_clock_the_law_holds_across_threads() {
    let rate = RateSpec { units: 100_003, period: SECOND, burst: 10 };
    let trace = admitted(&hammered(&rate.gcra(), SystemClock));
    assert!(trace.len() >= 10);
    assert_eq!(excess_over_rate(&trace, rate.units, rate.period, rate.burst), None);

    let window = WindowSpec { limit: 50, window: 1_000 };
    let trace = admitted(&hammered(&window.policy(), SystemClock));
    assert!(trace.len() >= 50);
    assert!(most_in_any_window(&trace, window.window) < 2 * window.limit);
}
