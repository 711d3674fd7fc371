//! The operations on a key.

use std::sync::Arc;

use crate::algorithm::{ChargeRecord, PermitId, PermitRequest, ScheduledReservation};
use crate::policy::Policy;
use crate::policy::units::Units;
use crate::protocol::operation;
use crate::time::Micros;

/// The scheduled reservations of one call, by policy; `None` for a policy without a key.
pub type ScheduledReservations = Vec<Option<ScheduledReservation>>;
/// The identifier of a reservation: random bytes. Under policies for concurrency its last eight bytes are the
/// number of its permit.
pub type HoldId = [u8; 16];

/// The permit of a reservation, under policies for concurrency.
pub(crate) fn permit_of(hold: &HoldId) -> PermitId {
    hold.last_chunk().map_or(0, |permit| PermitId::from_be_bytes(*permit))
}

/// A hold that an operation adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewHold {
    /// The identifier.
    pub id: HoldId,
    /// How long the hold may be settled, in microseconds.
    pub lasting: Micros,
}

/// Units that a reservation has charged at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// The units.
    pub units: Units,
    /// The times of the charge, by policy.
    pub taken: Vec<ChargeRecord>,
}

/// A [take](Operation::Take), a [reservation](Operation::Reserve) or a call for a
/// [permit](Operation::Acquire) that may be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepeatableCall {
    /// The identifier of the call.
    pub id: Box<[u8]>,
    /// How long the first decision is remembered, in microseconds.
    pub lasting: Micros,
    /// The units.
    pub cost: Units,
    /// The hold of a reservation, and how long it may be settled, in microseconds. A call for a permit
    /// has one, too, whose identifier ends with the number of the permit; with a length of 0 no hold is
    /// added.
    pub hold: Option<(HoldId, Micros)>,
    /// The permit that the call asks for.
    pub request: Option<PermitRequest>,
}

impl Operation {
    /// Whether the operation concerns a key alone, and no units under the numbers of a policy: its
    /// caller names no variant.
    #[must_use]
    pub fn concerns_key_alone(&self) -> bool {
        use Operation::{Block, ClearOverride, Override, Reset, Unblock};
        matches!(self, Reset | Block { .. } | Unblock | Override { .. } | ClearOverride)
    }
}

impl RepeatableCall {
    /// The code of the operation without the identifier.
    pub(crate) fn kind(&self) -> u8 {
        match (&self.request, &self.hold) {
            (Some(_), Some(_)) => operation::ACQUIRE,
            (None, Some(_)) => operation::RESERVE,
            (_, None) => operation::TAKE,
        }
    }
}

/// The longest identifier of a call, in bytes.
pub const MAX_CALL_ID: usize = 128;

/// An operation on a key, or on several keys that are decided together.
///
/// Units may be [by policy](Units::ByPolicy). A policy whose cost is 0 only repairs its state, and
/// refuses no call, unless its key is blocked.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Takes units if all of them fit, otherwise none.
    Take {
        /// The units.
        cost: Units,
    },
    /// Takes or reserves units, unless a call with the same identifier did so before: then the result is
    /// that of this first call, with its units, and nothing is charged. Only a call that was charged is
    /// remembered, with the key of the first policy. Takes, reservations and calls for permits have
    /// separate identifiers.
    ///
    /// A repeated call for a permit renews the permit of the first call, and its hold. If this permit is no
    /// longer held, the call takes it again under the policies for concurrency alone. It may be refused
    /// then, or wait.
    Repeatable(Box<RepeatableCall>),
    /// Takes as many units as fit, at most `units`.
    TakeUpTo {
        /// The largest number of units.
        units: u64,
    },
    /// Takes an estimate of units, as [`Take`](Self::Take) does, under a hold that is settled
    /// later. The units of a hold that expires stay charged.
    Reserve {
        /// The units.
        cost: Units,
        /// The hold.
        hold: HoldId,
        /// How long the hold lasts, in microseconds.
        lasting: Micros,
    },
    /// Takes further units under a hold that has not expired, as [`Take`](Self::Take) does, and
    /// renews it. A refusal changes neither the hold nor its units. A policy for concurrency takes no
    /// further units.
    Extend {
        /// The hold.
        hold: HoldId,
        /// The further units.
        cost: Units,
        /// How long the hold may be settled from now on, in microseconds.
        lasting: Micros,
    },
    /// Settles a hold, once. A surplus of its units is refunded as by [`Refund`](Self::Refund), to the
    /// latest charges first; a deficit is charged, and what does not fit is [owed](super::owed). A hold
    /// that expired not [long](super::execute::LATE) ago is settled, too, but its surplus is not
    /// refunded. Under policies for concurrency it ends the permit of the hold, also if there is no hold,
    /// and moves no units.
    Settle {
        /// The hold.
        hold: HoldId,
        /// The actual units.
        actual: Units,
        /// The charges of the reservation, in their order. The units of other charges under the hold
        /// are not refunded.
        charges: Vec<Charge>,
    },
    /// Moves the end of a hold that has not expired to `lasting` from now, unless it is later already.
    /// Changes no units. Under policies for concurrency it also renews the permit of the hold.
    Renew {
        /// The hold.
        hold: HoldId,
        /// How long the hold may be settled from now on, in microseconds.
        lasting: Micros,
    },
    /// Previews a cost, which may be 0.
    Peek {
        /// The units.
        cost: Units,
    },
    /// Charges units whether or not they fit: under each policy as many as remain, at most `units`. The
    /// rest are [owed](super::owed) if the policy says how many may be.
    Penalize {
        /// The units.
        units: Units,
    },
    /// Refunds units of an earlier call, under each policy as many as are still charged.
    Refund {
        /// The units.
        units: Units,
        /// The charge of the call, by policy.
        taken: Vec<ChargeRecord>,
    },
    /// Takes units as of the first time at which they fit under all policies, if that is within
    /// `max_wait`, and returns the microseconds until then: see
    /// [`Rate::schedule`](crate::algorithm::Rate::schedule). All policies must be rates.
    Schedule {
        /// The units, at least 1; by policy some may be 0, and then this policy has no slot.
        cost: Units,
        /// The longest wait in microseconds, capped at [`MAX_WAIT`](crate::algorithm::MAX_WAIT).
        max_wait: Micros,
    },
    /// Cancels the scheduled reservations of one call, if under every policy nothing was scheduled
    /// or taken after them, and their units have not drained.
    CancelScheduled {
        /// The scheduled reservations.
        scheduled: ScheduledReservations,
    },
    /// Takes units, as [`Take`](Self::Take) does; those of a policy for concurrency with a permit. The
    /// cost under such a policy is at least 1, because [`RenewPermit`](Self::RenewPermit) asks all of
    /// them.
    ///
    /// If the call waits and only one policy refuses it, a policy for concurrency, the call gets a
    /// ticket under this policy. It has no other ticket. A refused call that waits is no strike.
    ///
    /// With a hold, the units of the other policies can be settled, as those of
    /// [`Reserve`](Self::Reserve); the hold has the number of the permit.
    Acquire {
        /// The units.
        cost: Units,
        /// The permit, with the time for which the call has waited.
        request: PermitRequest,
        /// The hold of the units.
        hold: Option<NewHold>,
    },
    /// Ends a permit under each policy for concurrency, and drops the ticket of its call. The
    /// resulting units are 1 if it was held under one of them.
    Release {
        /// The permit.
        permit: PermitId,
    },
    /// Renews a permit under each policy for concurrency. The resulting units are 1 if it was held
    /// under all of them.
    RenewPermit {
        /// The permit.
        permit: PermitId,
    },
    /// Makes the key fresh; an override stays. Drops the holds of the key of the first policy, and
    /// forgets the calls that may be repeated.
    Reset,
    /// Blocks the key: refuses all calls for a time. A block that ends later stays.
    Block {
        /// The length of this time in microseconds.
        lasting: Micros,
    },
    /// Ends a block.
    Unblock,
    /// Overrides the limiter's numbers for the key, for a time. A policy without an entry keeps its
    /// numbers.
    Override {
        /// The overriding policies, by policy; each has the algorithm of the policy that it
        /// overrides.
        policies: Vec<Option<Arc<Policy>>>,
        /// The length of this time in microseconds.
        lasting: Micros,
    },
    /// Ends an override.
    ClearOverride,
}

impl Operation {
    /// The units of an operation that may have them by policy.
    fn units(&self) -> Option<&Units> {
        match self {
            Self::Take { cost }
            | Self::Reserve { cost, .. }
            | Self::Extend { cost, .. }
            | Self::Peek { cost }
            | Self::Schedule { cost, .. }
            | Self::Acquire { cost, .. } => Some(cost),
            Self::Penalize { units } | Self::Refund { units, .. } => Some(units),
            Self::Settle { actual, .. } => Some(actual),
            Self::Repeatable(call) => Some(&call.cost),
            _ => None,
        }
    }

    /// Whether the units are by policy.
    pub(crate) fn is_metered(&self) -> bool {
        self.units().is_some_and(Units::is_by_policy)
    }
}
