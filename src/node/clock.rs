//! Reads of the system's clocks: a faster one of the time of the day, which every embedded decision
//! needs, and one of the time since the start.

#![allow(unsafe_code, reason = "the C library's interface")]

use std::sync::LazyLock;
use std::time::Instant;

use napi_derive::napi;

use crate::clock::{Clock, SystemClock};
use crate::time::Micros;

/// [`SystemClock`] without the standard library's conversion of time differences, which takes 8 of
/// 26 ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FastSystemClock;

impl Clock for FastSystemClock {
    #[inline]
    fn now(&self) -> Micros {
        posix_time().map_or_else(|| SystemClock.now(), |now| now.now())
    }
}

/// The time of the day, on Unix; `None` elsewhere and before 1970.
#[cfg(unix)]
#[inline]
fn posix_time() -> Option<Micros> {
    posix_micros(libc::CLOCK_REALTIME)
}

/// The microseconds of a clock; `None` below 0, or if there is no such clock.
#[cfg(unix)]
#[inline]
fn posix_micros(clock: libc::clockid_t) -> Option<Micros> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the function writes a time, and nothing else.
    let status = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let (seconds, nanos) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok()?);
    (status == 0).then(|| seconds.saturating_mul(1_000_000).saturating_add(nanos / 1_000))
}

#[cfg(not(unix))]
fn posix_time() -> Option<Micros> {
    None
}

#[cfg(not(unix))]
fn posix_micros((): ()) -> Option<Micros> {
    None
}

/// Milliseconds since any start, by a clock that never steps and that counts the suspension of the
/// machine.
#[napi(catch_unwind)]
#[must_use]
pub(super) fn elapsed_ms() -> f64 {
    let micros = posix_micros(CONTINUOUS_CLOCK).unwrap_or_else(|| {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        u64::try_from(START.elapsed().as_micros()).unwrap_or(u64::MAX)
    });
    millis(micros)
}

#[expect(clippy::cast_precision_loss, reason = "a machine does not run for 285 years")]
fn millis(micros: Micros) -> f64 {
    micros as f64 / 1_000.0
}

/// On Linux `CLOCK_MONOTONIC` stops while the machine is suspended, and `CLOCK_BOOTTIME` does not.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CONTINUOUS_CLOCK: libc::clockid_t = libc::CLOCK_BOOTTIME;
/// On macOS this is `mach_continuous_time`.
#[cfg(target_vendor = "apple")]
const CONTINUOUS_CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC_RAW;
/// On the BSDs it counts suspension.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android", target_vendor = "apple"))))]
const CONTINUOUS_CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;
/// On Windows [`Instant`] is the performance counter, which counts suspension.
#[cfg(not(unix))]
const CONTINUOUS_CLOCK: () = ();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_time_never_decreases() {
        let around = Instant::now();
        let start = elapsed_ms();
        std::thread::sleep(std::time::Duration::from_millis(3));
        let elapsed = elapsed_ms() - start;
        let most = around.elapsed().as_secs_f64() * 1_000.0;
        // The clocks may differ by the time for which the machine was suspended.
        assert!(elapsed >= 3.0 && elapsed < most + 3_000.0, "{elapsed} of {most}");
    }

    #[test]
    fn it_is_the_systems_clock() {
        for _ in 0..1_000 {
            let [before, now, after] =
                [SystemClock.now(), FastSystemClock.now(), SystemClock.now()];
            assert!(before <= now && now <= after, "{before} {now} {after}");
        }
    }
}
