//! A socket that is read by whoever waits for its answers.
//!
//! A runtime learns that there is something to read from its own thread, which then has to wake the caller's: two
//! threads are woken for each answer, one after the other. A caller that waits in an event loop of its own can
//! watch the socket itself, and read. So the socket is registered with the runtime, or, while a caller
//! [claims](Reading::claim) it, is not; then it is read when somebody [looks](Reading::look).

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::stepped::Stepped;

/// A caller that is kept from looking for so long is not waited for.
const TURN: Duration = Duration::from_millis(5);

/// After so many turns without a look of the caller's, the runtime has the socket back.
const TURNS: u32 = 20;

/// Who reads a socket, as its caller, its overseer and the socket itself agree on it.
#[derive(Debug)]
pub(super) struct Reading {
    is_claimed: AtomicBool,
    /// Whether there may be something to read.
    may_read: AtomicBool,
    /// How often the caller has looked.
    looks: AtomicU32,
    claimed: Notify,
    /// The socket, for its caller to watch. It does not keep the connection open.
    watched: OwnedFd,
}

impl Reading {
    fn of(socket: &impl AsFd) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            is_claimed: AtomicBool::new(false),
            may_read: AtomicBool::new(true),
            looks: AtomicU32::new(0),
            claimed: Notify::new(),
            watched: socket.as_fd().try_clone_to_owned()?,
        }))
    }

    /// The socket, to be watched by a caller.
    pub(super) fn watched(&self) -> io::Result<OwnedFd> {
        self.watched.try_clone()
    }

    /// From now on the caller watches the socket, and looks when there is something to read.
    pub(super) fn claim(&self) {
        if !self.is_claimed.swap(true, Ordering::SeqCst) {
            self.claimed.notify_one();
        }
    }

    /// Whether a caller watches it.
    pub(super) fn is_claimed(&self) -> bool {
        self.is_claimed.load(Ordering::SeqCst)
    }

    /// The runtime has it back.
    pub(super) fn release(&self) {
        self.is_claimed.store(false, Ordering::SeqCst);
    }

    /// The caller has seen that there is something to read: the next step reads it.
    pub(super) fn look(&self) {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.expect();
    }

    /// There may be something to read: the next step tries.
    pub(super) fn expect(&self) {
        self.may_read.store(true, Ordering::SeqCst);
    }

    /// Looks for a caller that does not come to it, until it has not come for long: then the socket is the
    /// runtime's again.
    pub(super) async fn oversee(self: Arc<Self>, driver: Weak<Stepped>) {
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

/// A kind of socket.
pub(super) trait Kind: AsyncRead + AsyncWrite + Unpin + Send + AsFd + Sized + 'static {
    /// The same, not registered with a runtime.
    type Plain: AsFd + Send + Unpin + 'static;

    fn unregistered(self) -> io::Result<Self::Plain>;
    fn registered(plain: Self::Plain) -> io::Result<Self>;
    fn read(plain: &Self::Plain, into: &mut [u8]) -> io::Result<usize>;
    fn write(plain: &Self::Plain, from: &[u8]) -> io::Result<usize>;
    fn shut_down(plain: &Self::Plain) -> io::Result<()>;
}

macro_rules! kind {
    ($registered:ty, $plain:ty) => {
        impl Kind for $registered {
            type Plain = $plain;

            fn unregistered(self) -> io::Result<Self::Plain> {
                self.into_std()
            }

            fn registered(plain: Self::Plain) -> io::Result<Self> {
                Self::from_std(plain)
            }

            fn read(mut plain: &Self::Plain, into: &mut [u8]) -> io::Result<usize> {
                plain.read(into)
            }

            fn write(mut plain: &Self::Plain, from: &[u8]) -> io::Result<usize> {
                plain.write(from)
            }

            fn shut_down(plain: &Self::Plain) -> io::Result<()> {
                plain.shutdown(std::net::Shutdown::Both)
            }
        }
    };
}

kind!(TcpStream, std::net::TcpStream);
kind!(UnixStream, std::os::unix::net::UnixStream);

/// A socket, by whom it is watched.
enum Watched<K: Kind> {
    ByRuntime(K),
    ByCaller(K::Plain),
    /// Changing hands failed.
    ByNobody,
}

pub(super) struct Socket<K: Kind> {
    socket: Watched<K>,
    reading: Arc<Reading>,
    /// Whether something waits until more can be written: of that only the runtime tells.
    is_full: bool,
}

impl<K: Kind> Socket<K> {
    pub(super) fn new(socket: K) -> io::Result<Self> {
        let reading = Reading::of(&socket)?;
        Ok(Self { socket: Watched::ByRuntime(socket), reading, is_full: false })
    }

    pub(super) fn reading(&self) -> &Arc<Reading> {
        &self.reading
    }

    /// Lets it be watched by whom it is to be.
    fn change_hands(&mut self) -> io::Result<()> {
        let by_caller = self.reading.is_claimed() && !self.is_full;
        match (&self.socket, by_caller) {
            (Watched::ByRuntime(_), false) | (Watched::ByCaller(_), true) => return Ok(()),
            _ => {}
        }
        self.socket = match std::mem::replace(&mut self.socket, Watched::ByNobody) {
            Watched::ByRuntime(socket) => Watched::ByCaller(socket.unregistered()?),
            Watched::ByCaller(plain) => Watched::ByRuntime(K::registered(plain)?),
            Watched::ByNobody => return Err(io::ErrorKind::NotConnected.into()),
        };
        Ok(())
    }
}

impl<K: Kind> Drop for Socket<K> {
    /// Whoever watches it has a duplicate, which would keep the connection open.
    fn drop(&mut self) {
        let plain = match std::mem::replace(&mut self.socket, Watched::ByNobody) {
            Watched::ByRuntime(socket) => socket.unregistered().ok(),
            Watched::ByCaller(plain) => Some(plain),
            Watched::ByNobody => None,
        };
        // The server may have gone first.
        let _gone = plain.map(|plain| K::shut_down(&plain));
    }
}

impl<K: Kind> AsyncRead for Socket<K> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.change_hands()?;
        let Self { socket, reading, .. } = &mut *self;
        let plain = match socket {
            Watched::ByRuntime(socket) => return Pin::new(socket).poll_read(context, into),
            Watched::ByCaller(plain) => plain,
            Watched::ByNobody => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        };
        while reading.may_read.load(Ordering::SeqCst) {
            let room = into.initialize_unfilled();
            match K::read(plain, room) {
                Ok(length) => {
                    // There may be more only if there was no room for it; and an end is read again.
                    if length > 0 && length < room.len() {
                        reading.may_read.store(false, Ordering::SeqCst);
                    }
                    into.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    reading.may_read.store(false, Ordering::SeqCst);
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Pending
    }
}

impl<K: Kind> AsyncWrite for Socket<K> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            self.change_hands()?;
            let plain = match &mut self.socket {
                Watched::ByRuntime(socket) => {
                    let written = Pin::new(socket).poll_write(context, from);
                    self.is_full = written.is_pending();
                    return written;
                }
                Watched::ByCaller(plain) => plain,
                Watched::ByNobody => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            };
            match K::write(plain, from) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_full = true,
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Nothing is held back.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Watched::ByCaller(_) = self.socket {
            self.is_full = true;
        }
        self.change_hands()?;
        match &mut self.socket {
            Watched::ByRuntime(socket) => {
                ready!(Pin::new(socket).poll_shutdown(context))?;
                Poll::Ready(Ok(()))
            }
            _ => Poll::Ready(Ok(())),
        }
    }
}
