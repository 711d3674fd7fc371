//! Read ownership of a socket: the runtime or the event loop. See the [parent module](super) for
//! the states.
//!
//! If the runtime reads an answer, it must then wake the event loop's thread: two wake-ups for
//! each answer, one after the other. So the event loop *claims* the socket and watches it itself.
//! A claimed socket is not registered with the runtime. The driver reads it only after a
//! notification that it may be readable. A watchdog sends that notification if the event loop is
//! too busy to.

#![cfg_attr(not(unix), expect(dead_code, reason = "only unix sockets can be claimed"))]

#[cfg(unix)]
use std::io;
#[cfg(unix)]
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::redis::inline_io::inline_task::{InlineTask, PollGuard};
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::sync::{Notify, sleep};

/// The interval at which the watchdog checks whether the event loop has read the socket.
const WATCHDOG_INTERVAL: Duration = Duration::from_millis(5);

/// After this number of intervals in a row without such a read, the watchdog releases the socket.
const MAX_MISSED_INTERVALS: u32 = if cfg!(tollgate_loom) { 2 } else { 20 };

/// The read ownership of a socket, shared by the event loop, the watchdog and the socket itself.
#[derive(Debug)]
pub(crate) struct ReadOwnership {
    is_claimed: AtomicBool,
    /// Whether there may be something to read.
    may_be_readable: AtomicBool,
    /// The number of times the event loop has read the socket.
    reads: AtomicU32,
    claimed: Notify,
    /// A duplicate of the socket, from which the event loop's duplicates are made.
    #[cfg(unix)]
    socket: OwnedFd,
}

impl ReadOwnership {
    #[cfg(unix)]
    pub(crate) fn new(socket: &impl AsFd) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            is_claimed: AtomicBool::new(false),
            may_be_readable: AtomicBool::new(true),
            reads: AtomicU32::new(0),
            claimed: Notify::new(),
            socket: socket.as_fd().try_clone_to_owned()?,
        }))
    }

    /// A duplicate of the socket, for the event loop to watch.
    #[cfg(unix)]
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// Gives the socket to the event loop, which must call [`on_readable`](Self::on_readable)
    /// whenever the socket is readable.
    pub(crate) fn claim(&self) {
        if !self.is_claimed.swap(true, Ordering::SeqCst) {
            self.claimed.notify_one();
        }
    }

    pub(crate) fn is_claimed(&self) -> bool {
        self.is_claimed.load(Ordering::SeqCst)
    }

    pub(crate) fn release(&self) {
        self.is_claimed.store(false, Ordering::SeqCst);
    }

    /// The event loop has found the socket readable: the driver reads it on this thread.
    pub(crate) fn on_readable(&self, driver: &mut PollGuard<'_>) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.mark_readable();
        driver.wake();
        driver.poll_while_woken();
    }

    pub(crate) fn request_read(&self, driver: &InlineTask) {
        self.mark_readable();
        driver.wake();
    }

    /// Makes the driver's next poll try to read.
    pub(crate) fn mark_readable(&self) {
        // A swap, because loom does not order a store with the swap of `start_read`.
        self.may_be_readable.swap(true, Ordering::SeqCst);
    }

    /// Whether a poll of the driver must try to read a claimed socket. If so, the socket counts as
    /// drained: a notification during the read is about the next one.
    #[cfg(unix)]
    pub(crate) fn start_read(&self) -> bool {
        self.may_be_readable.swap(false, Ordering::SeqCst)
    }

    /// The watchdog of one session: while the event loop does not read a claimed socket, it makes
    /// the runtime read, and after [`MAX_MISSED_INTERVALS`] it releases the socket.
    pub(crate) async fn run_watchdog(self: Arc<Self>, driver: Weak<InlineTask>) {
        while self.watch_claim(&driver).await.is_some() {}
    }

    /// Waits for a claim, and watches it until it is released. `None` if the session has ended.
    pub(super) async fn watch_claim(&self, driver: &Weak<InlineTask>) -> Option<()> {
        self.claimed.notified().await;
        let (mut last_reads, mut missed) = (self.reads.load(Ordering::Relaxed), 0);
        while missed < MAX_MISSED_INTERVALS {
            sleep(WATCHDOG_INTERVAL).await;
            let reads = self.reads.load(Ordering::Relaxed);
            missed = if reads == last_reads { missed + 1 } else { 0 };
            last_reads = reads;
            if missed == MAX_MISSED_INTERVALS {
                self.release();
            }
            if missed > 0 {
                self.request_read(&*driver.upgrade()?);
            }
        }
        Some(())
    }
}
