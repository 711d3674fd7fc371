//! Inline socket I/O: the thread that runs Node's event loop writes requests to the socket and
//! reads their answers itself.
//!
//! # Purpose
//!
//! Without inline I/O, the runtime's thread does all socket I/O. Each request wakes that thread,
//! and each answer wakes it first and then the event loop's thread. With inline I/O no other
//! thread is woken for a call: writing saves one wake-up and reading saves another. When reading
//! became inline, the throughput at 64 calls in flight rose from 390,000 to 490,000 calls a second,
//! and the CPU time of a call fell from 1.8 to 1.3 µs.
//!
//! # Polling
//!
//! The sender and the driver of the redis client are [`InlineTask`](inline_task::InlineTask)s of
//! the runtime. A mutex lets one thread at a time poll each of them:
//!
//! - The event loop's thread locks them to send a request, and when the socket is readable. It
//!   polls them and continues. If another thread is polling them, it does not wait: it leaves the
//!   work to that thread.
//! - The runtime polls them whenever they are woken while no guard exists. A wake-up during a
//!   guard that the guard does not handle goes to the runtime afterwards.
//!
//! # Read ownership
//!
//! Either the runtime or the event loop watches the socket for readability. The states below are
//! those of [`ReadOwnership`](read_ownership::ReadOwnership) and `InlineSocket` together. A new
//! session starts in RUNTIME.
//!
//! ```text
//! +-------------------+        claim()       +-----------------------------------------+
//! | RUNTIME           | -------------------> | EVENT LOOP                              |
//! |                   |                      | not registered with tokio; libuv polls  |
//! | registered with   |                      | a duplicate of the file descriptor      |
//! | tokio, which      |                      |                                         |
//! | reads and writes  |       release()      | +----------+  read all    +---------+   |
//! |                   | <------------------- | | readable | -----------> | drained |   |
//! +-------------------+                      | |          | <----------- |         |   |
//!           ^                                | +----------+  notified    +---------+   |
//!           |                                +-----------------------------------------+
//!           |                                    | a write              ^ the write
//!           |                                    v would block          | is accepted
//!           |                                +-----------------------------------------+
//!           |             release()          | WRITE BLOCKED                           |
//!           +------------------------------- | claimed, but registered with tokio,     |
//!                                            | which reads and writes                  |
//!                                            +-----------------------------------------+
//! ```
//!
//! - **claim()**: Node claims the socket before each request that it sends, if libuv watches it.
//! - **release()**: Node releases the socket when the store closes; the watchdog releases it after
//!   100 ms without a read by the event loop. Both then wake the driver.
//! - A claim or release only sets a flag. The socket moves at the start of the driver's next read
//!   or write.
//! - **readable** (the initial value): the driver's next read tries the socket. **drained**: it
//!   does not, and no waker is registered.
//! - **read all**: a read returned fewer bytes than the buffer holds, or would have blocked.
//! - **notified**: libuv reports the socket readable ([`on_readable`]); the watchdog acts for a
//!   busy event loop; or a request reaches its deadline ([`request_read`]).
//! - **write blocked**: only tokio reports that a socket is writable again.
//!
//! If moving the socket fails, every read and write fails with `NotConnected`, so the session
//! ends. Without libuv (Bun, Deno) and on Windows, only writing is inline. A cluster has no inline
//! I/O.
//!
//! # Watchdog
//!
//! A busy event loop reads nothing. Each session has a watchdog on the runtime. While the socket
//! is claimed, it checks every 5 ms whether the event loop has read the socket since the last
//! check. If not, the runtime reads the socket. After 20 such checks in a row (100 ms), the
//! watchdog releases the socket: the event loop is busy, or no answer has come for that long. The
//! next request claims the socket again.
//!
//! [`on_readable`]: read_ownership::ReadOwnership::on_readable
//! [`request_read`]: read_ownership::ReadOwnership::request_read

pub(crate) mod inline_task;
#[cfg(all(tollgate_loom, unix))]
mod models;
pub(crate) mod read_ownership;
#[cfg(unix)]
pub(crate) mod socket;
pub(crate) mod socket_handle;
