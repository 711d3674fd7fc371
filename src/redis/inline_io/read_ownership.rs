//! Who reads the answers of a link: the runtime, or a caller in an event loop of its own.
//!
//! A runtime learns on its own thread that there is something to read, and has to wake the caller's then: two threads
//! are woken for each answer, one after the other. A caller that waits in an event loop of its own can watch the
//! socket itself, and read. While it does it has *claimed* the socket, which then is not registered with the runtime,
//! and is read when somebody expects something there. An overseer does so when the caller does not come to it.

#![cfg_attr(not(unix), expect(dead_code, reason = "sockets are claimed on Unix alone"))]

#[cfg(unix)]
use std::io;
#[cfg(unix)]
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use crate::redis::inline_io::inline_task::Stepped;

/// A caller that is kept from looking for so long is not waited for.
const TURN: Duration = Duration::from_millis(5);

/// After so many turns without a look of the caller's, the runtime has the socket back.
const TURNS: u32 = 20;

/// Who reads a socket, as its caller, its overseer and the socket itself agree on it.
#[derive(Debug)]
pub(crate) struct Reading {
    is_claimed: AtomicBool,
    /// Whether there may be something to read.
    may_read: AtomicBool,
    /// How often the caller has looked.
    looks: AtomicU32,
    claimed: Notify,
    /// The socket, for its caller to watch.
    #[cfg(unix)]
    watched: OwnedFd,
}

impl Reading {
    #[cfg(unix)]
    pub(crate) fn of(socket: &impl AsFd) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            is_claimed: AtomicBool::new(false),
            may_read: AtomicBool::new(true),
            looks: AtomicU32::new(0),
            claimed: Notify::new(),
            watched: socket.as_fd().try_clone_to_owned()?,
        }))
    }

    /// A duplicate of the socket, to be watched by a caller.
    #[cfg(unix)]
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.watched.try_clone()
    }

    /// From now on the caller watches the socket, and looks when there is something to read.
    pub(crate) fn claim(&self) {
        if !self.is_claimed.swap(true, Ordering::SeqCst) {
            self.claimed.notify_one();
        }
    }

    /// Whether a caller watches it.
    pub(crate) fn is_claimed(&self) -> bool {
        self.is_claimed.load(Ordering::SeqCst)
    }

    /// The runtime has it back.
    pub(crate) fn release(&self) {
        self.is_claimed.store(false, Ordering::SeqCst);
    }

    /// The caller has seen that there is something to read: the next step reads it.
    pub(crate) fn look(&self) {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.expect();
    }

    /// There may be something to read: the next step tries.
    pub(crate) fn expect(&self) {
        self.may_read.store(true, Ordering::SeqCst);
    }

    /// All has been read.
    #[cfg(unix)]
    pub(crate) fn has_read_all(&self) {
        self.may_read.store(false, Ordering::SeqCst);
    }

    /// Whether a claimed socket is to be read.
    #[cfg(unix)]
    pub(crate) fn is_expected(&self) -> bool {
        self.may_read.load(Ordering::SeqCst)
    }

    /// Looks for a caller that does not come to it, until it has not come for long: then the socket is the
    /// runtime's again.
    pub(crate) async fn oversee(self: Arc<Self>, driver: Weak<Stepped>) {
        loop {
            self.claimed.notified().await;
            let (mut seen, mut turns) = (self.looks.load(Ordering::Relaxed), 0);
            while turns < TURNS {
                sleep(TURN).await;
                let looks = self.looks.load(Ordering::Relaxed);
                turns = if looks == seen { turns + 1 } else { 0 };
                seen = looks;
                if turns == TURNS {
                    self.release();
                }
                if turns > 0 {
                    let Some(driver) = driver.upgrade() else { return };
                    self.expect();
                    driver.ring();
                }
            }
        }
    }
}
