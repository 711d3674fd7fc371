//! Connects to a host with several addresses, as in RFC 8305 ("Happy Eyeballs").

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::net::lookup_host;
use tokio::time::sleep;

/// The time after which the next address is tried as well (RFC 8305, section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// The addresses of a host, in the order in which they are tried. There is at least one.
pub(crate) async fn addresses_of(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let addresses: Vec<_> = lookup_host((host, port)).await?.collect();
    match addresses.is_empty() {
        true => Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address")),
        false => Ok(interleaved(addresses)),
    }
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
/// after [`ATTEMPT_DELAY`]. The first success wins; otherwise the last failure is returned. An
/// attempt includes the checks of the server: a server that cannot serve may accept connections.
pub(crate) async fn first_success<A, T, E, F: Future<Output = Result<T, E>>>(
    addresses: Vec<A>,
    attempt: impl Fn(A) -> F,
) -> Result<T, E>
where
    E: From<&'static str>,
{
    let mut failure = E::from("there is no address");
    let mut attempts = FuturesUnordered::new();
    let mut addresses = addresses.into_iter().peekable();
    loop {
        attempts.extend(addresses.next().map(&attempt));
        tokio::select! {
            attempt = attempts.next() => match attempt {
                Some(Ok(success)) => return Ok(success),
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
    use std::future::{pending, ready};

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
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

    #[test]
    fn an_attempt_without_a_result_delays_the_next_one_only_briefly() {
        let attempt = |address| async move {
            match address {
                "silent" => pending().await,
                _ => Ok::<_, &str>(address),
            }
        };
        let connecting = async {
            let first = first_success(vec!["silent", "silent", "healthy"], attempt);
            tokio::time::timeout(Duration::from_secs(30), first).await
        };
        assert_eq!(runtime().block_on(connecting).unwrap(), Ok("healthy"));
    }

    #[test]
    fn a_failure_starts_the_next_attempt_and_the_last_failure_is_reported() {
        let attempt = |address: &'static str| {
            ready(if address == "healthy" { Ok(address) } else { Err(address) })
        };
        runtime().block_on(async {
            let found = first_success(vec!["a", "b", "healthy", "c"], attempt).await;
            assert_eq!(found, Ok("healthy"));
            assert_eq!(first_success(vec!["a", "b"], attempt).await, Err("b"));
        });
    }
}
