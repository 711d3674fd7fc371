//! The calls whose instructions `npm run bench:guard` counts: the pure algorithms, the embedded
//! store, and a batch of calls on its way to Redis and back.
//!
//! callgrind counts the instructions within [`counted`], and writes a file whenever it returns.
//! This program prints the names of the cases in the same order, each with the number of calls.
//! Times are given and seeds are fixed. Without callgrind (`cargo bench --bench guard`) it counts
//! nothing, but checks the decisions of all calls.

#![allow(clippy::print_stdout, reason = "the names of the cases are what it is asked for")]

mod algorithms;
mod memory;
mod redis;

use std::hint::black_box;

use tollgate::algorithm::{FixedWindow, Gcra};
use tollgate::policy::Policy;
use tollgate::time::Micros;

/// The first time: in November 2023, in the middle of an hour.
const START: Micros = 1_700_000_000_000_000;
const HOUR: Micros = 3_600_000_000;

/// Units per hour for calls that must be admitted.
const LIMIT: u64 = 1_000;

fn gcra(limit: u64) -> Policy {
    Policy::Gcra(Gcra::new(limit, HOUR, limit).expect("legal numbers"))
}

fn fixed_window(limit: u64) -> Policy {
    Policy::FixedWindow(FixedWindow::new(limit, HOUR).expect("legal numbers"))
}

fn names() -> Vec<String> {
    (0..1_000).map(|number| format!("user:{number}")).collect()
}

/// Makes the given number of calls while callgrind counts.
fn count(name: &str, calls: usize, mut make: impl FnMut()) {
    counted(&mut make);
    println!("{calls} {name}");
}

/// callgrind finds this function by its name.
#[inline(never)]
fn counted(calls: &mut dyn FnMut()) {
    calls();
    // The code after the call prevents a tail call, which would leave this function early.
    black_box(());
}

fn main() {
    algorithms::count_all();
    memory::count_all();
    redis::count_all();
}
