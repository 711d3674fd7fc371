//! Compares the engine with the crate `governor`, the usual rate limiter of Rust programs. Both
//! decide by GCRA, with the same numbers, keys and clock.
//!
//! `cargo bench -p tollgate-benches --bench governor`; add `-- --quick` for rough figures. Each
//! contender takes a short turn in every round, in a rotated order. A figure is the median over the
//! rounds, a ratio the median of the rounds' own ratios. `tests/benches/README.md` lists the differences
//! between the two.

#![allow(clippy::print_stdout, reason = "it prints tables")]

use std::cell::Cell;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use governor::clock::{Clock, DefaultClock, SystemClock as TheirSystemClock};
use governor::middleware::{NoOpMiddleware, StateInformationMiddleware as Informed, StateSnapshot};
use governor::nanos::Nanos;
use governor::state::keyed::KeyedStateStore;
use governor::{NotUntil, Quota, RateLimiter};
use tollgate::algorithm::{Algorithm as _, Gcra, Outcome};
use tollgate::clock::SystemClock;
use tollgate::key::Key;
use tollgate::memory::MemoryStore;
use tollgate::policy::Policy;
use tollgate::policy::decision::{self, Status};
use tollgate::time::{Micros, whole_millis};

const MAX_KEYS: usize = 1_000_000;

const HOUR: Micros = 3_600_000_000;
const START: Micros = 1_700_000_000_000_000;

/// Units per hour; high enough that no call is refused.
const PLENTY: u32 = 1_000_000;

/// At this interval a key spends exactly [`PLENTY`], so a single state lasts for ever.
const TIME_OF_ONE_UNIT: Micros = HOUR / PLENTY as Micros;

/// The project's target: the largest allowed ratio of tollgate's time to `governor`'s.
const AT_MOST: f64 = 2.0;

/// The prefix of the names of tollgate's contenders.
const OURS: &str = "tollgate";

/// Makes calls. The first contender of a group is tollgate.
struct Contender {
    name: &'static str,
    /// The index of tollgate's contender that does the same work.
    ours: usize,
    has_target: bool,
    turn: Box<dyn FnMut(usize)>,
}

struct Group {
    title: &'static str,
    contenders: Vec<Contender>,
}

fn contender(name: &'static str, turn: impl FnMut(usize) + 'static) -> Contender {
    Contender { name, ours: 0, has_target: !name.starts_with(OURS), turn: Box::new(turn) }
}

/// Makes calls one after the other.
fn each_time<T>(mut call: impl FnMut() -> T) -> impl FnMut(usize) {
    move |calls| {
        for _ in 0..calls {
            black_box(call());
        }
    }
}

/// Makes calls on the keys in turn.
fn each_key<T>(keys: usize, mut call: impl FnMut(&String) -> T) -> impl FnMut(usize) {
    let (keys, mut next) = (names(keys), 0);
    each_time(move || {
        let key = &keys[next];
        next = if next + 1 == keys.len() { 0 } else { next + 1 };
        call(key)
    })
}

fn names(keys: usize) -> Vec<String> {
    (0..keys).map(|number| format!("user:{number}")).collect()
}

fn gcra(limit: u32) -> Gcra {
    Gcra::new(limit.into(), HOUR, limit.into()).expect("legal numbers")
}

/// The same numbers for `governor`.
fn quota(limit: u32) -> Quota {
    let unit = Duration::from_micros(HOUR) / limit;
    let limit = NonZeroU32::new(limit).expect("a positive limit");
    Quota::with_period(unit).expect("a positive period").allow_burst(limit)
}

/// The embedded store, with half of each key's units used.
fn ours(limit: u32, keys: usize, expected: Status) -> Contender {
    let store = MemoryStore::new(MAX_KEYS, (1, 2));
    let ledger = store.open("bench", Policy::Gcra(gcra(limit))).expect("a new prefix");
    let take = move |key: &String, cost: u32| {
        ledger.take(Key::new(key).expect("a legal key"), cost.into(), &SystemClock)
    };
    for key in names(keys) {
        take(&key, limit.div_ceil(2));
    }
    assert_eq!(take(&names(1)[0], 1).status, expected);
    contender("tollgate", each_key(keys, move |key| take(key, black_box(1))))
}

/// `governor`, with half of each key's units used. It returns whether a unit was admitted, and with
/// `tells` also the remaining units or the time to wait.
fn theirs<S, C>(
    name: &'static str,
    (limit, keys): (u32, usize),
    limiter: RateLimiter<String, S, C, NoOpMiddleware<C::Instant>>,
    tells: bool,
) -> Contender
where
    S: KeyedStateStore<String> + 'static,
    C: Clock + 'static,
{
    let half = NonZeroU32::new(limit.div_ceil(2)).expect("a positive limit");
    for key in names(keys) {
        let checked = limiter.check_key_n(&key, half).expect("within the burst");
        assert!(checked.is_ok(), "{name} was to admit it");
    }
    assert_eq!(limiter.check_key(&names(1)[0]).is_ok(), limit > 1, "{name}");
    if tells {
        let limiter = limiter.with_middleware::<Informed>();
        let tell = move |key: &String| told(limiter.check_key(key), limiter.clock());
        contender(name, each_key(keys, tell))
    } else {
        contender(name, each_key(keys, move |key| limiter.check_key(key)))
    }
}

/// The remaining units, or the milliseconds to wait, rounded up, as users of `governor` compute
/// them.
fn told<C: Clock>(
    checked: Result<StateSnapshot, NotUntil<C::Instant>>,
    clock: &C,
) -> Result<u32, u128> {
    let wait = |refused: NotUntil<C::Instant>| refused.wait_time_from(clock.now());
    let told = checked.map(|state| state.remaining_burst_capacity());
    told.map_err(|refused| wait(refused).as_nanos().div_ceil(1_000_000))
}

/// Calls on keys, with the system's clock.
fn keyed(title: &'static str, numbers: (u32, usize), expected: Status) -> Group {
    let quota = quota(numbers.0);
    let dashmap = || RateLimiter::dashmap_with_clock(quota, TheirSystemClock);
    let hashmap = || RateLimiter::hashmap_with_clock(quota, TheirSystemClock);
    let own_clock = RateLimiter::dashmap_with_clock(quota, DefaultClock::default());
    let contenders = vec![
        ours(numbers.0, numbers.1, expected),
        theirs("governor, DashMap", numbers, dashmap(), false),
        theirs("governor, DashMap, tells", numbers, dashmap(), true),
        theirs("governor, Mutex<HashMap>", numbers, hashmap(), false),
        theirs("governor, Mutex<HashMap>, tells", numbers, hashmap(), true),
        Contender {
            has_target: false,
            ..theirs("governor, DashMap, clock quanta", numbers, own_clock, false)
        },
    ];
    Group { title, contenders }
}

/// A clock that advances after each reading.
struct Moving {
    next: Cell<u64>,
    step: u64,
}

impl Moving {
    fn new(step: u64) -> Self {
        Self { next: Cell::new(START), step }
    }

    fn read(&self) -> u64 {
        self.next.replace(self.next.get() + self.step)
    }
}

/// `governor` counts in nanoseconds.
impl Clock for Moving {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        self.read().into()
    }
}

/// Decisions on a single state at given times: the pure function, and `governor` without keys.
fn pure(title: &'static str, limit: u32, step: Micros, expected: Status) -> Group {
    let start = || (gcra(limit), Moving::new(step), gcra(limit).initial_state());
    let (policy, clock, mut state) = start();
    let mut take =
        move || decision::take(black_box(&policy), &mut state, clock.read(), black_box(1));
    take();
    assert_eq!(take().status, expected);
    let (policy, clock, mut state) = start();
    let mut charge = move || black_box(&policy).charge(&mut state, clock.read(), black_box(1));
    charge();
    assert_eq!(charge() == Outcome::Refused, expected == Status::Refused);
    let (policy, clock, mut state) = start();
    let tell_one = move || {
        let (policy, now) = (black_box(&policy), clock.read());
        match policy.charge(&mut state, now, black_box(1)) {
            Outcome::Admitted => Ok(policy.remaining(&state, now)),
            _ => Err(whole_millis(policy.retry_at(&state, now, 1) - now)),
        }
    };
    let limiter = || {
        let limiter = RateLimiter::direct_with_clock(quota(limit), Moving::new(step * 1_000));
        assert!(limiter.check().is_ok());
        assert_eq!(limiter.check().is_ok(), expected != Status::Refused);
        limiter
    };
    let (plain, telling) = (limiter(), limiter().with_middleware::<Informed>());
    let tell = move || told(telling.check(), telling.clock());
    let contenders = vec![
        contender("tollgate, a whole decision", each_time(take)),
        contender("tollgate, yes or no", each_time(charge)),
        contender("tollgate, tells", each_time(tell_one)),
        Contender { ours: 1, ..contender("governor, direct", each_time(move || plain.check())) },
        Contender { ours: 2, ..contender("governor, direct, tells", each_time(tell)) },
    ];
    Group { title, contenders }
}

/// Nanoseconds per call, by contender and round.
fn measure(group: &mut Group, rounds: usize, calls: usize) -> Vec<Vec<f64>> {
    let count = group.contenders.len();
    let mut times = vec![Vec::with_capacity(rounds); count];
    for round in 0..=rounds {
        for place in 0..count {
            let index = (place + round) % count;
            let start = Instant::now();
            (group.contenders[index].turn)(calls);
            let seconds = start.elapsed().as_secs_f64();
            // The first round warms up.
            if round > 0 {
                times[index]
                    .push(seconds * 1e9 / f64::from(u32::try_from(calls).unwrap_or(u32::MAX)));
            }
        }
    }
    times
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = figures.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

/// Prints the table of a group, and returns the lines of its targets.
fn report(group: &Group, times: &[Vec<f64>]) -> Vec<String> {
    println!("\n  {:<34}  ns per call    tollgate takes", group.title);
    let mut targets = Vec::new();
    for (Contender { name, ours, has_target, .. }, own) in group.contenders.iter().zip(times) {
        let ratio = median(times[*ours].iter().zip(own).map(|(ours, theirs)| ours / theirs));
        let ours = group.contenders[*ours].name;
        let told =
            if name.starts_with(OURS) { String::new() } else { format!("{ratio:>8.2} times") };
        println!("  {name:<34}  {:>11.1}    {told}", median(own.iter().copied()));
        if *has_target {
            let met = if ratio <= AT_MOST { "met" } else { "MISSED" };
            let title = group.title;
            targets.push(format!(
                "{ours} / {name}: {title}: {ratio:.2} (target: at most {AT_MOST}, {met})"
            ));
        }
    }
    targets
}

fn main() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let (rounds, calls) = if is_quick { (11, 20_000) } else { (101, 50_000) };
    println!("GCRA, beside governor (medians of {rounds} interleaved rounds of {calls} calls)");
    let mut groups = [
        pure("a given time, allowed", PLENTY, TIME_OF_ONE_UNIT, Status::Allowed),
        pure("a given time, refused", 1, 0, Status::Refused),
        keyed("10,000 keys, allowed", (PLENTY, 10_000), Status::Allowed),
        keyed("one key, refused", (1, 1), Status::Refused),
    ];
    let mut targets = Vec::new();
    for group in &mut groups {
        let times = measure(group, rounds, calls);
        targets.extend(report(group, &times));
    }
    println!();
    for target in targets {
        println!("  {target}");
    }
}
