//! Concurrency: at most so many units at a time, held by permits.
//!
//! An admitted call gets a *permit* for its units. The permit ends when it is released, or when it
//! expires because its holder did not renew it: a holder that was killed frees its units by itself.
//!
//! **Law:** at any time of the deciding clock, the permits that have not expired hold at most limit
//! units in total. So this is no law about windows: a rate bounds how often work starts, and permits
//! bound how much of it goes on. Work goes on beyond its permit only if the holder ignores that the
//! permit has expired.
//!
//! *Proof.* Units are added only by an admission, which leaves them at most at the limit. A renewal
//! extends a permit that has not expired, and adds no units. An expired permit is dropped before
//! each decision, and never comes back.
//!
//! **Promise:** a call is admitted if its cost, the units of all permits and those of all tickets
//! before it are at most limit together, up to [`MAX_PERMITS`] permits.
//!
//! **Tickets.** A call that waits and is refused leaves a ticket: since when it has waited, and its
//! units. Other calls are admitted only beside the units of the tickets that have waited longer, so
//! callers of all processes are served in the order in which they began to wait. A ticket lives for
//! [`TICKET_LIFE`] unless its call asks again in the second half of it, so a waiting process that is
//! killed delays others no longer. A call that does not wait is behind all tickets. Above
//! [`MAX_TICKETS`] tickets a call waits without one.
//!
//! The process of a call measures how long the call has waited. A process that reports longer waits
//! moves its calls ahead of others, but cannot break the law.
//!
//! **Changed numbers.** Permits keep their units and the length of their lives. Under a smaller
//! limit calls are refused until enough permits have ended.
//!
//! **Clock steps.** After a step back, every permit expires within its own length from now, and a
//! ticket waits since now at the latest. A step forward may expire permits whose work goes on.
//!
//! **Refunds.** Permits are released, not refunded.
//!
//! Source: Dijkstra's semaphore (EWD 74, 1963) with leases (Gray and Cheriton, "Leases: an efficient
//! fault-tolerant mechanism", 1989), as in the sorted-set semaphores of "Redis in Action", section
//! 6.3. Differences: the server's clock alone decides, an expired permit is never revived, units,
//! and waiting in order.

use super::{
    Algorithm, ChargeRecord, InvalidNumber, KeyState, LimitStatus, Outcome, Rewrites,
    checked_length,
};
use crate::time::{Micros, end_of};

/// The largest limit. The units of all permits and tickets so have an exact sum in Lua.
const MAX_UNITS: u64 = 1_000_000_000;

/// The most permits of a key at a time.
pub const MAX_PERMITS: usize = 10_000;

/// The most tickets of a key at a time.
pub const MAX_TICKETS: usize = 1_000;

/// How long a ticket lives unless its call asks again.
pub const TICKET_LIFE: Micros = 1_000_000;

/// The identifier of a permit, and of the ticket of a call that waits for one: a number up to 2^53
/// that the caller chose at random. 0 is that of a permit that only expires.
pub type PermitId = u64;

/// Units that are held until a permit is released or expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit {
    /// From this time on the units are free.
    pub expires_at: Micros,
    /// The permit.
    pub id: PermitId,
    /// The units.
    pub units: u64,
    /// How long the permit lives from a renewal on.
    pub length: Micros,
}

/// The place of a waiting call in the order of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The time since which the call has waited.
    pub since: Micros,
    /// The permit that it waits for.
    pub id: PermitId,
    /// The units of this permit.
    pub units: u64,
    /// From this time on the ticket does not count.
    pub expires_at: Micros,
}

/// The state of a key: permits and tickets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PermitState {
    /// The time of the latest change. A time before it tells that the clock has stepped back.
    changed_at: Micros,
    /// The units of all permits.
    used: u64,
    /// By their ends.
    permits: Vec<Permit>,
    /// By `since`, then by id.
    tickets: Vec<Ticket>,
}

impl PermitState {
    /// The permits, including those that have expired since the last change.
    #[must_use]
    pub fn permits(&self) -> &[Permit] {
        &self.permits
    }

    /// The tickets, including those that have expired since the last change.
    #[must_use]
    pub fn tickets(&self) -> &[Ticket] {
        &self.tickets
    }

    /// Brings the state to a time: drops what has expired, and repairs it after a clock step.
    fn advance(&mut self, now: Micros) {
        if now < self.changed_at {
            self.changed_at = now;
            for permit in &mut self.permits {
                permit.expires_at = permit.expires_at.min(end_of(now, permit.length));
            }
            self.permits.sort_by_key(|permit| permit.expires_at);
            for ticket in &mut self.tickets {
                ticket.since = ticket.since.min(now);
                ticket.expires_at = ticket.expires_at.min(now + TICKET_LIFE);
            }
            self.tickets.sort_by_key(Ticket::turn);
        }
        let expired = self.permits.partition_point(|permit| permit.expires_at <= now);
        self.used -= self.permits.drain(..expired).map(|permit| permit.units).sum::<u64>();
        self.tickets.retain(|ticket| ticket.expires_at > now);
        self.forget_if_empty();
    }

    /// The tickets of other calls than that with this id, which is 0 if there is no such call.
    fn tickets_but(&self, own: PermitId) -> impl Iterator<Item = &Ticket> {
        self.tickets.iter().filter(move |ticket| ticket.id != own)
    }

    /// The units of the tickets of other calls before the turn of a call; those of all other calls if
    /// the call does not wait.
    fn units_before(&self, turn: Option<(Micros, PermitId)>, own: PermitId) -> u64 {
        let is_before = |ticket: &&Ticket| turn.is_none_or(|turn| ticket.turn() < turn);
        self.tickets_but(own).filter(is_before).map(|ticket| ticket.units).sum()
    }

    fn add(&mut self, now: Micros, permit: Permit) {
        self.changed_at = now;
        self.used += permit.units;
        let place = self.permits.partition_point(|other| other.expires_at <= permit.expires_at);
        self.permits.insert(place, permit);
    }

    fn remove(&mut self, now: Micros, id: PermitId) -> Option<Permit> {
        let index = self.permits.iter().position(|permit| permit.id == id)?;
        let permit = self.permits.remove(index);
        self.changed_at = now;
        self.used -= permit.units;
        Some(permit)
    }

    /// Gives the latest permit of a number another one.
    pub(crate) fn rename(&mut self, from: PermitId, to: PermitId) {
        if let Some(permit) = self.permits.iter_mut().rfind(|permit| permit.id == from) {
            permit.id = to;
        }
    }

    /// Drops the ticket of a call.
    pub(crate) fn remove_ticket(&mut self, now: Micros, id: PermitId) {
        let count = self.tickets.len();
        self.tickets.retain(|ticket| ticket.id != id);
        if self.tickets.len() < count {
            self.changed_at = now;
        }
    }

    fn forget_if_empty(&mut self) {
        if self.permits.is_empty() && self.tickets.is_empty() {
            self.changed_at = 0;
        }
    }
}

impl Ticket {
    /// Its place in the order of calls.
    fn turn(&self) -> (Micros, PermitId) {
        (self.since, self.id)
    }
}

impl KeyState for PermitState {
    fn reset_at(&self) -> Micros {
        let tickets = self.tickets.iter().map(|ticket| ticket.expires_at);
        tickets.chain(self.permits.last().map(|permit| permit.expires_at)).max().unwrap_or(0)
    }

    fn drains(&self) -> bool {
        true
    }
}

/// A call for a permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermitRequest {
    /// The permit, if the call is admitted.
    pub id: PermitId,
    /// The time for which the call has waited, in microseconds; `None` if it does not wait.
    pub waited: Option<Micros>,
}

impl PermitRequest {
    /// The turn of the call: the earliest start of its wait by any of its requests, and its id. A
    /// request that was delayed on its way computes too late a start. `None` if the call does not
    /// wait.
    fn turn(self, state: &PermitState, now: Micros) -> Option<(Micros, PermitId)> {
        let computed = (now.saturating_sub(self.waited?), self.id);
        let ticket = state.tickets.iter().find(|ticket| ticket.id == self.id);
        Some(ticket.map_or(computed, |ticket| ticket.turn().min(computed)))
    }
}

/// At most `limit` units at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concurrency {
    limit: u64,
    expires: Micros,
}

impl Concurrency {
    /// `limit` units at a time; a permit expires `expires` after its last renewal.
    ///
    /// # Errors
    /// [`InvalidNumber`] for a number that is 0 or too large.
    pub fn new(limit: u64, expires: Micros) -> Result<Self, InvalidNumber> {
        if !(1..=MAX_UNITS).contains(&limit) {
            let rule = "must be a whole number from 1 to 1,000,000,000";
            return Err(InvalidNumber { option: "limit", rule });
        }
        checked_length("expires", expires)?;
        Ok(Self { limit, expires })
    }

    /// How long a permit lives from a renewal on.
    #[must_use]
    pub fn expires(&self) -> Micros {
        self.expires
    }

    /// The outcome of a call for a permit. The state has been normalized.
    #[must_use]
    pub fn outcome_of(
        &self,
        state: &PermitState,
        now: Micros,
        cost: u64,
        request: Option<PermitRequest>,
    ) -> Outcome {
        if cost > self.limit {
            return Outcome::Impossible;
        }
        let turn = request.and_then(|request| request.turn(state, now));
        let before = state.units_before(turn, request.map_or(0, |request| request.id));
        let fits = state.used + before + cost <= self.limit && state.permits.len() < MAX_PERMITS;
        if cost == 0 || fits { Outcome::Admitted } else { Outcome::Refused }
    }

    /// Adds the permit of a call that [`outcome_of`](Self::outcome_of) admits. It lives for `length`
    /// from each renewal on.
    pub fn acquire(
        &self,
        state: &mut PermitState,
        now: Micros,
        cost: u64,
        id: PermitId,
        length: Micros,
    ) {
        state.remove_ticket(now, id);
        state.add(now, Permit { expires_at: end_of(now, length), id, units: cost, length });
    }

    /// Sets or removes the ticket of a refused call. The state has been normalized. A call that does
    /// not wait loses its ticket. A ticket with the right turn in the first half of its life stays as
    /// it is, so that most refusals write nothing.
    pub fn queue(&self, state: &mut PermitState, now: Micros, cost: u64, request: PermitRequest) {
        let turn = request.turn(state, now);
        let is_young = |ticket: &Ticket| {
            ticket.id == request.id
                && ticket.units == cost
                && turn == Some(ticket.turn())
                && ticket.expires_at.saturating_sub(now) > TICKET_LIFE / 2
        };
        if state.tickets.iter().any(is_young) {
            return;
        }
        state.remove_ticket(now, request.id);
        let Some((since, id)) = turn.filter(|_| state.tickets.len() < MAX_TICKETS) else {
            return state.forget_if_empty();
        };
        let ticket = Ticket { since, id, units: cost, expires_at: end_of(now, TICKET_LIFE) };
        state.changed_at = now;
        let place = state.tickets.partition_point(|other| other.turn() < ticket.turn());
        state.tickets.insert(place, ticket);
    }

    /// Ends a permit, and drops the ticket of its call. Returns whether the permit was held. The
    /// state has been normalized.
    pub fn release(&self, state: &mut PermitState, now: Micros, id: PermitId) -> bool {
        let was_held = state.remove(now, id).is_some();
        state.remove_ticket(now, id);
        state.forget_if_empty();
        was_held
    }

    /// Renews a permit, which then expires its length from now. Returns whether it was held. The
    /// state has been normalized.
    pub fn renew(&self, state: &mut PermitState, now: Micros, id: PermitId) -> bool {
        let renewed = state.remove(now, id);
        let renewed = renewed.map(|permit| state.add(now, permit.renewed(now)));
        renewed.is_some()
    }

    /// The status of the limit after a request of the call with this id. The call's own ticket does
    /// not count: it is dropped when the call stops waiting. An id of 0 is no call.
    #[must_use]
    pub fn status_for(
        &self,
        state: &PermitState,
        now: Micros,
        cost: u64,
        outcome: Outcome,
        own: PermitId,
    ) -> LimitStatus {
        let refused = outcome == Outcome::Refused;
        let tickets = state.tickets_but(own).map(|ticket| ticket.expires_at);
        let permits = state.permits.last().map(|permit| permit.expires_at);
        let remaining = self.remaining_for(state, now, own);
        LimitStatus {
            limit: self.limit,
            capacity: self.limit,
            remaining,
            next_at: if remaining > 0 { 0 } else { self.free_at(state, now, 1, own) },
            retry_at: if refused { self.free_at(state, now, cost, own) } else { 0 },
            reset_at: tickets.chain(permits).max().unwrap_or(0),
            mark: 0,
        }
    }

    /// The largest cost that fits at a time, without the ticket of a call.
    fn remaining_for(&self, state: &PermitState, now: Micros, own: PermitId) -> u64 {
        let (expired, live) = state
            .permits
            .split_at(state.permits.partition_point(|permit| permit.expires_at <= now));
        let free: u64 = expired.iter().map(|permit| permit.units).sum();
        let tickets = state.tickets_but(own).filter(|ticket| ticket.expires_at > now);
        let before: u64 = tickets.map(|ticket| ticket.units).sum();
        if live.len() >= MAX_PERMITS {
            return 0;
        }
        self.limit.saturating_sub(state.used - free + before)
    }

    /// The time from which a cost fits if no permit is renewed and no ticket is, without the ticket
    /// of a call.
    fn free_at(&self, state: &PermitState, now: Micros, cost: u64, own: PermitId) -> Micros {
        let mut tickets: Vec<_> =
            state.tickets_but(own).map(|ticket| (ticket.expires_at, ticket.units)).collect();
        tickets.sort_unstable();
        let mut used = state.used + tickets.iter().map(|(_, units)| units).sum::<u64>();
        let mut tickets = tickets.into_iter().peekable();
        let mut permits = state.permits.iter();
        loop {
            let next = permits.as_slice().first();
            let ticket = |&(end, _): &(Micros, u64)| next.is_none_or(|next| end <= next.expires_at);
            let (expires_at, units) = match (tickets.next_if(ticket), next) {
                (Some(ticket), _) => ticket,
                (None, Some(permit)) => {
                    permits.next();
                    (permit.expires_at, permit.units)
                }
                (None, None) => return now,
            };
            used -= units;
            if used + cost <= self.limit && permits.len() < MAX_PERMITS {
                return expires_at;
            }
        }
    }
}

impl Permit {
    fn renewed(self, now: Micros) -> Self {
        Self { expires_at: end_of(now, self.length), ..self }
    }
}

impl Algorithm for Concurrency {
    type State = PermitState;

    fn initial_state(&self) -> PermitState {
        PermitState::default()
    }

    fn capacity(&self) -> u64 {
        self.limit
    }

    /// A permit that this function adds has no id, so it only expires.
    fn charge(&self, state: &mut PermitState, now: Micros, cost: u64) -> Outcome {
        state.advance(now);
        let outcome = self.outcome_of(state, now, cost, None);
        if outcome == Outcome::Admitted && cost > 0 {
            self.acquire(state, now, cost, 0, self.expires);
        }
        outcome
    }

    fn normalize(&self, state: &mut PermitState, now: Micros) {
        state.advance(now);
    }

    fn outcome(&self, state: &PermitState, now: Micros, cost: u64) -> Outcome {
        self.outcome_of(state, now, cost, None)
    }

    fn refund(&self, _: &mut PermitState, _: Micros, _: u64, _: ChargeRecord) -> u64 {
        0
    }

    fn rewrites(&self, _: &PermitState, _: Micros) -> Rewrites {
        Rewrites::Never
    }

    fn remaining(&self, state: &PermitState, now: Micros) -> u64 {
        self.remaining_for(state, now, 0)
    }

    fn retry_at(&self, state: &PermitState, now: Micros, cost: u64) -> Micros {
        self.free_at(state, now, cost, 0)
    }
}

#[cfg(test)]
mod tests;
