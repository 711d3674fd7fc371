//! The engine without Node: the cost of a decision without any JavaScript.
//!
//! - `algorithm`: the pure function on one state, with advancing time.
//! - `memory_given_time`: the embedded store around it (hash, lock, table), at given times.
//! - `memory_system_clock`: the same, reading the system's clock for each decision.
//! - `memory_refused`: one hot key without remaining units.
//!
//! `cargo bench -p tollgate-benches --bench engine`; add `-- --quick` for rough figures, `-- gcra`
//! for one algorithm.

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use tollgate::algorithm::{Algorithm as _, FixedWindow, Gcra, InvalidNumber, TokenBucket};
use tollgate::clock::{Clock, SystemClock};
use tollgate::key::Key;
use tollgate::memory::{MemoryLimiter, MemoryStore};
use tollgate::policy::Policy;
use tollgate::policy::decision::{self, Status};
use tollgate::time::Micros;

const KEYS: usize = 10_000;
const MAX_KEYS: usize = 1_000_000;

const HOUR: Micros = 3_600_000_000;
const START: Micros = 1_700_000_000_000_000;

/// Units per hour; high enough that no call is refused.
const LIMIT: u64 = 1_000_000;

/// At this interval a key spends exactly its limit, so a single state lasts for ever.
const TIME_OF_ONE_UNIT: Micros = HOUR / LIMIT;

fn policies(limit: u64) -> Result<[(&'static str, Policy); 3], InvalidNumber> {
    let window = FixedWindow::new(limit, HOUR)?;
    let bucket = TokenBucket::new(limit, limit, HOUR)?;
    let gcra = Gcra::new(limit, HOUR, limit)?;
    Ok([
        ("fixed_window", Policy::FixedWindow(window)),
        ("token_bucket", Policy::TokenBucket(bucket)),
        ("gcra", Policy::Gcra(gcra)),
    ])
}

/// A clock that advances by `step` after each reading.
fn moving(step: Micros) -> impl FnMut() -> Micros {
    let mut next = START;
    move || {
        let now = next;
        next += step;
        now
    }
}

fn names() -> Vec<String> {
    (0..KEYS).map(|number| format!("user:{number}")).collect()
}

fn algorithms(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("algorithm");
    group.throughput(Throughput::Elements(1));
    for (name, policy) in policies(LIMIT).expect("legal numbers") {
        let (mut state, mut now) = (policy.initial_state(), moving(TIME_OF_ONE_UNIT));
        group.bench_function(name, |bencher| {
            bencher.iter(|| decision::take(black_box(&policy), &mut state, now(), black_box(1)));
        });
        let last = decision::take(&policy, &mut state, now(), 1);
        assert_ne!(last.status, Status::Refused, "{name} was to be allowed");
    }
    group.finish();
}

/// Measures [`MemoryLimiter::take`], visiting the keys round robin.
fn take<C: Clock>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    ledger: &MemoryLimiter,
    keys: &[Key<'_>],
    mut clock: impl FnMut() -> C,
) {
    let mut next = 0;
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            let key = keys[next];
            next = if next + 1 == keys.len() { 0 } else { next + 1 };
            ledger.take(key, black_box(1), &clock())
        });
    });
}

/// Measures allowed decisions on every policy. `new_clock` creates the clock of each policy.
fn allowed<C: Clock, N: FnMut() -> C>(
    criterion: &mut Criterion,
    title: &str,
    new_clock: impl Fn() -> N,
) {
    let names = names();
    let keys: Vec<_> = names.iter().map(|name| Key::new(name).expect("a legal key")).collect();
    let mut group = criterion.benchmark_group(title);
    group.throughput(Throughput::Elements(1));
    for (name, policy) in policies(LIMIT).expect("legal numbers") {
        let store = MemoryStore::new(MAX_KEYS, (1, 2));
        let ledger = store.open("bench", policy).expect("a new prefix");
        let mut clock = new_clock();
        // A key that is half used neither runs out nor becomes fresh (and is deleted) during the
        // benchmark.
        for &key in &keys {
            ledger.take(key, LIMIT / 2, &clock());
        }
        take(&mut group, name, &ledger, &keys, &mut clock);
        let last = ledger.take(keys[0], 1, &clock());
        assert_eq!(last.status, Status::Allowed, "{name} was to be allowed");
    }
    group.finish();
}

fn refused(criterion: &mut Criterion) {
    let keys = [Key::new("user:1234").expect("a legal key")];
    let mut group = criterion.benchmark_group("memory_refused");
    group.throughput(Throughput::Elements(1));
    for (name, policy) in policies(1).expect("legal numbers") {
        let store = MemoryStore::new(MAX_KEYS, (1, 2));
        let ledger = store.open("bench", policy).expect("a new prefix");
        let mut clock = moving(0);
        ledger.take(keys[0], 1, &clock());
        take(&mut group, name, &ledger, &keys, &mut clock);
        let last = ledger.take(keys[0], 1, &clock());
        assert_eq!(last.status, Status::Refused, "{name} was to be refused");
    }
    group.finish();
}

// A function instead of `criterion_main!`, to avoid plots and warnings about their missing tools.
fn main() {
    let mut criterion = Criterion::default().without_plots().configure_from_args();
    algorithms(&mut criterion);
    allowed(&mut criterion, "memory_given_time", || moving(1));
    allowed(&mut criterion, "memory_system_clock", || || SystemClock);
    refused(&mut criterion);
    criterion.final_summary();
}
