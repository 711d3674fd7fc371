//! Sends the parts of rounds to the nodes that own their slots, and follows the slots.
//!
//! One task does it all. What has surely not run goes again, in its slot's order, until its deadline: to
//! the node that owns the slot then. What may have run is never sent again.

use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::node::Reach;
use super::topology::{Told, Topology};
use crate::redis::batch::script_call::Failure;
use crate::redis::cluster::node_request::{Lost, Request, Said, Sent, said};
use crate::redis::cluster::slot_queues::Lanes;
use crate::redis::cluster::slot_request::{Piece, tell};
use crate::redis::connection::{Address, Health};
use crate::redis::slot::CROSS_SLOT;

/// How long to wait before sending again what could not be run just now.
const PAUSE: Duration = Duration::from_millis(25);

/// How often the nodes are looked after.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A piece that has been sent elsewhere so often has met nodes that do not agree: it pauses.
const MOST_HOPS: u32 = 5;

/// What has come about.
enum Event {
    Sent(Sent),
    Told(Option<Told>),
}

pub(crate) struct Router {
    topology: Topology,
    lanes: Lanes,
    events: FuturesUnordered<BoxFuture<'static, Event>>,
    settled: Vec<Piece>,
    /// What is to be sent.
    requests: Vec<Request>,
    health: watch::Sender<Health>,
}

impl Router {
    pub(crate) fn new(topology: Topology, health: watch::Sender<Health>) -> Self {
        let (lanes, events) = (Lanes::default(), FuturesUnordered::new());
        Self { topology, lanes, events, settled: Vec::new(), requests: Vec::new(), health }
    }

    /// Routes what comes until nobody sends any more.
    pub(crate) async fn run(mut self, mut incoming: mpsc::UnboundedReceiver<Piece>) {
        let mut look_at = Instant::now();
        loop {
            let now = Instant::now();
            if now >= look_at {
                self.look_after();
                look_at = now + if self.lanes.has_parked() { PAUSE } else { LOOK_EVERY };
            }
            self.flush();
            if self.lanes.has_parked() {
                look_at = look_at.min(now + PAUSE);
            }
            let wake = self.lanes.next_deadline().map_or(look_at, |deadline| deadline.min(look_at));
            tokio::select! {
                Some(event) = self.events.next(), if !self.events.is_empty() => self.happened(event),
                round = incoming.recv() => match round {
                    Some(round) => self.begin(round),
                    None => return,
                },
                () = sleep_until(wake) => self.expire(),
            }
        }
    }

    /// Splits a round, and puts its pieces into their lanes.
    fn begin(&mut self, round: Piece) {
        let (pieces, crossing) = round.by_slot();
        if let Some(crossing) = crossing {
            self.fail(crossing, &Failure::Refused(CROSS_SLOT.into()));
        }
        for piece in pieces {
            let slot = piece.slot;
            if self.lanes.add(piece) {
                self.advance(slot);
            }
        }
    }

    /// Sends the next pieces of a slot, if they can be sent; or has them wait.
    fn advance(&mut self, slot: u16) {
        let now = Instant::now();
        if self.lanes.is_paused(slot, now) {
            return;
        }
        loop {
            let mut pieces = self.lanes.start(slot, now);
            let Some(first) = pieces.first_mut() else { return };
            let way = self.way(first);
            let (mut to_send, mut must_wait) = (Vec::new(), false);
            for piece in pieces {
                let is_in_time = now < piece.deadline();
                let why = match &way {
                    Ok(_) if is_in_time => {
                        to_send.push(piece);
                        continue;
                    }
                    Err(Reach::Away(_) | Reach::Up) if is_in_time => {
                        self.lanes.freed(slot, [piece]);
                        must_wait = true;
                        continue;
                    }
                    Ok(_) => "there was no time left to send it".into(),
                    Err(Reach::Down(why) | Reach::Away(why)) => why.clone(),
                    Err(Reach::Up) => "no node of the cluster owns the key's slot".into(),
                };
                self.lanes.freed(slot, []);
                self.fail(piece, &Failure::Unavailable(why));
            }
            if must_wait {
                self.lanes.park(slot, None);
                return;
            }
            if let (Ok(node), false) = (way, to_send.is_empty()) {
                self.put(node, to_send);
                return;
            }
        }
    }

    /// The node to which a piece can be sent now, or why there is none.
    fn way(&mut self, piece: &mut Piece) -> Result<Address, Reach> {
        // If the other node cannot be asked, the owner may know more by then.
        if let Some(asked) = piece.ask.take() {
            return match self.topology.node(&asked).reach() {
                Reach::Up => {
                    piece.ask = Some(asked.clone());
                    Ok(asked)
                }
                Reach::Away(why) | Reach::Down(why) => Err(Reach::Away(why)),
            };
        }
        match self.topology.reach() {
            Reach::Up => {}
            away => return Err(away),
        }
        let Some(owner) = self.topology.owner(piece.slot).cloned() else { return Err(Reach::Up) };
        match self.topology.node(&owner).reach() {
            Reach::Up => Ok(owner),
            away => Err(away),
        }
    }

    /// Puts pieces of a slot to others that go to the same node until the same time.
    fn put(&mut self, node: Address, pieces: Vec<Piece>) {
        let Some(deadline) = pieces.iter().map(Piece::deadline).max() else { return };
        let same = |request: &&mut Request| request.deadline == deadline && request.node == node;
        match self.requests.iter_mut().find(same) {
            Some(request) => request.pieces.extend(pieces),
            None => self.requests.push(Request { node, deadline, pieces }),
        }
    }

    /// Sends and tells what there is.
    fn flush(&mut self) {
        let now = Instant::now();
        for request in std::mem::take(&mut self.requests) {
            let node = self.topology.node(&request.node);
            match node.link() {
                Some((connection, link)) => {
                    node.asked(now);
                    let sending = request.send(connection, link, node.left(), &node.server_time);
                    self.events.push(sending.map(Event::Sent).boxed());
                }
                // It has gone away this very moment.
                None => {
                    for piece in request.pieces {
                        let slot = piece.slot;
                        self.lanes.freed(slot, [piece]);
                        self.lanes.park(slot, None);
                    }
                }
            }
        }
        if !self.settled.is_empty() {
            tell(std::mem::take(&mut self.settled));
        }
    }

    fn happened(&mut self, event: Event) {
        match event {
            Event::Sent(sent) => self.answered(sent),
            Event::Told(told) => {
                self.topology.told(told);
                self.look_after();
            }
        }
    }

    /// Takes what came of a request.
    fn answered(&mut self, sent: Sent) {
        let Sent { request: Request { node: address, pieces, .. }, link, replies } = sent;
        if let Some(node) = self.topology.nodes.get_mut(&address) {
            node.done(replies.is_ok());
            if let Err(Lost::Broken(_)) = &replies {
                node.broke(link);
            }
        }
        let replies = match replies {
            Ok(replies) => replies,
            Err(lost) => {
                self.topology.doubt();
                let failure = match lost {
                    Lost::InTime => Failure::TimedOut,
                    Lost::Left => Failure::Broken("another node has taken its slots".into()),
                    Lost::Broken(why) => Failure::Broken(why),
                };
                for piece in pieces {
                    let slot = piece.slot;
                    self.lanes.freed(slot, []);
                    self.fail(piece, &failure);
                    self.advance(slot);
                }
                return;
            }
        };
        for (piece, reply) in pieces.into_iter().zip(replies) {
            let slot = piece.slot;
            self.heard(piece, said(reply, &address), &address);
            self.advance(slot);
        }
    }

    /// Takes what a node has said of a piece.
    fn heard(&mut self, mut piece: Piece, said: Said, node: &Address) {
        let slot = piece.slot;
        let mut pause = None;
        match said {
            Said::Answer(answer) => {
                let server_time = &self.topology.node(node).server_time;
                if piece.hear(answer, server_time) {
                    self.lanes.freed(slot, []);
                    self.settled.push(piece);
                    return;
                }
            }
            Said::Unknown => piece.with_source = true,
            Said::Moved(address) => {
                self.lanes.moves(slot);
                self.topology.moved(slot, address);
                piece.rewind();
                piece.hops += 1;
            }
            Said::Ask(address) => {
                self.lanes.moves(slot);
                piece.rewind();
                piece.ask = Some(address);
                piece.hops += 1;
            }
            Said::Torn(why) => {
                self.lanes.moves(slot);
                piece.rewind();
                let mut calls = piece.by_call();
                // A single call whose keys are at two nodes waits until they are at one.
                let pause = (calls.len() == 1).then_some((PAUSE, why));
                calls.iter_mut().for_each(|piece| piece.hops = 0);
                self.lanes.freed(slot, calls);
                if pause.is_some() {
                    self.lanes.park(slot, pause);
                }
                return;
            }
            Said::Held => piece.hops += 1,
            Said::NotNow(why) => {
                self.topology.doubt();
                piece.rewind();
                pause = Some((PAUSE, why));
            }
        }
        if piece.hops > MOST_HOPS {
            piece.hops = 0;
            pause = Some((PAUSE, "the nodes of the cluster do not agree who owns the slot".into()));
        }
        self.lanes.freed(slot, [piece]);
        if pause.is_some() {
            self.lanes.park(slot, pause);
        }
    }

    fn fail(&mut self, mut piece: Piece, failure: &Failure) {
        piece.fail(failure);
        self.settled.push(piece);
    }

    /// Settles what has run out of time while it waited, and tries again what waits to be sent again.
    fn expire(&mut self) {
        // Those that could not be sent say why.
        self.retry();
        for (piece, why) in self.lanes.expired(Instant::now()) {
            let why = why.unwrap_or_else(|| "earlier calls on its slot were not answered".into());
            self.fail(piece, &Failure::Unavailable(why));
        }
    }

    fn retry(&mut self) {
        for slot in self.lanes.parked() {
            self.advance(slot);
        }
    }

    /// Looks after the nodes.
    fn look_after(&mut self) {
        if let Some(asking) = self.topology.ask() {
            self.events.push(asking.map(Event::Told).boxed());
        }
        let health = self.topology.health();
        self.health.send_if_modified(|shown| {
            // It is the same cluster, whichever node tells of it.
            let is_same = matches!(
                (&*shown, &health),
                (Health::Connecting, Health::Connecting)
                    | (Health::Up(_), Health::Up(_))
                    | (Health::Down(_), Health::Down(_) | Health::Connecting)
            );
            if !is_same {
                *shown = health;
            }
            !is_same
        });
        self.retry();
    }
}
