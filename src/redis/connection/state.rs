//! The link to the server: it is made in the background, looked after, and made again whenever it breaks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::health::{About, Health, Pulse, Warning, pulse};
use super::route::{Connected, Route};
use crate::redis::batch::script_call::Failure;
use crate::redis::connection::connector::Line;

/// How long to wait before trying again to connect: first, and at most.
const PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// How often a link is looked after while it is well, and while it is not.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Why a link is gone, if nothing more is known.
const BROKE: &str = "the connection broke";

/// How long a server may be unwell before it is taken to be down: then calls fail at once.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Without a link.
    pub away: Duration,
    /// With a link on which nothing comes back, or over which the server tells that it can decide nothing.
    pub silent: Duration,
    /// After so long a silence the link is taken for dead, and another is made.
    pub dead: Duration,
}

/// How the connection stands.
#[derive(Clone)]
pub(crate) enum Link {
    /// A link, with its number: one that breaks is reported by it.
    Up(Line, u64),
    /// There is none just now, and why.
    Away(Arc<str>),
    /// The server is down: nothing can be hoped for by waiting; and why.
    Down(Arc<str>),
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up(_, number) => write!(f, "Up({number})"),
            Self::Away(why) => write!(f, "Away({why})"),
            Self::Down(why) => write!(f, "Down({why})"),
        }
    }
}

/// What the sender noticed.
enum Report {
    /// The link of this number broke.
    Broken(u64),
    /// A call got no decision: it is time to look after the link.
    Suspect,
}

/// A link as the keeper leaves it to the sender.
pub(crate) struct Links {
    current: watch::Receiver<Link>,
    reports: mpsc::UnboundedSender<Report>,
    /// The last link that was reported: the keeper may not have noticed yet.
    dead: Option<u64>,
}

/// What the keeper works on.
pub(crate) struct Keeper {
    route: Route,
    patience: Patience,
    board: Board,
    reports: mpsc::UnboundedReceiver<Report>,
}

/// Where the keeper shows how things stand.
struct Board {
    link: watch::Sender<Link>,
    health: watch::Sender<Health>,
    warn: Box<dyn Fn(Warning) + Send + Sync>,
}

impl Board {
    fn away(&self, why: &Arc<str>) {
        self.link.send_if_modified(|link| {
            let is_down = matches!(link, Link::Down(_));
            *link = if is_down { Link::Down(why.clone()) } else { Link::Away(why.clone()) };
            !is_down
        });
    }

    fn down(&self, why: &Arc<str>) {
        self.link.send_replace(Link::Down(why.clone()));
        self.health.send_if_modified(|health| {
            let was_down = matches!(health, Health::Down(_));
            *health = Health::Down(why.clone());
            !was_down
        });
    }

    fn up(&self, line: &Line, number: u64, about: &Arc<About>) {
        self.health.send_if_modified(|health| {
            let up = Health::Up(about.clone());
            let is_other = *health != up;
            *health = up;
            is_other
        });
        self.link.send_replace(Link::Up(line.clone(), number));
    }

    fn is_down(&self) -> bool {
        matches!(*self.link.borrow(), Link::Down(_))
    }
}

/// A keeper, to be run, and the links that it makes; and how the server is.
pub(crate) fn keeper(
    route: Route,
    patience: Patience,
    warn: impl Fn(Warning) + Send + Sync + 'static,
) -> (Keeper, Links, watch::Receiver<Health>) {
    let (reporter, reports) = mpsc::unbounded_channel();
    let (link, current) = watch::channel(Link::Away("still connecting".into()));
    let (health, health_of) = watch::channel(Health::Connecting);
    let board = Board { link, health, warn: Box::new(warn) };
    (
        Keeper { route, patience, board, reports },
        Links { current, reports: reporter, dead: None },
        health_of,
    )
}

impl Keeper {
    /// Connects, and again whenever the link has broken.
    pub(crate) async fn run(mut self) {
        let mut since = Instant::now();
        for number in 0.. {
            let mut connected = self.connected(since).await;
            self.board.up(&connected.opened.line, number, &connected.about);
            if let Some(found) = connected.warning.take() {
                (self.board.warn)(found);
            }
            let why = self.until_broken(connected, number).await;
            since = Instant::now();
            self.board.away(&why);
        }
    }

    /// Tries to connect until it succeeds; the server is down once that has taken too long.
    async fn connected(&mut self, since: Instant) -> Connected {
        let Self { route, patience, board, .. } = self;
        let mut pause = PAUSE;
        let patient_until = since + patience.away;
        loop {
            let connecting = route.connect();
            tokio::pin!(connecting);
            let connected = tokio::select! {
                connected = &mut connecting => connected,
                () = sleep_until(patient_until), if !board.is_down() => {
                    let why = match &*board.link.borrow() {
                        Link::Away(why) | Link::Down(why) => why.clone(),
                        Link::Up(..) => "there is no connection".into(),
                    };
                    board.down(&why);
                    connecting.await
                }
            };
            match connected {
                Ok(connected) => return connected,
                Err(why) if Instant::now() >= patient_until => board.down(&why),
                Err(why) => board.away(&why),
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Looks after the link until it has broken, also while nobody calls: else the next call would find it so,
    /// and could not know whether it had run. Tells why it is given up.
    async fn until_broken(&mut self, connected: Connected, number: u64) -> Arc<str> {
        let Self { route, patience, board, reports } = self;
        let Connected { mut opened, about, .. } = connected;
        let line = opened.line.clone();
        let mut connection = line.connection.clone();
        let is_lone = route.is_lone();
        let moved = route.moved();
        tokio::pin!(moved);
        // Since when it has been unwell.
        let mut since = None;
        loop {
            let pause = if since.is_none() { LOOK_EVERY } else { LOOK_AGAIN_AFTER };
            tokio::select! {
                report = reports.recv() => match report {
                    Some(Report::Broken(other)) if other != number => continue,
                    Some(Report::Broken(_)) | None => return BROKE.into(),
                    Some(Report::Suspect) => {}
                },
                () = &mut moved => return "the master is another".into(),
                () = opened.ended() => return BROKE.into(),
                () = sleep(pause) => {}
            }
            let asked = Instant::now();
            let found = pulse(&mut connection);
            tokio::pin!(found);
            let found = loop {
                let silent_from = since.unwrap_or(asked);
                tokio::select! {
                    found = &mut found => break found,
                    report = reports.recv() => match report {
                        Some(Report::Broken(other)) if other != number => {}
                        Some(Report::Broken(_)) | None => return BROKE.into(),
                        Some(Report::Suspect) => {}
                    },
                    () = &mut moved => return "the master is another".into(),
                    () = opened.ended() => return BROKE.into(),
                    () = sleep_until(silent_from + patience.silent), if !board.is_down() => {
                        board.down(&"Redis does not answer".into());
                    }
                    () = sleep_until(asked + patience.dead) => return "Redis does not answer".into(),
                }
            };
            let why = match found {
                Pulse::Well(_) => {
                    since = None;
                    if board.is_down() {
                        board.up(&line, number, &about);
                    }
                    continue;
                }
                Pulse::Broken(why) => return why,
                Pulse::Demoted if !is_lone => return "the master has become a replica".into(),
                Pulse::Demoted => "Redis is a replica, which writes nothing".into(),
                Pulse::Unwell(why) => why,
            };
            if asked.duration_since(*since.get_or_insert(asked)) >= patience.silent {
                board.down(&why);
            }
        }
    }
}

impl Links {
    /// How it stands: a link that has been reported is none.
    pub(crate) fn now(&self) -> Link {
        self.known(self.current.borrow().clone())
    }

    fn known(&self, link: Link) -> Link {
        match link {
            Link::Up(_, number) if self.dead == Some(number) => Link::Away(BROKE.into()),
            link => link,
        }
    }

    /// The link, once it is up; or why it is not by the deadline, or before it if the server is down.
    pub(crate) async fn up_before(&mut self, deadline: Instant) -> Result<(Line, u64), Failure> {
        let dead = self.dead;
        let is_clear = |link: &Link| match link {
            Link::Up(_, number) => Some(*number) != dead,
            Link::Away(_) => false,
            Link::Down(_) => true,
        };
        let found = timeout_at(deadline, self.current.wait_for(is_clear)).await;
        let link = match found.map(|found| found.map(|link| link.clone())) {
            Ok(Ok(link)) => link,
            // The keeper is gone only when the connection is.
            Ok(Err(_)) => return Err(Failure::Closed),
            Err(_) => self.current.borrow().clone(),
        };
        match self.known(link) {
            Link::Up(line, number) => Ok((line, number)),
            Link::Away(why) | Link::Down(why) => Err(Failure::Unavailable(why)),
        }
    }

    /// Why the server is down, as soon as it is; nothing if it is not by the deadline.
    pub(crate) async fn down_before(&mut self, deadline: Instant) -> Option<Failure> {
        let is_down = |link: &Link| matches!(link, Link::Down(_));
        match timeout_at(deadline, self.current.wait_for(is_down)).await {
            Ok(Ok(link)) => match &*link {
                Link::Down(why) => Some(Failure::Unavailable(why.clone())),
                _ => None,
            },
            Ok(Err(_)) => Some(Failure::Closed),
            Err(_) => None,
        }
    }

    /// Watches how the connection stands.
    pub(crate) fn watch(&self) -> watch::Receiver<Link> {
        self.current.clone()
    }

    /// Reports a link broken.
    pub(crate) fn report(&mut self, number: u64) {
        self.dead = Some(number);
        self.tell(Report::Broken(number));
    }

    /// Has the link looked after at once.
    pub(crate) fn suspect(&self) {
        self.tell(Report::Suspect);
    }

    fn tell(&self, report: Report) {
        // The keeper is gone only when the connection is.
        let _unheard = self.reports.send(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::connection::connector::{Access, Address, Credentials, Login};

    /// Whatever is dropped first: who waits for a link of a connection that is being dropped hears that
    /// it has been closed, not that the server is away.
    #[test]
    fn without_a_keeper_the_connection_is_closed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let second = Duration::from_secs(1);
        let credentials = Credentials::Fixed(Login::default());
        let access = Access { credentials, tls: None, database: 0, timeout: second };
        let route = Route::direct(Address::Tcp("127.0.0.1".into(), 1), access);
        let patience = Patience { away: second, silent: second, dead: second };
        let (keeper, mut links, _) = keeper(route, patience, |_| {});
        drop(keeper);
        let found = runtime.block_on(links.up_before(Instant::now() + Duration::from_secs(60)));
        assert_eq!(found.err(), Some(Failure::Closed));
    }
}
