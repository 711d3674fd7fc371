//! A bound on the size of one reply. A server could otherwise fill the memory of this process with a
//! single reply that never ends. Also recognises a server that refuses the client.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The maximum size of a reply. The longest one that a server sends for a reason is that of a
/// cluster to CLUSTER SLOTS, with up to 4 MB.
const MAX_BYTES: usize = 16 << 20;

/// The maximum number of values in a reply. A value of few bytes takes more memory.
const MAX_VALUES: usize = 1_000_000;

/// What a server says first to a client that it refuses. It does not wait for a command, and then
/// ends the connection. The client library drops a reply that comes before its first command.
const REFUSALS: [&[u8]; 2] = [b"-DENIED", b"-ERR max number of clients"];

/// Why a stream has failed, if this module has found the reason: the client library does not pass it
/// on.
pub(crate) type BoundFailure = Arc<OnceLock<Arc<str>>>;

pub(crate) struct BoundedReplies<S> {
    stream: S,
    meter: ReplyMeter,
    has_read: bool,
    failure: BoundFailure,
}

impl<S> BoundedReplies<S> {
    pub(crate) fn new(stream: S, failure: BoundFailure) -> Self {
        Self { stream, meter: ReplyMeter::default(), has_read: false, failure }
    }

    fn fail(&self, why: String) -> io::Error {
        let _first = self.failure.set(why.as_str().into());
        io::Error::new(io::ErrorKind::InvalidData, why)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedReplies<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let bytes = &buffer.filled()[before..];
        if !std::mem::replace(&mut self.has_read, true)
            && let Some(why) = refusal(bytes)
        {
            return Poll::Ready(Err(self.fail(why)));
        }
        let read = self.meter.read(bytes);
        Poll::Ready(read.map_err(|ReplyTooLarge| {
            self.fail(format!(
                "a reply has more than {} MiB or {MAX_VALUES} values",
                MAX_BYTES >> 20
            ))
        }))
    }
}

/// The reason of a server that refuses the client, from the first bytes that it sends.
fn refusal(first: &[u8]) -> Option<String> {
    REFUSALS.iter().any(|refusal| first.starts_with(refusal)).then(|| {
        let line = first[1..].split(|byte| *byte == b'\r').next().unwrap_or_default();
        String::from_utf8_lossy(line).into_owned()
    })
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedReplies<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[derive(Debug)]
struct ReplyTooLarge;

/// Follows the replies in a stream of bytes (RESP 2 and 3).
#[derive(Debug, Default)]
struct ReplyMeter {
    /// The bytes and the values of the current reply so far.
    bytes: usize,
    values: usize,
    /// The values that the current reply announces beyond those that have begun.
    announced: usize,
    /// The bytes to come of the current text.
    text: usize,
    /// The line of the current value: its first byte, and the number after it.
    kind: u8,
    number: usize,
    is_null: bool,
    /// Whether the last byte of the line is a carriage return. A line ends with both characters: the
    /// parser takes a newline alone as a part of the line.
    has_return: bool,
}

impl ReplyMeter {
    /// Follows some more bytes. Fails if a reply is too large.
    fn read(&mut self, mut bytes: &[u8]) -> Result<(), ReplyTooLarge> {
        while !bytes.is_empty() {
            let length = match self.text {
                0 => self.line_length(bytes),
                text => text.min(bytes.len()),
            };
            let (part, rest) = bytes.split_at(length);
            bytes = rest;
            self.bytes += length;
            let has_ended = if self.text > 0 {
                self.text -= length;
                self.text == 0
            } else {
                self.read_line(part)
            };
            if self.bytes.saturating_add(self.text) > MAX_BYTES
                || self.values.saturating_add(self.announced) > MAX_VALUES
            {
                return Err(ReplyTooLarge);
            }
            if has_ended && self.announced == 0 {
                (self.bytes, self.values) = (0, 0);
            } else if has_ended {
                self.announced -= 1;
            }
        }
        Ok(())
    }

    /// The length of the rest of the line, as far as these bytes contain it.
    fn line_length(&self, bytes: &[u8]) -> usize {
        if self.has_return && bytes[0] == b'\n' {
            return 1;
        }
        bytes.windows(2).position(|two| two == b"\r\n").map_or(bytes.len(), |end| end + 2)
    }

    /// Reads a part of a line. Returns whether the value has ended with it.
    fn read_line(&mut self, part: &[u8]) -> bool {
        for &byte in part {
            match byte {
                b'\n' if self.has_return => return self.end_line(),
                _ if self.kind == 0 => self.kind = byte,
                b'0'..=b'9' => {
                    let digit = usize::from(byte - b'0');
                    self.number = self.number.saturating_mul(10).saturating_add(digit);
                }
                b'-' => self.is_null = true,
                _ => {}
            }
            self.has_return = byte == b'\r';
        }
        false
    }

    fn end_line(&mut self) -> bool {
        let number = if self.is_null { 0 } else { self.number };
        match self.kind {
            b'$' | b'!' | b'=' if !self.is_null => self.text = number.saturating_add(2),
            b'*' | b'~' | b'>' => self.announced = self.announced.saturating_add(number),
            b'%' => self.announced = self.announced.saturating_add(number.saturating_mul(2)),
            // The value itself follows its attributes.
            b'|' => {
                let attributes = number.saturating_mul(2).saturating_add(1);
                self.announced = self.announced.saturating_add(attributes);
            }
            _ => {}
        }
        (self.kind, self.number, self.is_null, self.has_return) = (0, 0, false, false);
        self.values += 1;
        self.text == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads bytes in parts of this length, and returns whether they ended between two replies.
    fn is_complete(bytes: &[u8], part: usize) -> bool {
        let mut meter = ReplyMeter::default();
        bytes.chunks(part).for_each(|part| meter.read(part).unwrap());
        (meter.bytes, meter.announced, meter.text) == (0, 0, 0)
    }

    #[test]
    fn replies_of_all_types_are_followed_to_their_end() {
        for reply in [
            "+OK\r\n",
            "-ERR 5 no\r\n",
            "-ERR \n5\n\r no\r\r\n",
            ":-17\r\n",
            "$5\r\na\r\nbc\r\n",
            "$0\r\n\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "*0\r\n",
            "*3\r\n:1\r\n*2\r\n$1\r\na\r\n+x\r\n*0\r\n",
            "%1\r\n+a\r\n$2\r\nbc\r\n",
            "|1\r\n+a\r\n:1\r\n*1\r\n+b\r\n",
            "~1\r\n,1.5\r\n",
            "=5\r\ntxt:a\r\n",
            "#t\r\n",
            "_\r\n",
        ] {
            for part in [1, 2, 3, 100] {
                assert!(is_complete(reply.repeat(3).as_bytes(), part), "{reply:?}");
                let incomplete = &reply.as_bytes()[..reply.len() - 1];
                assert!(!is_complete(incomplete, part), "{reply:?}");
            }
        }
    }

    #[test]
    fn a_server_that_refuses_the_client_is_recognised() {
        assert_eq!(refusal(b"-DENIED no\r\n").as_deref(), Some("DENIED no"));
        let full = refusal(b"-ERR max number of clients reached\r\n");
        assert_eq!(full.as_deref(), Some("ERR max number of clients reached"));
        assert_eq!(refusal(b"-ERR unknown command\r\n"), None);
        assert_eq!(refusal(b""), None);
    }

    #[test]
    fn a_reply_that_is_or_will_be_too_large_fails() {
        let endless = |part: &str| {
            let (mut meter, mut read) = (ReplyMeter::default(), 0);
            while meter.read(part.as_bytes()).is_ok() {
                read += part.len();
                assert!(read <= MAX_BYTES, "{part:.10}");
            }
        };
        endless(&"x".repeat(1_000));
        endless(&"x\n".repeat(500));
        endless(&"x\r".repeat(500));
        endless("*2\r\n:1\r\n");
        for head in ["$16777216\r\n", "$99999999999999999999999\r\n", "*1000000\r\n", "%500000\r\n"]
        {
            assert!(ReplyMeter::default().read(head.as_bytes()).is_err(), "{head:?}");
        }
        let mut meter = ReplyMeter::default();
        for _ in 0..5 {
            meter.read(b"$9000000\r\n").unwrap();
            meter.read(&vec![b'x'; 9_000_002]).unwrap();
        }
    }
}
