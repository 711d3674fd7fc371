//! What can be asked of a key.

use std::sync::Arc;

use crate::algorithm::{Booking, RateState, Taken};
use crate::policy::Policy;
use crate::time::Micros;

/// Slots that were booked together, by policy; none for those that had no say.
pub type Bookings = Vec<Option<Booking<RateState>>>;
/// What sets a reservation apart from all others: random bytes.
pub type HoldId = [u8; 16];

/// What is asked of a key, or of several that are decided together.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Takes units, if all of them fit.
    Take {
        /// The units.
        cost: u64,
    },
    /// Takes as many units as fit, at most so many.
    TakeUpTo {
        /// The most units.
        units: u64,
    },
    /// Takes units that are an estimate, as [`Take`](Self::Take) does, under a hold that is settled later.
    ///
    /// A store of which the answer may be lost keeps the hold until it is settled or has expired. A hold that
    /// has expired is gone; its units stay spent.
    Reserve {
        /// The units.
        cost: u64,
        /// The hold.
        hold: HoldId,
        /// How long it may be settled.
        lasting: Micros,
    },
    /// Settles a hold: what was taken beyond the actual units is given back as by [`Refund`](Self::Refund), and
    /// what they are beyond it is charged as by [`Penalize`](Self::Penalize).
    ///
    /// Nothing happens at the hold's end or later, or if a store that keeps holds has it no longer.
    Settle {
        /// The hold.
        hold: HoldId,
        /// The units that were taken under it.
        units: u64,
        /// The units that it came to in the end.
        actual: u64,
        /// The reservation's call, by policy.
        taken: Vec<Taken>,
        /// The hold's end.
        expires_at: Micros,
    },
    /// Tells what would become of a cost, which may be 0.
    Peek {
        /// The units.
        cost: u64,
    },
    /// Takes units whether or not they fit: under each policy as many as are left, at most so many.
    Penalize {
        /// The units.
        units: u64,
    },
    /// Gives back units of an earlier call, under each policy as many as are still on the books.
    Refund {
        /// The units.
        units: u64,
        /// The call, by policy.
        taken: Vec<Taken>,
    },
    /// Takes units as of the first time at which they fit under all policies, if that is near enough, and
    /// tells how far away it is: see [`Bookable`](crate::algorithm::Bookable). All policies must be rates:
    /// under any other nothing can ever be booked.
    Book {
        /// The units, at least 1.
        cost: u64,
        /// So far away it may be; at most [`MAX_WAIT`](crate::algorithm::MAX_WAIT) counts.
        max_wait: Micros,
    },
    /// Gives slots back that were booked together, if under all of the policies nobody has booked or taken
    /// anything behind them, and what was booked has not drained.
    Unbook {
        /// What the booking left behind it.
        bookings: Bookings,
    },
    /// Makes the key as if never used, but for the numbers of its own. Its holds are forgotten where they are
    /// kept.
    Reset,
    /// Refuses all calls for so long.
    Block {
        /// How long.
        lasting: Micros,
    },
    /// Ends a block.
    Unblock,
    /// Gives the key numbers of its own for so long; policies without an entry keep theirs.
    Override {
        /// By policy: an algorithm of the same kind.
        policies: Vec<Option<Arc<Policy>>>,
        /// How long.
        lasting: Micros,
    },
    /// Takes the numbers of its own from the key.
    ClearOverride,
}
