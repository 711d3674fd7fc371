//! The traffic of a connection: when calls were made and answered, how often its server is checked,
//! and whether the process was suspended.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Calls that are rarer than this do not flow.
const FLOW_GAP: Duration = Duration::from_millis(250);

/// The time after the last call during which the server is checked as often as while calls flow.
const FLOW_END: Duration = Duration::from_secs(1);

/// If the process has not run for this long, its sessions may have ended without a notice.
const SUSPENSION: Duration = Duration::from_secs(3);

#[derive(Debug, Clone)]
pub(crate) struct IdleChecks {
    /// The interval of the checks of all servers together.
    pub(crate) interval: Duration,
    /// The number of servers that share the interval. It bounds the commands of an idle process.
    pub(crate) servers: Arc<AtomicUsize>,
}

impl IdleChecks {
    fn interval(&self) -> Duration {
        let servers = self.servers.load(Ordering::Relaxed).max(1);
        self.interval.saturating_mul(u32::try_from(servers).unwrap_or(u32::MAX))
    }

    /// The pause before the next check: `interval` while calls flow, longer with the time without.
    fn pause(&self, idle: Duration, interval: Duration) -> Duration {
        match idle < FLOW_END {
            true => interval,
            false => (idle / 2).min(self.interval()).max(interval),
        }
    }
}

/// The sender records it, the reconnector reads it. Times are in milliseconds since `origin`.
#[derive(Debug)]
pub(crate) struct Traffic {
    origin: Instant,
    idle_checks: IdleChecks,
    /// The last call; 0 if there was none.
    called_at: AtomicU64,
    answered_at: AtomicU64,
    /// When the process last ran, by a clock that may stop while the machine is suspended, and by
    /// the time of the day, which does not stop.
    ran_at: [AtomicU64; 2],
    /// A key that a recent call has used.
    key: Mutex<Option<Vec<u8>>>,
    calls_resumed: Notify,
}

impl Traffic {
    pub(crate) fn new(idle_checks: IdleChecks) -> Self {
        let traffic = Self {
            origin: Instant::now(),
            idle_checks,
            called_at: AtomicU64::default(),
            answered_at: AtomicU64::default(),
            ran_at: Default::default(),
            key: Mutex::default(),
            calls_resumed: Notify::new(),
        };
        traffic.confirm();
        traffic
    }

    fn now(&self) -> u64 {
        millis(self.origin.elapsed())
    }

    pub(crate) fn on_call(&self, key: Option<&[u8]>) {
        let now = self.now().max(1);
        let before = self.called_at.swap(now, Ordering::Relaxed);
        if before == 0 || now.saturating_sub(before) >= millis(FLOW_GAP) {
            if let Some(key) = key {
                *self.key.lock().unwrap_or_else(PoisonError::into_inner) = Some(key.to_vec());
            }
            self.calls_resumed.notify_waiters();
        }
    }

    pub(crate) fn on_answer(&self) {
        self.answered_at.store(self.now(), Ordering::Relaxed);
    }

    /// The time of the last answer to a script, or of the start.
    pub(crate) fn answered_at(&self) -> Instant {
        self.origin + Duration::from_millis(self.answered_at.load(Ordering::Relaxed))
    }

    /// A key that a recent call has used: this client may use it, and its server owns it.
    pub(crate) fn key(&self) -> Option<Vec<u8>> {
        self.key.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until a check is due: `interval` after `since` while calls flow, and later the longer
    /// there have been no calls. Calls that resume end the wait.
    pub(crate) async fn wait_for_check(&self, since: Instant, interval: Duration) {
        loop {
            let resumed = self.calls_resumed.notified();
            tokio::pin!(resumed);
            resumed.as_mut().enable();
            let idle = self.now().saturating_sub(self.called_at.load(Ordering::Relaxed));
            let pause = self.idle_checks.pause(Duration::from_millis(idle), interval);
            tokio::select! {
                () = sleep_until(since + pause) => return,
                () = resumed => {}
            }
        }
    }

    /// Records that the process runs, and that the session may be used.
    pub(crate) fn confirm(&self) {
        for (at, now) in self.ran_at.iter().zip([self.now(), time_of_day()]) {
            at.store(now, Ordering::Relaxed);
        }
    }

    /// Whether the session was not [confirmed](Self::confirm) lately, by one of the clocks. The
    /// process was suspended, or the session was not checked for long. A clock of the day that steps
    /// forward only costs a check.
    pub(crate) fn is_stale(&self) -> bool {
        let mut clocks = self.ran_at.iter().zip([self.now(), time_of_day()]);
        clocks.any(|(at, now)| now.saturating_sub(at.load(Ordering::Relaxed)) >= millis(SUSPENSION))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(not(feature = "simulation"))]
fn time_of_day() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, millis)
}

#[cfg(feature = "simulation")]
fn time_of_day() -> u64 {
    millis(crate::redis::simulation::time_of_day())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle_checks(servers: usize) -> IdleChecks {
        let servers = Arc::new(AtomicUsize::new(servers));
        IdleChecks { interval: Duration::from_secs(15), servers }
    }

    #[test]
    fn an_idle_server_is_checked_rarely_and_several_servers_share_the_checks() {
        for servers in [1, 2, 5] {
            let checks = idle_checks(servers);
            let (mut idle, mut times) = (Duration::ZERO, Vec::new());
            while idle < Duration::from_secs(1_200) {
                idle += checks.pause(idle, FLOW_GAP);
                times.push(idle);
            }
            let in_first = |end| times.iter().filter(|at| **at <= Duration::from_secs(end)).count();
            assert_eq!(in_first(1), 4, "as often as while calls flow");
            assert!(in_first(60) < 20, "less often from then on: {times:?}");
            let last_minutes = times.len() - in_first(600);
            assert!(last_minutes.abs_diff(40 / servers) <= 1, "{times:?}");
        }
    }

    #[test]
    fn calls_that_resume_end_the_wait_for_a_check() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let minutes_ago = Duration::from_secs(300);
            let mut traffic = Traffic::new(idle_checks(100));
            traffic.origin -= minutes_ago;
            let since = traffic.origin + minutes_ago;
            let check = traffic.wait_for_check(since, FLOW_GAP);
            let call = async { traffic.on_call(Some(b"key")) };
            let both = async { tokio::join!(check, call) };
            tokio::time::timeout(Duration::from_secs(30), both).await.unwrap();
            assert_eq!(traffic.key().as_deref(), Some(&b"key"[..]));
        });
    }

    #[test]
    fn a_session_is_stale_after_a_suspension_by_either_clock() {
        let mut traffic = Traffic::new(idle_checks(1));
        traffic.origin -= 2 * SUSPENSION;
        for clock in 0..2 {
            traffic.confirm();
            assert!(!traffic.is_stale());
            traffic.ran_at[clock].fetch_sub(millis(SUSPENSION), Ordering::Relaxed);
            assert!(traffic.is_stale());
        }
    }
}
