//! Models of inline tasks and sockets: `npm run models`. Loom runs each in every order in which the
//! threads can run, and fails if a thread waits for ever, as after a lost wake-up.
//!
//! The runtime is a thread that polls the task when it is woken. The kernel's part of a socket is
//! [`Kernel`].

use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Weak};
use std::task::{Context, Poll};

use loom::future::block_on;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread::{self, JoinHandle};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::inline_task::InlineTask;
use super::read_ownership::ReadOwnership;
use super::socket::{InlineSocket, SocketStream};
use super::socket_handle::SocketHandle;
use crate::sync::{AtomicWaker, Notify};

/// Runs a model with at most `preemptions` switches from a thread that could have continued.
fn model(preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(run);
}

/// The runtime's thread, with one task.
fn runtime(task: &Arc<InlineTask>) -> JoinHandle<()> {
    let task = Arc::clone(task);
    thread::spawn(move || block_on(poll_fn(|context| task.poll_on_runtime(context))))
}

/// A task that ends when it sees a message. It fails if two threads poll it at a time.
fn task_for(message: &Arc<AtomicBool>) -> Arc<InlineTask> {
    let (message, is_polled) = (Arc::clone(message), AtomicBool::new(false));
    InlineTask::new(poll_fn(move |_| {
        assert!(!is_polled.swap(true, Ordering::Relaxed));
        let has_come = message.load(Ordering::Relaxed);
        is_polled.store(false, Ordering::Relaxed);
        if has_come { Poll::Ready(()) } else { Poll::Pending }
    }))
}

/// The wake-up itself must make the message visible: it is not ordered otherwise.
#[test]
fn the_guard_or_the_runtime_handles_a_wake_up() {
    model(3, || {
        let message = Arc::new(AtomicBool::new(false));
        let task = task_for(&message);
        let runtime = runtime(&task);
        let guarding = {
            let task = Arc::clone(&task);
            thread::spawn(move || {
                if let Some(mut guard) = task.try_lock() {
                    guard.poll_while_woken();
                }
            })
        };
        message.store(true, Ordering::Relaxed);
        task.wake();
        guarding.join().unwrap();
        runtime.join().unwrap();
    });
}

#[test]
fn a_wake_up_during_a_guard_is_handled_after_it() {
    model(3, || {
        let message = Arc::new(AtomicBool::new(false));
        let task = task_for(&message);
        let runtime = runtime(&task);
        if let Some(guard) = task.try_lock() {
            message.store(true, Ordering::Relaxed);
            guard.wake();
        } else {
            message.store(true, Ordering::Relaxed);
            task.wake();
        }
        runtime.join().unwrap();
    });
}

#[test]
fn two_threads_with_guards_and_the_runtime_poll_one_at_a_time() {
    model(2, || {
        let message = Arc::new(AtomicBool::new(false));
        let task = task_for(&message);
        let runtime = runtime(&task);
        let guarding = {
            let task = Arc::clone(&task);
            thread::spawn(move || {
                if let Some(mut guard) = task.try_lock() {
                    guard.wake();
                    guard.poll_while_woken();
                }
            })
        };
        if let Some(mut guard) = task.try_lock() {
            guard.wake();
            guard.poll_while_woken();
        }
        message.store(true, Ordering::Relaxed);
        task.wake();
        guarding.join().unwrap();
        runtime.join().unwrap();
    });
}

/// The kernel's part of a socket that receives one byte.
#[derive(Default)]
struct Kernel {
    unread: AtomicUsize,
    /// The runtime's registration, which reports that the socket has become readable.
    registration: AtomicWaker,
    /// Reports that the socket is readable to libuv.
    readable: Notify,
}

impl Kernel {
    fn receive(&self) {
        self.unread.fetch_add(1, Ordering::AcqRel);
        self.registration.wake();
        self.readable.notify_one();
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self.unread.swap(0, Ordering::AcqRel) {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            length => {
                into[..length].fill(b'a');
                Ok(length)
            }
        }
    }
}

/// A file descriptor, of which [`ReadOwnership`] makes a duplicate.
static DESCRIPTOR: LazyLock<File> = LazyLock::new(|| File::open("/dev/null").unwrap());

/// A socket that is registered with the runtime.
struct Registered(Arc<Kernel>);

struct Unregistered(Arc<Kernel>);

impl AsFd for Registered {
    fn as_fd(&self) -> BorrowedFd<'_> {
        DESCRIPTOR.as_fd()
    }
}

impl AsFd for Unregistered {
    fn as_fd(&self) -> BorrowedFd<'_> {
        DESCRIPTOR.as_fd()
    }
}

impl AsyncRead for Registered {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.registration.register(context.waker());
        match self.0.read(into.initialize_unfilled()) {
            Ok(length) => into.advance(length),
            Err(_) => return Poll::Pending,
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Registered {
    fn poll_write(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(from.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl SocketStream for Registered {
    type Unregistered = Unregistered;

    fn deregister(self) -> io::Result<Unregistered> {
        drop(self.0.registration.take());
        Ok(Unregistered(self.0))
    }

    fn register(socket: Unregistered) -> io::Result<Self> {
        Ok(Self(socket.0))
    }

    fn read(socket: &Unregistered, into: &mut [u8]) -> io::Result<usize> {
        socket.0.read(into)
    }

    fn write(_socket: &Unregistered, from: &[u8]) -> io::Result<usize> {
        Ok(from.len())
    }

    fn shut_down(_socket: &Unregistered, _how: Shutdown) -> io::Result<()> {
        Ok(())
    }
}

/// A session whose driver ends when it has read the byte.
struct ModelSession {
    kernel: Arc<Kernel>,
    read_ownership: Arc<ReadOwnership>,
    driver: Arc<InlineTask>,
}

impl ModelSession {
    fn new() -> Self {
        let kernel = Arc::new(Kernel::default());
        let mut socket = InlineSocket::new(Registered(Arc::clone(&kernel))).unwrap();
        let read_ownership = Arc::clone(socket.read_ownership());
        let driver = InlineTask::new(poll_fn(move |context| {
            let mut bytes = [0; 8];
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = Pin::new(&mut socket).poll_read(context, &mut buffer);
            read.map(|read| read.unwrap())
        }));
        Self { kernel, read_ownership, driver }
    }

    fn handle(&self) -> SocketHandle {
        let (read_ownership, driver) = (Arc::clone(&self.read_ownership), self.weak_driver());
        SocketHandle { read_ownership, driver, session_id: 1 }
    }

    fn weak_driver(&self) -> Weak<InlineTask> {
        Arc::downgrade(&self.driver)
    }

    /// The server's answer, on a thread of its own.
    fn answer(&self) -> JoinHandle<()> {
        let kernel = Arc::clone(&self.kernel);
        thread::spawn(move || kernel.receive())
    }
}

#[test]
fn the_event_loop_reads_a_claimed_socket() {
    model(2, || {
        let session = ModelSession::new();
        let (runtime, answer) = (runtime(&session.driver), session.answer());
        let handle = session.handle();
        handle.claim();
        // The event loop: libuv reports the socket for as long as it is readable.
        block_on(session.kernel.readable.notified());
        while session.kernel.unread.load(Ordering::Acquire) > 0 {
            match session.driver.try_lock() {
                Some(mut driver) => handle.read_ownership.on_readable(&mut driver),
                None => thread::yield_now(),
            }
        }
        answer.join().unwrap();
        runtime.join().unwrap();
    });
}

/// The event loop is stuck: it does not read the socket that it has claimed.
#[test]
fn the_watchdog_makes_the_runtime_read_for_a_stuck_event_loop() {
    model(2, || {
        let session = ModelSession::new();
        let runtime = runtime(&session.driver);
        let (ownership, driver) = (Arc::clone(&session.read_ownership), session.weak_driver());
        let watchdog = thread::spawn(move || block_on(ownership.watch_claim(&driver)));
        session.handle().claim();
        session.kernel.receive();
        watchdog.join().unwrap();
        runtime.join().unwrap();
    });
}

#[test]
fn the_runtime_reads_a_socket_that_is_released() {
    model(2, || {
        let session = ModelSession::new();
        let (runtime, answer) = (runtime(&session.driver), session.answer());
        let handle = session.handle();
        handle.claim();
        handle.release();
        answer.join().unwrap();
        runtime.join().unwrap();
    });
}

/// A request at its deadline: its answer is in the socket, and the event loop is stuck.
#[test]
fn a_requested_read_finds_what_came_before_the_request() {
    model(3, || {
        let session = ModelSession::new();
        session.handle().claim();
        let runtime = runtime(&session.driver);
        session.kernel.receive();
        session.read_ownership.request_read(&session.driver);
        runtime.join().unwrap();
    });
}
