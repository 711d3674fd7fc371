//! What waits, by slot.
//!
//! What is under way of a slot was sent as one transaction, and nothing follows until all of it is back. So whatever
//! has to be sent again, wherever, goes before what is behind it. Where a slot has been seen to move, pieces go
//! one by one, since keys that are at two nodes cannot be in one transaction.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::redis::cluster::slot_request::Piece;

/// The pieces of one slot, in their order.
#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Piece>,
    /// How many were sent together and are not back.
    under_way: usize,
    /// Those of them that are to be sent again.
    again: VecDeque<Piece>,
    /// When the first may be sent again, and why not before.
    paused: Option<(Instant, Arc<str>)>,
}

/// The pieces of all slots.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    lanes: HashMap<u16, Lane>,
    /// The slots whose first piece waits to be sent again.
    parked: HashSet<u16>,
    /// The deadlines of pieces that have had to wait, and their slots.
    deadlines: Deadlines,
    /// The slots that have been seen to move, and until when that is remembered.
    moving: HashMap<u16, Instant>,
}

/// So many pieces of a slot go together at most.
const MOST_TOGETHER: usize = 64;

/// For so long a slot is taken to be moving since it was last seen to.
const MOVING_FOR: Duration = Duration::from_secs(5);

type Deadlines = BinaryHeap<Reverse<(Instant, u16)>>;

/// Remembers when a piece runs out of time.
fn watch(deadlines: &mut Deadlines, piece: Option<&mut Piece>) {
    if let Some(piece) = piece
        && !std::mem::replace(&mut piece.is_watched, true)
    {
        deadlines.push(Reverse((piece.deadline(), piece.slot)));
    }
}

impl Lanes {
    /// Puts a piece behind the others of its slot. Says whether it might be sent.
    pub(crate) fn add(&mut self, piece: Piece) -> bool {
        let lane = self.lanes.entry(piece.slot).or_default();
        let (is_first, slot) = (lane.waiting.is_empty() && lane.under_way == 0, piece.slot);
        lane.waiting.push_back(piece);
        if !is_first {
            watch(&mut self.deadlines, lane.waiting.back_mut());
        }
        is_first || self.parked.contains(&slot)
    }

    /// Takes out the pieces that are to be sent next: they are under way until each is
    /// [`freed`](Self::freed).
    pub(crate) fn start(&mut self, slot: u16, now: Instant) -> Vec<Piece> {
        let Some(lane) = self.lanes.get_mut(&slot).filter(|lane| lane.under_way == 0) else {
            return Vec::new();
        };
        self.parked.remove(&slot);
        lane.paused = None;
        let is_moving = self.moving.get(&slot).is_some_and(|until| *until > now);
        let most = if is_moving { 1 } else { MOST_TOGETHER };
        let alike = lane.waiting.iter().take_while(|piece| piece.ask.is_none()).count();
        // One that is to ask another node goes alone.
        let count = alike.max(1).min(most).min(lane.waiting.len());
        lane.under_way = count;
        let pieces: Vec<_> = lane.waiting.drain(..count).collect();
        if pieces.is_empty() {
            self.lanes.remove(&slot);
        }
        if !is_moving {
            self.moving.remove(&slot);
        }
        pieces
    }

    /// The slot is seen to move.
    pub(crate) fn moves(&mut self, slot: u16) {
        self.moving.insert(slot, Instant::now() + MOVING_FOR);
    }

    /// Whether the slot's first piece is not to be sent yet.
    pub(crate) fn is_paused(&self, slot: u16, now: Instant) -> bool {
        let paused = self.lanes.get(&slot).and_then(|lane| lane.paused.as_ref());
        paused.is_some_and(|(until, _)| *until > now)
    }

    /// A piece of the slot is back, or will not be sent; these go again, before all that were not sent.
    pub(crate) fn freed(&mut self, slot: u16, again: impl IntoIterator<Item = Piece>) {
        let lane = self.lanes.entry(slot).or_default();
        lane.under_way = lane.under_way.saturating_sub(1);
        lane.again.extend(again);
        if lane.under_way == 0 {
            while let Some(piece) = lane.again.pop_back() {
                lane.waiting.push_front(piece);
            }
        }
    }

    /// The slot's first piece is to wait for so long, or until something has changed.
    pub(crate) fn park(&mut self, slot: u16, pause: Option<(Duration, Arc<str>)>) {
        let Some(lane) = self.lanes.get_mut(&slot) else { return };
        lane.paused = pause.map(|(length, why)| (Instant::now() + length, why));
        // Those behind it are watched, or have the same deadline.
        watch(&mut self.deadlines, lane.waiting.front_mut());
        self.parked.insert(slot);
    }

    /// The slots whose first pieces wait to be sent again.
    pub(crate) fn parked(&self) -> Vec<u16> {
        self.parked.iter().copied().collect()
    }

    pub(crate) fn has_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    /// When the next piece that waits runs out of time.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.peek().map(|Reverse((deadline, _))| *deadline)
    }

    /// Takes out what waits and has run out of time, with the reason.
    pub(crate) fn expired(&mut self, now: Instant) -> Vec<(Piece, Option<Arc<str>>)> {
        let mut expired = Vec::new();
        while let Some(Reverse((deadline, slot))) = self.deadlines.peek().copied()
            && deadline <= now
        {
            self.deadlines.pop();
            let Some(lane) = self.lanes.get_mut(&slot) else { continue };
            let why = lane.paused.as_ref().map(|(_, why)| why);
            for piece in std::mem::take(&mut lane.waiting) {
                if piece.deadline() <= now {
                    expired.push((piece, why.cloned()));
                } else {
                    lane.waiting.push_back(piece);
                }
            }
            if lane.waiting.is_empty() && lane.under_way == 0 {
                self.parked.remove(&slot);
                self.lanes.remove(&slot);
            }
        }
        expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::batch::flush::Round;
    use crate::redis::cluster::slot_request::Whole;
    use crate::redis::connection::Address;

    const SECOND: Duration = Duration::from_secs(1);

    /// A piece of slot 0, which its deadline tells apart.
    fn piece(second: u32, now: Instant) -> Piece {
        let whole = Whole {
            clock: Box::new(|| 0),
            hear: Box::new(|_| {}),
            deadline: now + SECOND * second,
        };
        Piece::of_round(Round::default(), Arc::new(whole))
    }

    fn seconds(pieces: &[Piece], now: Instant) -> Vec<u64> {
        pieces.iter().map(|piece| (piece.deadline() - now).as_secs()).collect()
    }

    #[test]
    fn all_that_waits_goes_together_and_what_goes_again_goes_first_in_its_order() {
        let (mut lanes, now) = (Lanes::default(), Instant::now());
        assert!(lanes.add(piece(1, now)));
        let first = lanes.start(0, now);
        for second in 2..=5 {
            assert!(!lanes.add(piece(second, now)));
        }
        assert!(lanes.start(0, now).is_empty(), "the first is not back");
        lanes.freed(0, []);
        let mut rest = lanes.start(0, now);
        assert_eq!((seconds(&first, now), seconds(&rest, now)), (vec![1], vec![2, 3, 4, 5]));
        lanes.add(piece(6, now));
        let last = rest.pop();
        for (index, piece) in rest.into_iter().enumerate() {
            lanes.freed(0, (index != 1).then_some(piece));
        }
        assert!(lanes.start(0, now).is_empty(), "one is not back");
        lanes.freed(0, last);
        assert_eq!(seconds(&lanes.start(0, now), now), [2, 4, 5, 6]);
    }

    #[test]
    fn pieces_of_a_slot_that_moves_and_those_for_another_node_go_alone() {
        let (mut lanes, now) = (Lanes::default(), Instant::now());
        let mut asks = piece(2, now);
        asks.ask = Some(Address::Tcp("a".into(), 1));
        for piece in [piece(1, now), asks, piece(3, now), piece(4, now)] {
            lanes.add(piece);
        }
        for (expected, at) in [(vec![1], now), (vec![2], now), (vec![3], now), (vec![4], now)] {
            if expected == [3] {
                lanes.moves(0);
            }
            assert_eq!(seconds(&lanes.start(0, at), now), expected);
            lanes.freed(0, []);
        }
        lanes.add(piece(5, now));
        lanes.add(piece(6, now));
        let later = now + MOVING_FOR + SECOND;
        assert_eq!(seconds(&lanes.start(0, later), now), [5, 6]);
    }
}
