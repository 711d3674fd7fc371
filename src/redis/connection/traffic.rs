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

/// How often idle servers are checked.
#[derive(Debug, Clone)]
pub(crate) struct IdleChecks {
    /// The interval of the checks of all servers together.
    pub(crate) interval: Duration,
    /// The number of servers that share the interval. It bounds the commands of an idle process.
    pub(crate) servers: Arc<AtomicUsize>,
}

impl IdleChecks {
    /// The interval of the checks of one server.
    pub(crate) fn interval(&self) -> Duration {
        let servers = self.servers.load(Ordering::Relaxed).max(1);
        self.interval.saturating_mul(u32::try_from(servers).unwrap_or(u32::MAX))
    }
}

/// The traffic of a connection. The sender records it, and the reconnector reads it. Times are in
/// milliseconds since `origin`.
#[derive(Debug)]
pub(crate) struct Traffic {
    origin: Instant,
    idle_checks: IdleChecks,
    /// The last call; 0 if there was none.
    called_at: AtomicU64,
    /// The last answer to a script.
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

    /// Records a call on a key.
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

    /// Records an answer to a script.
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
            let idle = Duration::from_millis(idle);
            let pause = match idle < FLOW_END {
                true => interval,
                false => (idle / 2).min(self.idle_checks.interval()).max(interval),
            };
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
        clocks.any(|(at, now)| {
            now.saturating_sub(at.load(Ordering::Relaxed)) >= millis(SUSPENSION)
        })
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The time of the day, in epoch milliseconds.
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

    fn traffic(servers: usize) -> Traffic {
        let servers = Arc::new(AtomicUsize::new(servers));
        Traffic::new(IdleChecks { interval: Duration::from_secs(15), servers })
    }

    fn paused() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime needs no resources")
    }

    /// The number of checks in a time.
    async fn checks(traffic: &Traffic, time: Duration) -> u32 {
        let end = Instant::now() + time;
        let mut count = 0;
        while Instant::now() < end {
            traffic.wait_for_check(Instant::now(), FLOW_GAP).await;
            count += 1;
        }
        count
    }

    #[test]
    fn an_idle_server_is_checked_rarely_and_several_servers_share_the_checks() {
        paused().block_on(async {
            for servers in [1, 2, 5] {
                let traffic = traffic(servers);
                let minute = Duration::from_secs(60);
                assert!(checks(&traffic, 10 * minute).await < 70, "the pace slows down");
                let checks = checks(&traffic, 10 * minute).await;
                assert!(checks.abs_diff(40 / u32::try_from(servers).unwrap()) <= 1, "{checks}");
            }
        });
    }

    #[test]
    fn calls_that_resume_are_followed_by_a_check_at_once() {
        paused().block_on(async {
            let traffic = traffic(1);
            checks(&traffic, Duration::from_secs(600)).await;
            let since = Instant::now();
            let check = traffic.wait_for_check(since, FLOW_GAP);
            let call = async {
                tokio::time::sleep(Duration::from_secs(2)).await;
                traffic.on_call(Some(b"key"));
            };
            tokio::join!(check, call);
            assert_eq!(since.elapsed().as_millis(), 2_000);
            assert_eq!(traffic.key().as_deref(), Some(&b"key"[..]));
            traffic.wait_for_check(Instant::now(), FLOW_GAP).await;
            assert_eq!(since.elapsed().as_millis(), 2_250);
        });
    }

    #[test]
    fn a_session_is_stale_after_a_suspension() {
        paused().block_on(async {
            let traffic = traffic(1);
            assert!(!traffic.is_stale());
            tokio::time::advance(Duration::from_millis(2_900)).await;
            assert!(!traffic.is_stale());
            tokio::time::advance(Duration::from_millis(100)).await;
            assert!(traffic.is_stale());
            traffic.confirm();
            assert!(!traffic.is_stale());
            // The monotonic clock has stood still.
            traffic.ran_at[1].fetch_sub(5_000, Ordering::Relaxed);
            assert!(traffic.is_stale());
        });
    }
}
