//! What a key stores of reservations and of calls that may be repeated.

use std::sync::Arc;

use crate::policy::multi_policy::Response;
use crate::policy::operation::HoldId;
use crate::policy::units::Units;
use crate::protocol::hold;
use crate::time::Micros;

/// How long after its end a hold can still be settled: its missing units are charged, and surplus
/// units count as spent.
pub const LATE: Micros = hold::LATE;

/// A reservation that has not been settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The identifier.
    pub id: HoldId,
    /// The units that were charged.
    pub units: Units,
    /// From this time on it cannot be extended or renewed. It can be settled for another [`LATE`].
    pub expires_at: Micros,
}

/// The kind of a call, the length of its identifier, and the identifier. The script sorts by the same
/// bytes.
pub(super) type CallKey = Box<[u8]>;

/// The calls of a key that may be repeated. Some may have expired.
///
/// Both lists are sorted. With 10,000 calls, an insertion moves 80 kB; trees would take five kilobytes
/// of WebAssembly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RememberedCalls {
    pub(super) by_key: Vec<Arc<RememberedCall>>,
    by_end: Vec<Arc<RememberedCall>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RememberedCall {
    pub(super) key: CallKey,
    /// From this time on the call is decided anew.
    pub(super) expires_at: Micros,
    /// The first decision.
    pub(super) response: Response,
    /// The units that were charged.
    pub(super) units: Units,
    /// The hold, and its end.
    pub(super) hold: Option<(HoldId, Micros)>,
}

/// An index of a sorted list.
type Index = Result<usize, usize>;

impl RememberedCalls {
    /// The time from which all have expired.
    pub(super) fn end(&self) -> Micros {
        self.by_end.last().map_or(0, |call| call.expires_at)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_end.is_empty()
    }

    /// The number of calls.
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// The number of calls that have not expired.
    #[must_use]
    pub fn open(&self, now: Micros) -> usize {
        self.by_end.len() - self.by_end.partition_point(|call| call.expires_at <= now)
    }

    /// Those that have expired, the earliest first.
    pub(super) fn ended(&self, now: Micros) -> impl Iterator<Item = &Arc<RememberedCall>> {
        self.by_end.iter().take_while(move |call| call.expires_at <= now)
    }

    pub(super) fn remove(&mut self, key: &[u8]) {
        if let Ok(index) = self.index_of(key) {
            let call = self.by_key.remove(index);
            if let Ok(index) = self.end_index_of(&call) {
                self.by_end.remove(index);
            }
        }
    }

    /// Adds a call whose key is new.
    pub(super) fn insert(&mut self, call: RememberedCall) {
        let call = Arc::new(call);
        let (Ok(index) | Err(index)) = self.index_of(&call.key);
        self.by_key.insert(index, Arc::clone(&call));
        let (Ok(index) | Err(index)) = self.end_index_of(&call);
        self.by_end.insert(index, call);
    }

    pub(super) fn index_of(&self, key: &[u8]) -> Index {
        self.by_key.binary_search_by(|call| (*call.key).cmp(key))
    }

    fn end_index_of(&self, call: &RememberedCall) -> Index {
        self.by_end.binary_search_by(|other| {
            other.expires_at.cmp(&call.expires_at).then_with(|| other.key.cmp(&call.key))
        })
    }
}
