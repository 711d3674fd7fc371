//! A node of the cluster: the link to it, and how it stands.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::redis::connection::{
    About, Access, Address, Health, Link, Links, Patience, Route, ServerTime, Warning, keeper,
};

/// A node that has answered nothing for so long, while it was asked, may be away.
const SILENCE: Duration = Duration::from_millis(250);

/// How nodes are reached, and who hears what should not remain as it is.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) access: Access,
    pub(crate) patience: Patience,
    warn: Arc<dyn Fn(Warning) + Send + Sync>,
}

impl Connector {
    /// What several nodes have in common is said once.
    pub(crate) fn new(
        access: Access,
        patience: Patience,
        warn: impl Fn(Warning) + Send + Sync + 'static,
    ) -> Self {
        let said = Mutex::new(Vec::new());
        let warn = move |warning: Warning| {
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            if !said.contains(&warning) {
                said.push(warning.clone());
                warn(warning);
            }
        };
        Self { access, patience, warn: Arc::new(warn) }
    }
}

/// Whether a node can be asked.
pub(crate) enum Reach {
    /// It can.
    Up,
    /// It cannot just now, and why.
    Away(Arc<str>),
    /// Nothing can be hoped for by waiting, and why.
    Down(Arc<str>),
}

/// A node and the link to it, which is kept up until this is dropped.
pub(crate) struct Node {
    links: Links,
    health: watch::Receiver<Health>,
    keeper: JoinHandle<()>,
    pub(crate) server_time: ServerTime,
    /// When it was asked first of what it has not answered, as far as it has answered nothing since.
    asked_at: Option<Instant>,
    pub(crate) under_way: usize,
    pub(crate) used_at: Instant,
    /// Ends with the node: requests do not wait for it then.
    left: watch::Sender<()>,
}

impl Node {
    /// Begins to connect.
    pub(crate) fn open(address: &Address, connector: &Connector) -> Self {
        let Connector { access, patience, warn } = connector.clone();
        let route = Route::direct(address.clone(), access);
        let (keeper, links, health) = keeper(route, patience, move |warning| warn(warning));
        Self {
            links,
            health,
            keeper: tokio::spawn(keeper.run()),
            server_time: ServerTime::default(),
            asked_at: None,
            under_way: 0,
            used_at: Instant::now(),
            left: watch::Sender::new(()),
        }
    }

    /// Ends when the node is dropped.
    pub(crate) fn left(&self) -> watch::Receiver<()> {
        self.left.subscribe()
    }

    /// Whether it can be asked.
    pub(crate) fn reach(&self) -> Reach {
        match self.links.now() {
            Link::Up(..) => Reach::Up,
            Link::Away(why) => Reach::Away(why),
            Link::Down(why) => Reach::Down(why),
        }
    }

    /// The link, with its number.
    pub(crate) fn link(&self) -> Option<(MultiplexedConnection, u64)> {
        match self.links.now() {
            Link::Up(line, number) => Some((line.connection, number)),
            Link::Away(_) | Link::Down(_) => None,
        }
    }

    /// What it tells of itself, if it is up.
    pub(crate) fn about(&self) -> Option<Arc<About>> {
        match &*self.health.borrow() {
            Health::Up(about) => Some(Arc::clone(about)),
            _ => None,
        }
    }

    /// Whether it can be asked, and answers.
    pub(crate) fn is_well(&self, now: Instant) -> bool {
        let is_slow = self.asked_at.is_some_and(|asked| now > asked + SILENCE);
        matches!(self.reach(), Reach::Up) && !is_slow
    }

    pub(crate) fn asked(&mut self, now: Instant) {
        self.under_way += 1;
        self.used_at = now;
        self.asked_at.get_or_insert(now);
    }

    /// It has answered, or a request has had all of its time.
    pub(crate) fn done(&mut self, has_answered: bool) {
        // It may be another than the one that was asked, at the same address.
        self.under_way = self.under_way.saturating_sub(1);
        if self.under_way == 0 {
            self.asked_at = None;
        } else if has_answered {
            self.asked_at = Some(Instant::now());
        }
        if !has_answered {
            self.links.suspect();
        }
    }

    pub(crate) fn broke(&mut self, link: u64) {
        self.links.report(link);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}
