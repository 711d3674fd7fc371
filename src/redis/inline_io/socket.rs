//! A socket that is read, and waited for, by whoever is to: see [`Reading`].

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::redis::inline_io::read_ownership::Reading;

/// So much is read at a time: a round's answer is shorter.
const PIECE: usize = 16 * 1024;

/// A kind of socket.
pub(crate) trait Kind:
    AsyncRead + AsyncWrite + Unpin + Send + AsFd + Sized + 'static
{
    /// The same, not registered with a runtime.
    type Plain: AsFd + Send + Unpin + 'static;

    fn unregistered(self) -> io::Result<Self::Plain>;
    fn registered(plain: Self::Plain) -> io::Result<Self>;
    fn read(plain: &Self::Plain, into: &mut [u8]) -> io::Result<usize>;
    fn write(plain: &Self::Plain, from: &[u8]) -> io::Result<usize>;
    fn shut_down(plain: &Self::Plain, how: Shutdown) -> io::Result<()>;
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

            fn shut_down(plain: &Self::Plain, how: Shutdown) -> io::Result<()> {
                plain.shutdown(how)
            }
        }
    };
}

kind!(TcpStream, std::net::TcpStream);
kind!(UnixStream, std::os::unix::net::UnixStream);

/// A socket, by who waits for it.
enum Registration<K: Kind> {
    /// With the runtime.
    Registered(K),
    /// With the caller.
    Plain(K::Plain),
    /// Changing hands failed.
    Lost,
}

pub(crate) struct Socket<K: Kind> {
    socket: Registration<K>,
    reading: Arc<Reading>,
    /// Whether something waits until more can be written: of that only the runtime tells.
    is_full: bool,
}

impl<K: Kind> Socket<K> {
    pub(crate) fn new(socket: K) -> io::Result<Self> {
        let reading = Reading::of(&socket)?;
        Ok(Self { socket: Registration::Registered(socket), reading, is_full: false })
    }

    pub(crate) fn reading(&self) -> &Arc<Reading> {
        &self.reading
    }

    /// Lets it be watched by whom it is to be.
    fn change_hands(&mut self) -> io::Result<()> {
        let by_caller = self.reading.is_claimed() && !self.is_full;
        match (&self.socket, by_caller) {
            (Registration::Registered(_), false) | (Registration::Plain(_), true) => return Ok(()),
            _ => {}
        }
        self.socket = match std::mem::replace(&mut self.socket, Registration::Lost) {
            Registration::Registered(socket) => Registration::Plain(socket.unregistered()?),
            Registration::Plain(plain) => Registration::Registered(K::registered(plain)?),
            Registration::Lost => return Err(io::ErrorKind::NotConnected.into()),
        };
        Ok(())
    }
}

impl<K: Kind> Drop for Socket<K> {
    /// Whoever watches it has a duplicate, which would keep the connection open.
    fn drop(&mut self) {
        let plain = match std::mem::replace(&mut self.socket, Registration::Lost) {
            Registration::Registered(socket) => socket.unregistered().ok(),
            Registration::Plain(plain) => Some(plain),
            Registration::Lost => None,
        };
        // The server may have gone first.
        let _gone = plain.map(|plain| K::shut_down(&plain, Shutdown::Both));
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
            Registration::Registered(socket) => return Pin::new(socket).poll_read(context, into),
            Registration::Plain(plain) => plain,
            Registration::Lost => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        };
        while reading.is_expected() {
            let room = into.initialize_unfilled_to(into.remaining().min(PIECE));
            match K::read(plain, room) {
                Ok(length) => {
                    // There may be more only if there was no room for it; and an end is read again.
                    if length > 0 && length < room.len() {
                        reading.has_read_all();
                    }
                    into.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    reading.has_read_all();
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
                Registration::Registered(socket) => {
                    let written = Pin::new(socket).poll_write(context, from);
                    self.is_full = written.is_pending();
                    return written;
                }
                Registration::Plain(plain) => plain,
                Registration::Lost => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
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
        match &mut self.socket {
            Registration::Registered(socket) => Pin::new(socket).poll_shutdown(context),
            Registration::Plain(plain) => Poll::Ready(K::shut_down(plain, Shutdown::Write)),
            Registration::Lost => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::{Duration, Instant};

    use futures_util::task::noop_waker;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::runtime::{Builder, Runtime};
    use tokio::time::timeout;

    use super::*;
    use crate::redis::inline_io::inline_task::Stepped;

    const SOON: Duration = Duration::from_secs(30);

    fn runtime() -> Runtime {
        Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    }

    /// A socket, and what it is connected to.
    fn pair(runtime: &Runtime) -> (Socket<TcpStream>, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stream = runtime.block_on(TcpStream::connect(address)).unwrap();
        (Socket::new(stream).unwrap(), listener.accept().unwrap().0)
    }

    /// What a read finds that is not waited for.
    fn read_now(socket: &mut Socket<TcpStream>) -> Poll<Vec<u8>> {
        let mut bytes = [0; 64];
        let mut room = ReadBuf::new(&mut bytes);
        let waker = noop_waker();
        Pin::new(socket)
            .poll_read(&mut Context::from_waker(&waker), &mut room)
            .map(|read| read.map(|()| room.filled().to_vec()).unwrap())
    }

    #[test]
    fn what_is_claimed_is_read_when_something_is_expected() {
        let runtime = runtime();
        let (mut socket, mut peer) = pair(&runtime);
        let _timers = runtime.enter();
        let reading = Arc::clone(socket.reading());
        reading.claim();
        assert_eq!(read_now(&mut socket), Poll::Pending, "nothing has come");
        peer.write_all(b"answer").unwrap();
        assert_eq!(read_now(&mut socket), Poll::Pending, "nothing is expected");
        reading.look();
        assert_eq!(read_now(&mut socket), Poll::Ready(b"answer".to_vec()));
        drop(peer);
        reading.look();
        assert_eq!(read_now(&mut socket), Poll::Ready(vec![]), "it has ended");
        assert_eq!(read_now(&mut socket), Poll::Ready(vec![]), "and remains so");
    }

    #[test]
    fn what_has_been_released_is_the_runtimes() {
        let runtime = runtime();
        let (mut socket, mut peer) = pair(&runtime);
        let reading = Arc::clone(socket.reading());
        reading.claim();
        {
            let _timers = runtime.enter();
            assert_eq!(read_now(&mut socket), Poll::Pending);
        }
        reading.release();
        let waiting = runtime.spawn(async move { socket.read_u8().await.unwrap() });
        peer.write_all(b"a").unwrap();
        let read = runtime.block_on(async { timeout(SOON, waiting).await });
        assert_eq!(read.unwrap().unwrap(), b'a');
    }

    /// More than the system takes at once: the runtime tells when there is room again.
    #[test]
    fn what_does_not_fit_at_once_is_written_whoever_has_claimed_it() {
        const MUCH: usize = 16 * 1024 * 1024;
        let runtime = runtime();
        let (mut socket, mut peer) = pair(&runtime);
        socket.reading().claim();
        let reading = thread::spawn(move || {
            let mut all = Vec::new();
            peer.read_to_end(&mut all).map(|_| all)
        });
        let sent: Vec<u8> = (0..=250).cycle().take(MUCH).collect();
        let received = sent.clone();
        runtime.block_on(async {
            timeout(SOON, socket.write_all(&sent)).await.unwrap().unwrap();
            drop(socket);
        });
        assert!(reading.join().unwrap().unwrap() == received);
    }

    #[test]
    fn a_duplicate_does_not_keep_the_connection_open() {
        let runtime = runtime();
        for is_claimed in [false, true] {
            let (mut socket, mut peer) = pair(&runtime);
            let _timers = runtime.enter();
            let duplicate = socket.reading().duplicate().unwrap();
            if is_claimed {
                socket.reading().claim();
                assert_eq!(read_now(&mut socket), Poll::Pending);
            }
            drop(socket);
            peer.set_read_timeout(Some(SOON)).unwrap();
            assert_eq!(peer.read(&mut [0; 8]).unwrap(), 0);
            drop(duplicate);
        }
    }

    /// A caller that does not look: its event loop does not turn.
    #[test]
    fn an_overseer_reads_for_a_caller_that_does_not_come_and_gives_the_socket_back() {
        let runtime = runtime();
        let (mut socket, mut peer) = pair(&runtime);
        let reading = Arc::clone(socket.reading());
        let (tell, told) = channel();
        let (driver, _task) = Stepped::spawn(runtime.handle(), async move {
            while let Ok(byte) = socket.read_u8().await {
                tell.send(byte).unwrap();
            }
        });
        runtime.spawn(Arc::clone(&reading).oversee(Arc::downgrade(&driver)));
        for round in 0..3 {
            reading.claim();
            driver.ring();
            peer.write_all(&[round]).unwrap();
            assert_eq!(told.recv_timeout(SOON).unwrap(), round);
            let since = Instant::now();
            while reading.is_claimed() {
                assert!(since.elapsed() < SOON);
                thread::sleep(Duration::from_millis(1));
            }
            peer.write_all(b"!").unwrap();
            assert_eq!(told.recv_timeout(SOON).unwrap(), b'!', "the runtime reads");
        }
    }
}
