//! The socket of a session, for a caller with its own event loop.

use std::sync::{Arc, Weak};

use crate::redis::inline_io::inline_task::InlineTask;
use crate::redis::inline_io::read_ownership::ReadOwnership;

/// A handle of a session's socket, for a caller that watches the socket in its own event loop. It
/// does not keep the session open.
#[derive(Clone)]
pub struct SocketHandle {
    pub(crate) read_ownership: Arc<ReadOwnership>,
    pub(crate) driver: Weak<InlineTask>,
    pub(crate) session_id: u64,
}

impl SocketHandle {
    /// Whether both handles are of the same session of one connection.
    #[must_use]
    pub fn is_same_session(&self, other: &Self) -> bool {
        self.session_id == other.session_id
    }

    /// A duplicate of the socket's file descriptor, for polling its readability.
    ///
    /// # Errors
    /// The system's error, for example if there are too many open files.
    #[cfg(unix)]
    pub fn duplicate(&self) -> std::io::Result<std::os::fd::OwnedFd> {
        self.read_ownership.duplicate()
    }

    /// Gives the socket to the caller, which must call
    /// [`read_inline`](crate::redis::Connection::read_inline) whenever the socket is readable.
    pub fn claim(&self) {
        self.read_ownership.claim();
    }

    /// Gives the socket back to the runtime.
    pub fn release(&self) {
        self.read_ownership.release();
        if let Some(driver) = self.driver.upgrade() {
            driver.wake();
        }
    }

    /// Whether the caller still owns the socket. It does not after the session has ended, or after
    /// 100 ms without a call of [`read_inline`](crate::redis::Connection::read_inline).
    #[must_use]
    pub fn is_claimed(&self) -> bool {
        self.read_ownership.is_claimed() && self.driver.strong_count() > 0
    }
}
