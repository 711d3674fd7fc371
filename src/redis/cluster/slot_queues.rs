//! Queues of requests, one for each slot.
//!
//! The requests of a slot that are in flight were sent as one transaction. No other request of the
//! slot is sent until all of them are back. So a request that must be sent again, to any node, goes
//! before the requests behind it. While a slot migrates, its requests are sent one at a time: one
//! transaction cannot span keys on two nodes.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::redis::cluster::slot_request::SlotRequest;

#[derive(Default)]
struct SlotQueue {
    waiting: VecDeque<SlotRequest>,
    /// The number of requests that were sent together and are not back.
    in_flight: usize,
    /// The requests of the last transaction that must be sent again.
    retries: VecDeque<SlotRequest>,
    /// The time before which the first request must not be sent, and why it could not be sent.
    deferral: Option<(Instant, Arc<str>)>,
}

#[derive(Default)]
pub(crate) struct SlotQueues {
    queues: HashMap<u16, SlotQueue>,
    deferred: BTreeSet<u16>,
    /// The deadlines of requests that had to wait, and their slots.
    deadlines: SlotDeadlines,
    /// The slots that are migrating, and the time until which they count as migrating.
    migrating: HashMap<u16, Instant>,
}

/// The maximum number of requests in one transaction.
const MAX_TRANSACTION: usize = 64;

/// A slot counts as migrating for this time after the last sign of a migration.
const MIGRATION_MEMORY: Duration = Duration::from_secs(5);

type SlotDeadlines = BinaryHeap<Reverse<(Instant, u16)>>;

/// Adds the deadline of a request, unless it is tracked already.
fn track_deadline(deadlines: &mut SlotDeadlines, request: Option<&mut SlotRequest>) {
    if let Some(request) = request
        && !std::mem::replace(&mut request.is_deadline_tracked, true)
    {
        deadlines.push(Reverse((request.part.deadline, request.slot)));
    }
}

impl SlotQueues {
    /// Adds a request to the end of its slot's queue. Returns whether the slot may be able to send.
    pub(crate) fn enqueue(&mut self, request: SlotRequest) -> bool {
        let queue = self.queues.entry(request.slot).or_default();
        let (is_first, slot) = (queue.waiting.is_empty() && queue.in_flight == 0, request.slot);
        queue.waiting.push_back(request);
        if !is_first {
            track_deadline(&mut self.deadlines, queue.waiting.back_mut());
        }
        is_first || self.deferred.contains(&slot)
    }

    /// Removes the requests to send next. The caller [completes](Self::complete) each.
    pub(crate) fn start_next(&mut self, slot: u16, now: Instant) -> Vec<SlotRequest> {
        let Some(queue) = self.queues.get_mut(&slot).filter(|queue| queue.in_flight == 0) else {
            return Vec::new();
        };
        self.deferred.remove(&slot);
        queue.deferral = None;
        let is_migrating = self.migrating.get(&slot).is_some_and(|until| *until > now);
        let max = if is_migrating { 1 } else { MAX_TRANSACTION };
        let without_ask = queue.waiting.iter().take_while(|request| request.ask.is_none()).count();
        // A request with an ASK redirect goes alone.
        let count = without_ask.max(1).min(max).min(queue.waiting.len());
        queue.in_flight = count;
        let requests: Vec<_> = queue.waiting.drain(..count).collect();
        if requests.is_empty() {
            self.queues.remove(&slot);
        }
        if !is_migrating {
            self.migrating.remove(&slot);
        }
        requests
    }

    pub(crate) fn mark_migrating(&mut self, slot: u16) {
        self.migrating.insert(slot, Instant::now() + MIGRATION_MEMORY);
    }

    pub(crate) fn is_paused(&self, slot: u16, now: Instant) -> bool {
        let deferral = self.queues.get(&slot).and_then(|queue| queue.deferral.as_ref());
        deferral.is_some_and(|(until, _)| *until > now)
    }

    /// Records that a request is back or will not be sent. `retries` go before waiting requests.
    pub(crate) fn complete(&mut self, slot: u16, retries: impl IntoIterator<Item = SlotRequest>) {
        let queue = self.queues.entry(slot).or_default();
        queue.in_flight = queue.in_flight.saturating_sub(1);
        queue.retries.extend(retries);
        if queue.in_flight == 0 {
            while let Some(request) = queue.retries.pop_back() {
                queue.waiting.push_front(request);
            }
        }
    }

    /// Makes the slot's first request wait for this pause, which may be zero, and for the next
    /// retry of deferred slots. The requests that expire until then fail with the reason.
    pub(crate) fn defer(&mut self, slot: u16, pause: Duration, why: Arc<str>) {
        let Some(queue) = self.queues.get_mut(&slot) else { return };
        queue.deferral = Some((Instant::now() + pause, why));
        // The deadlines of the other requests are tracked already, or are the same.
        track_deadline(&mut self.deadlines, queue.waiting.front_mut());
        self.deferred.insert(slot);
    }

    /// The slots whose first request waits to be sent again.
    pub(crate) fn deferred(&self) -> Vec<u16> {
        self.deferred.iter().copied().collect()
    }

    pub(crate) fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.peek().map(|Reverse((deadline, _))| *deadline)
    }

    /// Removes the waiting requests whose deadline has passed, with the reason for their wait.
    /// A request that waits for earlier requests of its slot has no reason.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Vec<(SlotRequest, Option<Arc<str>>)> {
        let mut expired = Vec::new();
        while let Some(Reverse((deadline, slot))) = self.deadlines.peek().copied()
            && deadline <= now
        {
            self.deadlines.pop();
            let Some(queue) = self.queues.get_mut(&slot) else { continue };
            let why = queue.deferral.as_ref().map(|(_, why)| why);
            for request in std::mem::take(&mut queue.waiting) {
                if request.part.deadline <= now {
                    expired.push((request, why.cloned()));
                } else {
                    queue.waiting.push_back(request);
                }
            }
            if queue.waiting.is_empty() && queue.in_flight == 0 {
                self.deferred.remove(&slot);
                self.queues.remove(&slot);
            }
        }
        expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::batch::flush::Flush;
    use crate::redis::connection::{Address, FlushRequest};

    const SECOND: Duration = Duration::from_secs(1);

    /// A request of slot 0 with this many seconds until its deadline, which identifies it.
    fn request(second: u32, now: Instant) -> SlotRequest {
        let deadline = now + SECOND * second;
        SlotRequest::new(0, FlushRequest::new(Flush::default(), || 0, deadline, |_| {}))
    }

    fn seconds(requests: &[SlotRequest], now: Instant) -> Vec<u64> {
        requests.iter().map(|request| (request.part.deadline - now).as_secs()).collect()
    }

    #[test]
    fn waiting_requests_go_together_and_retries_go_first_in_their_order() {
        let (mut queues, now) = (SlotQueues::default(), Instant::now());
        assert!(queues.enqueue(request(1, now)));
        let first = queues.start_next(0, now);
        for second in 2..=5 {
            assert!(!queues.enqueue(request(second, now)));
        }
        assert!(queues.start_next(0, now).is_empty(), "the first is in flight");
        queues.complete(0, []);
        let mut rest = queues.start_next(0, now);
        assert_eq!((seconds(&first, now), seconds(&rest, now)), (vec![1], vec![2, 3, 4, 5]));
        queues.enqueue(request(6, now));
        let last = rest.pop();
        for (index, request) in rest.into_iter().enumerate() {
            queues.complete(0, (index != 1).then_some(request));
        }
        assert!(queues.start_next(0, now).is_empty(), "one is in flight");
        queues.complete(0, last);
        assert_eq!(seconds(&queues.start_next(0, now), now), [2, 4, 5, 6]);
    }

    #[test]
    fn requests_of_a_migrating_slot_and_those_with_an_ask_redirect_go_alone() {
        let (mut queues, now) = (SlotQueues::default(), Instant::now());
        let mut with_ask = request(2, now);
        with_ask.ask = Some(Address::Tcp("a".into(), 1));
        for next in [request(1, now), with_ask, request(3, now), request(4, now)] {
            queues.enqueue(next);
        }
        for (expected, at) in [(vec![1], now), (vec![2], now), (vec![3], now), (vec![4], now)] {
            if expected == [3] {
                queues.mark_migrating(0);
            }
            assert_eq!(seconds(&queues.start_next(0, at), now), expected);
            queues.complete(0, []);
        }
        queues.enqueue(request(5, now));
        queues.enqueue(request(6, now));
        let later = now + MIGRATION_MEMORY + SECOND;
        assert_eq!(seconds(&queues.start_next(0, later), now), [5, 6]);
    }
    #[test]
    fn expired_requests_have_the_reason_why_their_slot_was_not_sent() {
        let (mut queues, now) = (SlotQueues::default(), Instant::now());
        queues.enqueue(request(1, now));
        queues.enqueue(request(2, now));
        for request in queues.start_next(0, now) {
            queues.complete(0, [request]);
        }
        queues.defer(0, Duration::ZERO, "NOPERM".into());
        assert!(!queues.is_paused(0, Instant::now()));
        // This one is made after the last attempt.
        queues.enqueue(request(3, now));
        let expired = queues.take_expired(now + SECOND * 2).into_iter();
        let reasons: Vec<_> = expired.map(|(_, why)| why.unwrap_or_default()).collect();
        assert_eq!(reasons, ["NOPERM".into(), Arc::<str>::from("NOPERM")]);
        let _in_flight = queues.start_next(0, now);
        queues.enqueue(request(4, now));
        let expired = queues.take_expired(now + SECOND * 4);
        assert!(matches!(&expired[..], [(_, None)]), "an earlier request is in flight");
    }
}
