//! Simulates the Redis path of the engine in virtual time, driven by a seed.
//!
//! README.md describes the faults and the invariants.
//!
//! ```text
//! --seeds 1000 [--from 0]   plays many seeds, and prints those that fail
//! --seed 17                 plays one seed, and prints what happens
//! ```

mod check;
mod network;
mod run;
mod scenario;
mod server;
#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use crate::run::{RunReport, run};

/// The most failing seeds that are listed.
const MAX_LISTED: usize = 20;

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Arguments {
    first: u64,
    count: u64,
    prints: bool,
}

fn arguments() -> Result<Arguments, String> {
    let usage = "usage: [--seed N | --seeds COUNT [--from N]]";
    let (mut from, mut seeds, mut one) = (0, None, None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let number = words.next().and_then(|number| number.parse::<u64>().ok());
        let number = number.ok_or_else(|| format!("{word} needs a whole number; {usage}"))?;
        match &word[..] {
            "--seed" => one = Some(number),
            "--seeds" => seeds = Some(number),
            "--from" => from = number,
            _ => return Err(format!("there is no option {word}; {usage}")),
        }
    }
    match (one, seeds) {
        (Some(_), Some(_)) => Err(format!("--seed and --seeds exclude each other; {usage}")),
        (Some(seed), None) => Ok(Arguments { first: seed, count: 1, prints: true }),
        (None, seeds) => {
            Ok(Arguments { first: from, count: seeds.unwrap_or(1_000), prints: false })
        }
    }
}

/// Plays a seed, twice if `is_repeated`: both runs must be equal.
fn violations(seed: u64, prints: bool, is_repeated: bool, calls: &AtomicU64) -> Vec<String> {
    let play = || {
        let RunReport { calls: made, mut violations, checksum, failed, commands, elapsed } =
            run(seed, prints);
        calls.fetch_add(made as u64, Ordering::Relaxed);
        if prints {
            let (failed, time) = (failed.len(), elapsed.as_secs_f64());
            println!(
                "{made} calls, {failed} failed, {commands} commands in {time:.1} s of virtual time"
            );
        }
        if is_repeated && run(seed, false).checksum != checksum {
            violations.push("the same seed gave another run".into());
        }
        violations
    };
    catch_unwind(AssertUnwindSafe(play)).unwrap_or_else(|_| vec!["the run panicked".into()])
}

fn main() -> ExitCode {
    let Arguments { first, count, prints } = match arguments() {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let started = Instant::now();
    let (next, calls) = (AtomicU64::new(first), AtomicU64::new(0));
    let failures = Mutex::new(Vec::new());
    let threads = thread::available_parallelism().map_or(1, usize::from).min(count as usize);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let found = violations(seed, prints, prints || seed % 50 == 0, &calls);
                    if !found.is_empty() {
                        locked(&failures).push((seed, found));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort();
    if prints {
        failures.iter().flat_map(|(_, found)| found).for_each(|found| println!("{found}"));
    }
    for (seed, found) in failures.iter().take(MAX_LISTED) {
        println!("seed {seed}: {} violations; the first: {}", found.len(), found[0]);
    }
    println!(
        "{count} seeds, {} calls, {:.1} s: {} failed",
        calls.into_inner(),
        started.elapsed().as_secs_f64(),
        failures.len(),
    );
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
