//! What `npm run bench:guard` counts the instructions of: the pure algorithms, the embedded store's ledger, and a round
//! of calls on its way to Redis and back.
//!
//! callgrind counts what happens within [`counted`] and writes it down whenever that returns; this program prints the
//! names of the cases in the same order, each with the number of calls. Times are given and seeds are fixed. Run by
//! itself (`cargo bench --bench guard`) it counts nothing, but finds out whether all calls are decided as they should be.

#![allow(clippy::print_stdout, reason = "the names of the cases are what it is asked for")]

mod algorithms;
mod memory;
mod redis;

use std::hint::black_box;

use tollgate::algorithm::{FixedWindow, Gcra};
use tollgate::policy::Policy;
use tollgate::time::Micros;

/// When all begins: in November 2023, in the middle of an hour.
const START: Micros = 1_700_000_000_000_000;
const HOUR: Micros = 3_600_000_000;

/// Units per hour, where calls are to be admitted.
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

/// Makes so many calls under callgrind's eyes.
fn count(name: &str, calls: usize, mut make: impl FnMut()) {
    counted(&mut make);
    println!("{calls} {name}");
}

/// callgrind knows this function by its name.
#[inline(never)]
fn counted(calls: &mut dyn FnMut()) {
    calls();
    // Without anything behind the call this function would be left before it.
    black_box(());
}

fn main() {
    algorithms::count_all();
    memory::count_all();
    redis::count_all();
}
