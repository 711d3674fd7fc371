//! Sends slot requests to the nodes that own their slots, and follows slots that move.
//!
//! One task does it all. A request that surely has not run is sent again until its deadline, in its
//! slot's order, to the node that owns the slot then. A request that may have run is never sent
//! again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::node::Unavailability;
use super::topology::{Topology, TopologyResult};
use crate::redis::batch::pending_calls::ErrorMeaning;
use crate::redis::batch::script_call::ScriptFailure;
use crate::redis::cluster::node_request::{NodeReply, NodeRequest, NodeRequestOutcome, node_reply};
use crate::redis::cluster::slot_queues::SlotQueues;
use crate::redis::cluster::slot_request::SlotRequest;
use crate::redis::connection::{Address, FlushRequest, Health};

/// The pause before a retry of a request that could not run.
const RETRY_PAUSE: Duration = Duration::from_millis(25);

/// The interval of checks of the topology and of the nodes' health.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// After more redirects than this, the nodes disagree about the owner: the request pauses.
const MAX_REDIRECTS: u32 = 5;

enum RouterEvent {
    RequestDone(NodeRequestOutcome),
    TopologyQueried(TopologyResult),
}

pub(crate) struct Router {
    topology: Topology,
    queues: SlotQueues,
    events: FuturesUnordered<BoxFuture<'static, RouterEvent>>,
    completed: Vec<FlushRequest>,
    requests: Vec<NodeRequest>,
    health: watch::Sender<Health>,
}

impl Router {
    pub(crate) fn new(topology: Topology, health: watch::Sender<Health>) -> Self {
        let (queues, events) = (SlotQueues::default(), FuturesUnordered::new());
        Self { topology, queues, events, completed: Vec::new(), requests: Vec::new(), health }
    }

    /// Routes requests until the sending end of `incoming` is dropped.
    pub(crate) async fn run(mut self, mut incoming: mpsc::UnboundedReceiver<FlushRequest>) {
        let mut check_at = Instant::now();
        loop {
            let now = Instant::now();
            if now >= check_at {
                self.check_cluster();
                check_at =
                    now + if self.queues.has_deferred() { RETRY_PAUSE } else { CHECK_INTERVAL };
            }
            self.send_and_report();
            if self.queues.has_deferred() {
                check_at = check_at.min(now + RETRY_PAUSE);
            }
            let wake =
                self.queues.next_deadline().map_or(check_at, |deadline| deadline.min(check_at));
            tokio::select! {
                Some(event) = self.events.next(), if !self.events.is_empty() => self.on_event(event),
                request = incoming.recv() => match request {
                    Some(request) => self.accept(request),
                    None => return,
                },
                () = sleep_until(wake) => self.expire(),
            }
        }
    }

    /// Splits a flush by slot, and adds the parts to the slots' queues.
    fn accept(&mut self, request: FlushRequest) {
        let (slot_requests, cross_slot) = SlotRequest::by_slot(request);
        if let Some(cross_slot) = cross_slot {
            self.fail(cross_slot, &ScriptFailure::CrossSlot);
        }
        for request in slot_requests {
            let slot = request.slot;
            if self.queues.enqueue(request) {
                self.advance(slot);
            }
        }
    }

    /// Sends the next requests of a slot if possible; otherwise defers the slot.
    fn advance(&mut self, slot: u16) {
        let now = Instant::now();
        if self.queues.is_paused(slot, now) {
            return;
        }
        loop {
            let mut requests = self.queues.start_next(slot, now);
            let Some(first) = requests.first_mut() else { return };
            let destination = self.destination(first);
            let (mut to_send, mut wait_reason) = (Vec::new(), None);
            for request in requests {
                let is_in_time = now < request.part.deadline;
                let why = match &destination {
                    Ok(_) if is_in_time => {
                        to_send.push(request);
                        continue;
                    }
                    Err(Unavailability { is_down: false, why }) if is_in_time => {
                        self.queues.complete(slot, [request]);
                        wait_reason = Some(Arc::clone(why));
                        continue;
                    }
                    Ok(_) => "there was no time left to send it".into(),
                    Err(unavailable) => unavailable.why.clone(),
                };
                self.queues.complete(slot, []);
                self.fail(request.part, &ScriptFailure::Unavailable(why));
            }
            if let Some(why) = wait_reason {
                self.queues.defer(slot, Duration::ZERO, why);
                return;
            }
            if let (Ok(node), false) = (destination, to_send.is_empty()) {
                self.add_to_node_request(node, to_send);
                return;
            }
        }
    }

    /// The node to which a request can be sent now.
    fn destination(&mut self, request: &mut SlotRequest) -> Result<Address, Unavailability> {
        // If the node of the ASK redirect is not available, the next attempt goes to the slot's
        // owner, whose reply may be different by then.
        if let Some(ask) = request.ask.take() {
            if let Err(unavailable) = self.topology.node(&ask).availability() {
                return Err(Unavailability { is_down: false, ..unavailable });
            }
            request.ask = Some(ask.clone());
            return Ok(ask);
        }
        self.topology.availability()?;
        let Some(owner) = self.topology.owner(request.slot).cloned() else {
            // The slot may get an owner while all known masters are healthy.
            self.topology.is_stale = true;
            let why = "no node of the cluster owns the key's slot".into();
            return Err(Unavailability { is_down: false, why });
        };
        self.topology.node(&owner).availability()?;
        Ok(owner)
    }

    /// Adds requests of one slot to the request with the same node and deadline.
    fn add_to_node_request(&mut self, node: Address, slot_requests: Vec<SlotRequest>) {
        let deadlines = slot_requests.iter().map(|slot_request| slot_request.part.deadline);
        let Some(deadline) = deadlines.max() else { return };
        let same =
            |request: &&mut NodeRequest| request.deadline == deadline && request.node == node;
        match self.requests.iter_mut().find(same) {
            Some(request) => request.slot_requests.extend(slot_requests),
            None => self.requests.push(NodeRequest { node, deadline, slot_requests, sharing: 0 }),
        }
    }

    fn send_and_report(&mut self) {
        let now = Instant::now();
        for mut request in std::mem::take(&mut self.requests) {
            let node = self.topology.node(&request.node);
            match node.session() {
                Ok((session, session_id)) => {
                    node.on_request_sent(now, &mut request);
                    let removed = node.removed.subscribe();
                    let may_share = node.sharing.is_granted(now);
                    let sending =
                        request.send(session, session_id, removed, &node.server_time, may_share);
                    self.events.push(sending.map(RouterEvent::RequestDone).boxed());
                }
                // The session has broken since the destination was selected.
                Err(Unavailability { why, .. }) => {
                    for request in request.slot_requests {
                        let slot = request.slot;
                        self.queues.complete(slot, [request]);
                        self.queues.defer(slot, Duration::ZERO, Arc::clone(&why));
                    }
                }
            }
        }
        if !self.completed.is_empty() {
            FlushRequest::report_all(std::mem::take(&mut self.completed));
        }
    }

    fn on_event(&mut self, event: RouterEvent) {
        match event {
            RouterEvent::RequestDone(outcome) => self.on_request_done(outcome),
            RouterEvent::TopologyQueried(result) => {
                self.topology.apply(result);
                self.check_cluster();
            }
        }
    }

    fn on_request_done(&mut self, outcome: NodeRequestOutcome) {
        let NodeRequestOutcome { request, session_id, replies } = outcome;
        let NodeRequest { node: address, slot_requests, sharing, .. } = request;
        if let Some(node) = self.topology.nodes.get_mut(&address) {
            node.on_request_done(session_id, replies.is_ok());
            if let Err(ScriptFailure::Broken(_)) = &replies {
                node.report_broken(session_id);
            }
            if let Ok(replies) = &replies {
                node.sharing.on_replies(&replies[..sharing], Instant::now());
            }
        }
        let replies = match replies {
            Ok(replies) => replies,
            Err(error) => {
                self.topology.is_stale = true;
                let failure = match error {
                    ScriptFailure::Closed => {
                        ScriptFailure::Broken("another node has taken over its slots".into())
                    }
                    error => error,
                };
                for request in slot_requests {
                    let slot = request.slot;
                    self.queues.complete(slot, []);
                    self.fail(request.part, &failure);
                    self.advance(slot);
                }
                return;
            }
        };
        for (request, reply) in slot_requests.into_iter().zip(replies) {
            let slot = request.slot;
            self.on_reply(request, node_reply(reply, &address), &address);
            self.advance(slot);
        }
    }

    fn on_reply(&mut self, mut request: SlotRequest, reply: NodeReply, node: &Address) {
        let slot = request.slot;
        // It must not be sent again: its calls have failed at their deadline.
        if request.part.is_reported {
            self.queues.complete(slot, []);
            return;
        }
        let mut pause_reason = None;
        match reply {
            NodeReply::Answer(answer) => {
                let server_time = &self.topology.node(node).server_time;
                if request.on_answer(answer, server_time) {
                    self.queues.complete(slot, []);
                    self.completed.push(request.part);
                    return;
                }
            }
            NodeReply::Moved(address) => {
                self.queues.mark_migrating(slot);
                self.topology.set_owner(slot, address);
                request.reset();
                request.redirects += 1;
            }
            NodeReply::Ask(address) => {
                self.queues.mark_migrating(slot);
                request.reset();
                request.ask = Some(address);
                request.redirects += 1;
            }
            NodeReply::NotRun(ErrorMeaning::SlotMigrating, why) => {
                self.queues.mark_migrating(slot);
                request.reset();
                let mut calls = request.by_call();
                // A single call whose keys are on two nodes waits until they are on one.
                let is_single = calls.len() == 1;
                calls.iter_mut().for_each(|request| request.redirects = 0);
                self.queues.complete(slot, calls);
                if is_single {
                    self.queues.defer(slot, RETRY_PAUSE, why);
                }
                return;
            }
            NodeReply::MustDeclareKeys => request.declares_keys = true,
            NodeReply::NotRun(ErrorMeaning::UnknownScript, _) => request.with_source = true,
            NodeReply::NotRun(ErrorMeaning::TransactionAborted, _) => request.redirects += 1,
            NodeReply::NotRun(_, why) => {
                self.topology.is_stale = true;
                self.topology.node(node).request_health_check();
                request.reset();
                pause_reason = Some(why);
            }
        }
        if request.redirects > MAX_REDIRECTS {
            request.redirects = 0;
            let why = "the nodes of the cluster do not agree which node owns the slot";
            pause_reason = Some(why.into());
        }
        self.queues.complete(slot, [request]);
        if let Some(why) = pause_reason {
            self.queues.defer(slot, RETRY_PAUSE, why);
        }
    }

    fn fail(&mut self, mut request: FlushRequest, failure: &ScriptFailure) {
        if !request.is_reported {
            request.fail(failure);
            self.completed.push(request);
        }
    }

    /// Fails the queued requests whose deadline has passed.
    fn expire(&mut self) {
        for (request, why) in self.queues.take_expired(Instant::now()) {
            let why = why.unwrap_or_else(|| "earlier calls on its slot were not answered".into());
            self.fail(request.part, &ScriptFailure::Unavailable(why));
        }
    }

    fn retry_deferred(&mut self) {
        for slot in self.queues.deferred() {
            self.advance(slot);
        }
    }

    /// Queries the topology if due, publishes the health, and retries the deferred slots.
    fn check_cluster(&mut self) {
        if let Some(query) = self.topology.query() {
            self.events.push(query.map(RouterEvent::TopologyQueried).boxed());
        }
        let health = self.topology.health();
        self.health.send_if_modified(|published| {
            // The node that reports the health does not matter. A cluster that is down stays down
            // until a master is up.
            let is_same = match (&*published, &health) {
                (Health::Down(one), Health::Down(other)) => one == other,
                (Health::Connecting | Health::Down(_), Health::Connecting)
                | (Health::Up(_), Health::Up(_)) => true,
                _ => false,
            };
            if !is_same {
                *published = health;
            }
            !is_same
        });
        self.retry_deferred();
    }
}
