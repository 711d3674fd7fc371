//! Connects to a host with several addresses, as in RFC 8305 ("Happy Eyeballs").

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::sleep;

/// The time after which the next address is tried as well (RFC 8305, section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

pub(crate) async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    first_connected(interleaved(lookup_host((host, port)).await?.collect())).await
}

/// Alternates between the address families, and begins with that of the first address: one of the
/// families may have no route.
fn interleaved(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(first) = addresses.first().copied() else { return addresses };
    let is_first_family = |address: &SocketAddr| address.is_ipv4() == first.is_ipv4();
    let (mut one, mut other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(is_first_family);
    let mut order = Vec::new();
    one.reverse();
    other.reverse();
    while !(one.is_empty() && other.is_empty()) {
        order.extend(one.pop().into_iter().chain(other.pop()));
    }
    order
}

/// Tries the addresses in their order. The next attempt begins when the last one has failed, or
/// after [`ATTEMPT_DELAY`]. The first connection wins.
async fn first_connected(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut attempts = FuturesUnordered::new();
    let mut addresses = addresses.into_iter().peekable();
    loop {
        attempts.extend(addresses.next().map(TcpStream::connect));
        tokio::select! {
            attempt = attempts.next() => match attempt {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(why)) => failure = why,
                None => return Err(failure),
            },
            () = sleep(ATTEMPT_DELAY), if addresses.peek().is_some() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpSocket};

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    fn local() -> SocketAddr {
        "127.0.0.1:0".parse().unwrap()
    }

    #[test]
    fn addresses_of_both_families_take_turns() {
        let order = |texts: &[&str]| -> Vec<String> {
            let addresses = texts.iter().map(|text| text.parse().unwrap()).collect();
            interleaved(addresses).iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            order(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"]),
            ["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"]
        );
        assert_eq!(order(&["1.1.1.1:1", "[::1]:1"]), ["1.1.1.1:1", "[::1]:1"]);
        assert_eq!(order(&[]), Vec::<String>::new());
    }

    /// Attempts that wait for the first address would fail after minutes.
    #[cfg(target_os = "linux")]
    #[test]
    fn an_address_that_does_not_answer_delays_the_next_one_only_briefly() {
        runtime().block_on(async {
            // The kernel ignores connections to a listener whose queue is full.
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(local()).unwrap();
            let full = socket.listen(1).unwrap();
            let black_hole = full.local_addr().unwrap();
            let mut queued = Vec::new();
            loop {
                let attempt = TcpStream::connect(black_hole);
                match tokio::time::timeout(Duration::from_millis(300), attempt).await {
                    Ok(stream) => queued.push(stream.unwrap()),
                    Err(_) => break,
                }
            }
            let listener = TcpListener::bind(local()).await.unwrap();
            let healthy = listener.local_addr().unwrap();
            let connecting = first_connected(vec![black_hole, healthy]);
            let connected = tokio::time::timeout(Duration::from_secs(30), connecting).await;
            assert_eq!(connected.unwrap().unwrap().peer_addr().unwrap(), healthy);
        });
    }

    #[test]
    fn an_address_that_refuses_does_not_delay_the_next_one_and_the_last_failure_is_reported() {
        runtime().block_on(async {
            let closed = TcpListener::bind(local()).await.unwrap();
            let refusing = closed.local_addr().unwrap();
            drop(closed);
            let listener = TcpListener::bind(local()).await.unwrap();
            let healthy = listener.local_addr().unwrap();
            let connected = first_connected(vec![refusing, healthy]).await.unwrap();
            assert_eq!(connected.peer_addr().unwrap(), healthy);
            let failure = first_connected(vec![refusing, refusing]).await.unwrap_err();
            assert_eq!(failure.kind(), io::ErrorKind::ConnectionRefused);
            let failure = first_connected(Vec::new()).await.unwrap_err();
            assert_eq!(failure.kind(), io::ErrorKind::NotFound);
        });
    }
}
