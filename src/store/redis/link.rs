//! The link to the server: it is made in the background, and again whenever it breaks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::job::Failure;

/// How long to wait before trying again to connect.
const PAUSE: Duration = Duration::from_millis(25);

/// How often a link is looked after.
const PROBE_EVERY: Duration = Duration::from_millis(250);

/// How the connection stands.
#[derive(Clone)]
pub(super) enum Link {
    /// A link, with its number: one that breaks is reported by it.
    Up(MultiplexedConnection, u64),
    /// There is none, and why.
    Down(Arc<str>),
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up(_, number) => write!(f, "Up({number})"),
            Self::Down(why) => write!(f, "Down({why})"),
        }
    }
}

/// A link as the keeper leaves it to the sender.
pub(super) struct Links {
    current: watch::Receiver<Link>,
    broken: mpsc::UnboundedSender<u64>,
    /// The last link that was reported: the keeper may not have noticed yet.
    dead: Option<u64>,
}

/// What the keeper works on.
pub(super) struct Keeper {
    client: Client,
    connect_timeout: Duration,
    current: watch::Sender<Link>,
    breaks: mpsc::UnboundedReceiver<u64>,
}

/// A keeper, to be run, and the links that it makes.
pub(super) fn keeper(client: Client, connect_timeout: Duration) -> (Keeper, Links) {
    let (broken, breaks) = mpsc::unbounded_channel();
    let (sender, current) = watch::channel(Link::Down("still connecting".into()));
    (
        Keeper { client, connect_timeout, current: sender, breaks },
        Links { current, broken, dead: None },
    )
}

impl Keeper {
    /// Connects, and again whenever the link is reported broken.
    pub(super) async fn run(mut self) {
        // Deadlines are the sender's: a timeout of the client's would break links that are well.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(None);
        for number in 0.. {
            let link = loop {
                match self.client.get_multiplexed_async_connection_with_config(&config).await {
                    Ok(connection) => break Link::Up(connection, number),
                    Err(error) => {
                        self.current.send_replace(Link::Down(error.to_string().into()));
                    }
                }
                sleep(PAUSE).await;
            };
            self.current.send_replace(link.clone());
            if let Link::Up(connection, _) = link {
                self.until_broken(connection, number).await;
            }
            self.current.send_replace(Link::Down("reconnecting".into()));
        }
    }

    /// Waits until the link is reported broken, or is found to be while nobody calls: else the next
    /// call would find it so, and could not know whether it had run.
    async fn until_broken(&mut self, mut connection: MultiplexedConnection, number: u64) {
        loop {
            tokio::select! {
                broken = self.breaks.recv() => match broken {
                    // A report of a link before this one comes late.
                    Some(other) if other != number => {}
                    _ => return,
                },
                () = sleep(PROBE_EVERY) => {
                    let ping = redis::cmd("PING");
                    let probe = timeout(PROBE_EVERY, connection.send_packed_command(&ping)).await;
                    // A server that does not answer may be busy: its link is well.
                    if probe.is_ok_and(|reply| reply.is_err_and(|error| error.is_io_error())) {
                        return;
                    }
                }
            }
        }
    }
}

impl Links {
    /// The link, once it is up; or why it is not by the deadline.
    pub(super) async fn up_before(
        &mut self,
        deadline: Instant,
    ) -> Result<(MultiplexedConnection, u64), Failure> {
        let dead = self.dead;
        let is_up = |link: &Link| matches!(link, Link::Up(_, number) if Some(*number) != dead);
        let found = timeout_at(deadline, self.current.wait_for(is_up)).await;
        let link = match found.map(|found| found.map(|link| link.clone())) {
            Ok(Ok(link)) => link,
            // The keeper is gone only when the connection is.
            Ok(Err(_)) => return Err(Failure::Closed),
            Err(_) => self.current.borrow().clone(),
        };
        match link {
            Link::Up(connection, number) if Some(number) != dead => Ok((connection, number)),
            Link::Up(..) => Err(Failure::Unavailable("the connection broke".into())),
            Link::Down(why) => Err(Failure::Unavailable(why)),
        }
    }

    /// Watches how the connection stands.
    pub(super) fn watch(&self) -> watch::Receiver<Link> {
        self.current.clone()
    }

    /// Reports a link broken.
    pub(super) fn report(&mut self, number: u64) {
        self.dead = Some(number);
        // The keeper is gone only when the connection is.
        let _unheard = self.broken.send(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is dropped first: who waits for a link of a connection that is being dropped hears that
    /// it has been closed, not that the server is away.
    #[test]
    fn without_a_keeper_the_connection_is_closed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = Client::open("redis://127.0.0.1:1").unwrap();
        let (keeper, mut links) = keeper(client, Duration::from_secs(1));
        drop(keeper);
        let found = runtime.block_on(links.up_before(Instant::now() + Duration::from_secs(60)));
        assert_eq!(found.unwrap_err(), Failure::Closed);
    }
}
