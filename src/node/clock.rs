//! The system's clock, read as fast as can be: every embedded decision does.

#![allow(unsafe_code, reason = "the C library's interface")]

use crate::clock::{Clock, SystemClock};
use crate::time::Micros;

/// [`SystemClock`], without what the standard library does about differences of times: 8 ns of 26.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BareSystemClock;

impl Clock for BareSystemClock {
    #[inline]
    fn now(&self) -> Micros {
        bare().map_or_else(|| SystemClock.now(), |now| now.now())
    }
}

/// The time, where there is a C library of Unix to ask; nothing before 1970.
#[cfg(unix)]
#[inline]
fn bare() -> Option<Micros> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes a time, and nothing else.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    let (seconds, nanos) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok()?);
    (status == 0).then(|| seconds.saturating_mul(1_000_000).saturating_add(nanos / 1_000))
}

#[cfg(not(unix))]
fn bare() -> Option<Micros> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_systems_clock() {
        for _ in 0..1_000 {
            let [before, now, after] =
                [SystemClock.now(), BareSystemClock.now(), SystemClock.now()];
            assert!(before <= now && now <= after, "{before} {now} {after}");
        }
    }
}
