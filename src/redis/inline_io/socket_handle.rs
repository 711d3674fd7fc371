//! The socket of a link, as a caller sees it that waits in an event loop of its own.

use std::sync::{Arc, Weak};

use crate::redis::inline_io::inline_task::Stepped;
use crate::redis::inline_io::read_ownership::Reading;

/// The socket of a link, for a caller that watches it in an event loop of its own.
#[derive(Debug, Clone)]
pub struct LinkSocket {
    pub(crate) reading: Arc<Reading>,
    pub(crate) driver: Weak<Stepped>,
    /// The number of the link.
    pub(crate) link: u64,
}

impl LinkSocket {
    /// Whether it is the same socket.
    #[must_use]
    pub fn is_of_same_link(&self, other: &Self) -> bool {
        self.link == other.link
    }

    /// A duplicate of it: it can be waited for until there is something to read.
    ///
    /// # Errors
    /// The system's, if it has no room for one.
    #[cfg(unix)]
    pub fn duplicate(&self) -> std::io::Result<std::os::fd::OwnedFd> {
        self.reading.duplicate()
    }

    /// From now on the caller watches it, and [looks](super::Connection::look) when there is something to read.
    pub fn claim(&self) {
        self.reading.claim();
    }

    /// The runtime watches it again.
    pub fn release(&self) {
        self.reading.release();
        if let Some(driver) = self.driver.upgrade() {
            driver.ring();
        }
    }

    /// Whether it is the caller's to watch: not if the caller has not looked for long, or the link has ended.
    #[must_use]
    pub fn is_claimed(&self) -> bool {
        self.reading.is_claimed() && self.driver.strong_count() > 0
    }
}
