//! A network of simulated sockets, in virtual time.
//!
//! A link joins a client and a server by two pipes. Bytes arrive in order, after a random delay, in
//! random segments. A link can be cut, so that bytes under way are lost, and stalled, so that they
//! arrive later.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::locked;

/// The delays of a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delays {
    pub(crate) min: Duration,
    pub(crate) jitter: Duration,
}

/// Bytes under way in one direction.
#[derive(Debug, Default)]
struct Pipe {
    segments: VecDeque<(Instant, Vec<u8>)>,
    reader: Option<Waker>,
    /// The writer has closed its end.
    is_finished: bool,
}

/// The state of a link that both ends share.
#[derive(Debug)]
struct Link {
    /// To the server, and to the client.
    pipes: [Pipe; 2],
    delays: Delays,
    random: fastrand::Rng,
    is_cut: bool,
    /// All bytes are lost.
    is_silent: bool,
    stalled_until: Instant,
}

/// Cuts and stalls a link.
#[derive(Debug, Clone)]
pub(crate) struct LinkControl(Arc<Mutex<Link>>);

/// One end of a link.
#[derive(Debug)]
pub(crate) struct Socket {
    link: Arc<Mutex<Link>>,
    /// The index of the pipe that this end reads.
    reads: usize,
    timer: Option<Pin<Box<Sleep>>>,
}

/// A new link: the client's end, the server's end and the control.
pub(crate) fn link(delays: Delays, random: fastrand::Rng) -> (Socket, Socket, LinkControl) {
    let (pipes, stalled_until) = (Default::default(), Instant::now());
    let link = Link { pipes, delays, random, is_cut: false, is_silent: false, stalled_until };
    let link = Arc::new(Mutex::new(link));
    let [client, server] =
        [1, 0].map(|reads| Socket { link: Arc::clone(&link), reads, timer: None });
    (client, server, LinkControl(link))
}

impl Link {
    fn wake(&mut self) {
        let readers = self.pipes.iter_mut().filter_map(|pipe| pipe.reader.take());
        readers.for_each(Waker::wake);
    }
}

impl LinkControl {
    /// Breaks the connection: the bytes under way are lost.
    pub(crate) fn cut(&self) {
        let mut link = locked(&self.0);
        link.is_cut = true;
        link.pipes.iter_mut().for_each(|pipe| pipe.segments.clear());
        link.wake();
    }

    /// Loses all bytes from now on, also those under way. No end is notified.
    pub(crate) fn silence(&self) {
        let mut link = locked(&self.0);
        link.is_silent = true;
        link.pipes.iter_mut().for_each(|pipe| pipe.segments.clear());
    }

    /// Delays all bytes, also those under way, until the given time.
    pub(crate) fn stall(&self, until: Instant) {
        let mut link = locked(&self.0);
        link.stalled_until = link.stalled_until.max(until);
        link.wake();
    }

    pub(crate) fn is_open(&self) -> bool {
        let link = locked(&self.0);
        !link.is_cut && !link.pipes.iter().any(|pipe| pipe.is_finished)
    }
}

fn reset() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "connection reset by peer")
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut link = locked(&self.link);
            if link.is_cut {
                return Poll::Ready(Err(reset()));
            }
            let (stalled_until, is_silent) = (link.stalled_until, link.is_silent);
            let pipe = &mut link.pipes[self.reads];
            let at = match pipe.segments.front_mut() {
                Some((arrives, bytes)) => {
                    let at = (*arrives).max(stalled_until);
                    if at <= Instant::now() {
                        let count = bytes.len().min(buffer.remaining());
                        buffer.put_slice(&bytes[..count]);
                        bytes.drain(..count);
                        if bytes.is_empty() {
                            pipe.segments.pop_front();
                        }
                        return Poll::Ready(Ok(()));
                    }
                    Some(at)
                }
                None if pipe.is_finished && !is_silent => return Poll::Ready(Ok(())),
                None => None,
            };
            pipe.reader = Some(context.waker().clone());
            drop(link);
            let Some(at) = at else { return Poll::Pending };
            let mut timer = Box::pin(sleep_until(at));
            if timer.as_mut().poll(context).is_pending() {
                self.timer = Some(timer);
                return Poll::Pending;
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut link = locked(&self.link);
        if link.is_cut || link.pipes[self.reads].is_finished {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if link.is_silent {
            return Poll::Ready(Ok(bytes.len()));
        }
        let Link { pipes, delays, random, .. } = &mut *link;
        let pipe = &mut pipes[1 - self.reads];
        // A large write may be cut between its segments.
        let mut rest = bytes;
        while !rest.is_empty() {
            let is_split = rest.len() > 1 && random.u8(..4) == 0;
            let count = if is_split { random.usize(1..rest.len()) } else { rest.len() };
            let (segment, others) = rest.split_at(count);
            let delay = delays.min + delays.jitter.mul_f64(random.f64());
            let arrives = Instant::now() + delay;
            let last = pipe.segments.back().map_or(arrives, |(last, _)| *last);
            pipe.segments.push_back((arrives.max(last), segment.to_vec()));
            rest = others;
        }
        if let Some(reader) = pipe.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        locked(&self.link).finish(1 - self.reads);
        Poll::Ready(Ok(()))
    }
}

impl Link {
    fn finish(&mut self, pipe: usize) {
        self.pipes[pipe].is_finished = true;
        self.wake();
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        locked(&self.link).finish(1 - self.reads);
    }
}
