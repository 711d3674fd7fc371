//! A socket that is polled by the runtime or by the event loop: see [`ReadOwnership`].

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::redis::inline_io::read_ownership::ReadOwnership;

/// The maximum number of bytes of one read. The answer to a flush is shorter.
const MAX_READ: usize = 16 * 1024;

/// A kind of stream socket that can be registered with the runtime and deregistered from it.
pub(crate) trait SocketStream:
    AsyncRead + AsyncWrite + Unpin + Send + AsFd + Sized + 'static
{
    /// The type of the socket while it is not registered with the runtime.
    type Unregistered: AsFd + Send + Unpin + 'static;

    fn deregister(self) -> io::Result<Self::Unregistered>;
    fn register(socket: Self::Unregistered) -> io::Result<Self>;
    fn read(socket: &Self::Unregistered, into: &mut [u8]) -> io::Result<usize>;
    fn write(socket: &Self::Unregistered, from: &[u8]) -> io::Result<usize>;
    fn shut_down(socket: &Self::Unregistered, how: Shutdown) -> io::Result<()>;
}

macro_rules! impl_socket_stream {
    ($registered:ty, $unregistered:ty) => {
        impl SocketStream for $registered {
            type Unregistered = $unregistered;

            fn deregister(self) -> io::Result<Self::Unregistered> {
                self.into_std()
            }

            fn register(socket: Self::Unregistered) -> io::Result<Self> {
                Self::from_std(socket)
            }

            fn read(mut socket: &Self::Unregistered, into: &mut [u8]) -> io::Result<usize> {
                socket.read(into)
            }

            fn write(mut socket: &Self::Unregistered, from: &[u8]) -> io::Result<usize> {
                socket.write(from)
            }

            fn shut_down(socket: &Self::Unregistered, how: Shutdown) -> io::Result<()> {
                socket.shutdown(how)
            }
        }
    };
}

impl_socket_stream!(TcpStream, std::net::TcpStream);
impl_socket_stream!(UnixStream, std::os::unix::net::UnixStream);

enum SocketOwner<S: SocketStream> {
    Runtime(S),
    /// The event loop watches the socket.
    EventLoop(S::Unregistered),
    /// Registering or deregistering failed, which closed the socket.
    Failed,
}

pub(crate) struct InlineSocket<S: SocketStream> {
    socket: SocketOwner<S>,
    read_ownership: Arc<ReadOwnership>,
    /// Whether a write waits until the socket is writable. Only the runtime reports that.
    is_write_blocked: bool,
}

impl<S: SocketStream> InlineSocket<S> {
    pub(crate) fn new(socket: S) -> io::Result<Self> {
        let read_ownership = ReadOwnership::new(&socket)?;
        Ok(Self { socket: SocketOwner::Runtime(socket), read_ownership, is_write_blocked: false })
    }

    pub(crate) fn read_ownership(&self) -> &Arc<ReadOwnership> {
        &self.read_ownership
    }

    /// Registers or deregisters the socket if its owner has changed.
    fn update_owner(&mut self) -> io::Result<()> {
        let to_event_loop = self.read_ownership.is_claimed() && !self.is_write_blocked;
        match (&self.socket, to_event_loop) {
            (SocketOwner::Runtime(_), false) | (SocketOwner::EventLoop(_), true) => return Ok(()),
            _ => {}
        }
        self.socket = match std::mem::replace(&mut self.socket, SocketOwner::Failed) {
            SocketOwner::Runtime(socket) => SocketOwner::EventLoop(socket.deregister()?),
            SocketOwner::EventLoop(socket) => SocketOwner::Runtime(S::register(socket)?),
            SocketOwner::Failed => return Err(io::ErrorKind::NotConnected.into()),
        };
        Ok(())
    }
}

impl<S: SocketStream> Drop for InlineSocket<S> {
    /// Shuts the socket down: duplicates of it would keep the connection open.
    fn drop(&mut self) {
        let socket = match std::mem::replace(&mut self.socket, SocketOwner::Failed) {
            SocketOwner::Runtime(socket) => socket.deregister().ok(),
            SocketOwner::EventLoop(socket) => Some(socket),
            SocketOwner::Failed => None,
        };
        // This fails if the server has closed the connection first.
        let _shut_down = socket.map(|socket| S::shut_down(&socket, Shutdown::Both));
    }
}

impl<S: SocketStream> AsyncRead for InlineSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.update_owner()?;
        let Self { socket, read_ownership, .. } = &mut *self;
        let socket = match socket {
            SocketOwner::Runtime(socket) => return Pin::new(socket).poll_read(context, into),
            SocketOwner::EventLoop(socket) => socket,
            SocketOwner::Failed => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        };
        while read_ownership.start_read() {
            let buffer = into.initialize_unfilled_to(into.remaining().min(MAX_READ));
            match S::read(socket, buffer) {
                Ok(length) => {
                    // A full buffer means that there may be more. At the end of the stream the
                    // socket stays readable, so that the next read reports the end again.
                    if length == 0 || length == buffer.len() {
                        read_ownership.mark_readable();
                    }
                    into.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    read_ownership.mark_readable();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Poll::Ready(Err(error));
                    }
                }
            }
        }
        Poll::Pending
    }
}

impl<S: SocketStream> AsyncWrite for InlineSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            self.update_owner()?;
            let socket = match &mut self.socket {
                SocketOwner::Runtime(socket) => {
                    let written = Pin::new(socket).poll_write(context, from);
                    self.is_write_blocked = written.is_pending();
                    return written;
                }
                SocketOwner::EventLoop(socket) => socket,
                SocketOwner::Failed => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            };
            match S::write(socket, from) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_write_blocked = true;
                }
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // There is no write buffer.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.socket {
            SocketOwner::Runtime(socket) => Pin::new(socket).poll_shutdown(context),
            SocketOwner::EventLoop(socket) => Poll::Ready(S::shut_down(socket, Shutdown::Write)),
            SocketOwner::Failed => Poll::Ready(Ok(())),
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
    use crate::redis::inline_io::inline_task::InlineTask;

    const SOON: Duration = Duration::from_secs(30);

    fn runtime() -> Runtime {
        Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    }

    /// A connected socket, and its peer.
    fn pair(runtime: &Runtime) -> (InlineSocket<TcpStream>, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stream = runtime.block_on(TcpStream::connect(address)).unwrap();
        (InlineSocket::new(stream).unwrap(), listener.accept().unwrap().0)
    }

    /// Reads without waiting.
    fn read_now(socket: &mut InlineSocket<TcpStream>) -> Poll<Vec<u8>> {
        let mut bytes = [0; 64];
        let mut buffer = ReadBuf::new(&mut bytes);
        let waker = noop_waker();
        Pin::new(socket)
            .poll_read(&mut Context::from_waker(&waker), &mut buffer)
            .map(|read| read.map(|()| buffer.filled().to_vec()).unwrap())
    }

    #[test]
    fn a_claimed_socket_is_read_only_when_it_may_be_readable() {
        let runtime = runtime();
        let (mut socket, mut peer) = pair(&runtime);
        let _timers = runtime.enter();
        let ownership = Arc::clone(socket.read_ownership());
        ownership.claim();
        assert_eq!(read_now(&mut socket), Poll::Pending, "nothing has come");
        peer.write_all(b"answer").unwrap();
        assert_eq!(read_now(&mut socket), Poll::Pending, "there was no notification");
        ownership.mark_readable();
        assert_eq!(read_now(&mut socket), Poll::Ready(b"answer".to_vec()));
        drop(peer);
        ownership.mark_readable();
        assert_eq!(read_now(&mut socket), Poll::Ready(vec![]), "it has ended");
        assert_eq!(read_now(&mut socket), Poll::Ready(vec![]), "and stays at its end");
    }

    #[test]
    fn the_runtime_reads_a_released_socket() {
        let runtime = runtime();
        let (mut socket, mut peer) = pair(&runtime);
        let ownership = Arc::clone(socket.read_ownership());
        ownership.claim();
        {
            let _timers = runtime.enter();
            assert_eq!(read_now(&mut socket), Poll::Pending);
        }
        ownership.release();
        let waiting = runtime.spawn(async move { socket.read_u8().await.unwrap() });
        peer.write_all(b"a").unwrap();
        let read = runtime.block_on(async { timeout(SOON, waiting).await });
        assert_eq!(read.unwrap().unwrap(), b'a');
    }

    /// The data does not fit into the system's buffer at once: the runtime reports when the socket
    /// is writable again.
    #[test]
    fn a_claimed_socket_takes_more_data_than_fits_at_once() {
        const MUCH: usize = 16 * 1024 * 1024;
        let runtime = runtime();
        let (mut socket, mut peer) = pair(&runtime);
        socket.read_ownership().claim();
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
            let duplicate = socket.read_ownership().duplicate().unwrap();
            if is_claimed {
                socket.read_ownership().claim();
                assert_eq!(read_now(&mut socket), Poll::Pending);
            }
            drop(socket);
            peer.set_read_timeout(Some(SOON)).unwrap();
            assert_eq!(peer.read(&mut [0; 8]).unwrap(), 0);
            drop(duplicate);
        }
    }

    /// The event loop is stuck: it never polls the socket.
    #[test]
    fn the_watchdog_reads_for_a_stuck_event_loop_and_releases_the_socket() {
        let runtime = runtime();
        let (mut socket, mut peer) = pair(&runtime);
        let ownership = Arc::clone(socket.read_ownership());
        let (sender, received_bytes) = channel();
        let (driver, _task) = InlineTask::spawn(runtime.handle(), async move {
            while let Ok(byte) = socket.read_u8().await {
                sender.send(byte).unwrap();
            }
        });
        runtime.spawn(Arc::clone(&ownership).run_watchdog(Arc::downgrade(&driver)));
        for byte in 0..3 {
            ownership.claim();
            driver.wake();
            peer.write_all(&[byte]).unwrap();
            assert_eq!(received_bytes.recv_timeout(SOON).unwrap(), byte);
            let since = Instant::now();
            while ownership.is_claimed() {
                assert!(since.elapsed() < SOON);
                thread::sleep(Duration::from_millis(1));
            }
            peer.write_all(b"!").unwrap();
            assert_eq!(received_bytes.recv_timeout(SOON).unwrap(), b'!', "the runtime reads");
        }
    }
}
