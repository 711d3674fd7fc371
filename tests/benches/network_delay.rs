//! A TCP proxy that adds a delay in each direction, for `tests/benches/node/distance.mjs`.
//!
//! `network-delay PORT` forwards connections to this port of the local machine. It prints its own
//! port, reads delays from the standard input, one line `UP DOWN` in microseconds at a time, and
//! prints `set` after each. It exits when the standard input ends.
//!
//! Each direction of a connection has one thread that reads and one that writes at the due time.
//! Threads sleep to within about 0.1 ms; timers of Node and of most event loops have whole
//! milliseconds.

use std::io::{self, BufRead, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes, and the time at which they arrive.
type Segment = (Instant, Vec<u8>);

/// The delays of both directions, in microseconds.
#[derive(Default)]
struct Delays {
    up: AtomicU64,
    down: AtomicU64,
}

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok());
    let port: u16 = port.ok_or_else(|| io::Error::other("usage: network-delay PORT"))?;
    let delays = Arc::new(Delays::default());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    writeln!(io::stdout(), "{}", listener.local_addr()?.port())?;
    let accepted = Arc::clone(&delays);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // Its client sees a closed connection.
            let _ = forward(client, port, &accepted);
        }
    });
    for line in io::stdin().lock().lines() {
        let line = line?;
        let mut numbers = line.split(' ').map(str::parse);
        let (Some(Ok(up)), Some(Ok(down))) = (numbers.next(), numbers.next()) else {
            return Err(io::Error::other(format!("expected two numbers, got {line:?}")));
        };
        delays.up.store(up, Ordering::Relaxed);
        delays.down.store(down, Ordering::Relaxed);
        writeln!(io::stdout(), "set")?;
    }
    Ok(())
}

/// Forwards one connection, until either side closes it.
fn forward(client: TcpStream, port: u16, delays: &Arc<Delays>) -> io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    delay(client.try_clone()?, server.try_clone()?, Arc::clone(delays), |delays| &delays.up);
    delay(server, client, Arc::clone(delays), |delays| &delays.down);
    Ok(())
}

/// Starts the two threads of one direction.
fn delay(
    from: TcpStream,
    to: TcpStream,
    delays: Arc<Delays>,
    direction: fn(&Delays) -> &AtomicU64,
) {
    let (sender, receiver) = channel();
    thread::spawn(move || read(from, &sender, || direction(&delays).load(Ordering::Relaxed)));
    thread::spawn(move || write(to, &receiver));
}

fn read(mut from: TcpStream, sender: &Sender<Segment>, delay: impl Fn() -> u64) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let due = Instant::now() + Duration::from_micros(delay());
        if sender.send((due, buffer[..length].to_vec())).is_err() {
            break;
        }
    }
}

/// Writes segments when they are due. A segment never overtakes an earlier one.
fn write(mut to: TcpStream, receiver: &Receiver<Segment>) {
    for (due, bytes) in receiver {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    // Ends the reader of the other direction, too. The socket may be closed already.
    let _ = to.shutdown(Shutdown::Both);
}
