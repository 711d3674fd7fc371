//! The result of an operation.

use crate::policy::multi_policy::Response;
#[cfg(doc)]
use crate::policy::operation::Operation;
use crate::policy::operation::{HoldId, ScheduledReservations};
use crate::policy::units::Units;
use crate::time::Micros;

/// The result of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// The decision on a call that takes units, or on a peek. For all other operations it is that
    /// of a later peek of no units.
    pub response: Response,
    /// The units that were charged or refunded; under several policies the most under one of them.
    /// For a scheduled reservation it is the microseconds until its slot; for a cancelled one it is
    /// 1 if it was cancelled, else 0.
    ///
    /// For a call with [units by policy](Units::ByPolicy) it is 1 if the call was charged, else 0.
    ///
    /// For [`Operation::Renew`] it is 1 if the hold was renewed, else 0. Under policies for concurrency
    /// it is 2 if only the permit was renewed, and 3 if only the hold was. For
    /// [`Operation::Release`] and [`Operation::RenewPermit`] it is 1 if the permit was held, else 0.
    pub units: u64,
    /// Further units, for the operations that have them. In a box, so that calls do not pay for it.
    pub more_units: Option<Box<MoreUnits>>,
    /// The scheduled reservations, for cancelling.
    pub scheduled: ScheduledReservations,
}

/// Units that few operations report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MoreUnits {
    /// For [`Operation::Penalize`], [`Operation::Refund`] and [`Operation::Settle`] with units by
    /// policy: the units that were charged or refunded under each policy.
    pub moved: Option<Box<[u64]>>,
    /// For [`Operation::Extend`] the units of the hold after it, and for [`Operation::Settle`] those
    /// before it; 0 without a hold.
    pub held: Option<Units>,
    /// For [`Operation::Settle`]: what else a settlement tells.
    pub settled: Option<SettledUnits>,
    /// For [`Operation::Repeatable`], if it repeats an earlier call: that call.
    pub first: Option<FirstCall>,
}

/// What a settlement tells beside the moved units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledUnits {
    /// The charged units that are owed: under all policies the most under one of them, or by policy.
    pub owed: Units,
    /// Whether the hold had expired.
    pub is_late: bool,
}

/// The call that another one repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstCall {
    /// Its units.
    pub units: Units,
    /// Its hold if it is a reservation or has a permit, and the end of this hold.
    pub hold: Option<(HoldId, Micros)>,
    /// The time at which it is repeated.
    pub repeated_at: Micros,
}

impl MoreUnits {
    /// All numbers: the moved ones, and those of the hold. After a settlement the owed ones, and 1 if the
    /// hold had expired. Of a repeated call those of the first call, its hold's end, the identifier of this
    /// hold in four numbers, and the time now.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        let held = self.held.iter().flat_map(Units::numbers).copied();
        let settled = self
            .settled
            .iter()
            .flat_map(|one| one.owed.numbers().iter().copied().chain([u64::from(one.is_late)]));
        let first = self.first.iter().flat_map(|first| {
            let hold = first.hold.iter().flat_map(|(id, end)| {
                let part = |bytes: &[u8; 4]| u64::from(u32::from_be_bytes(*bytes));
                let parts = id.as_chunks().0.iter().map(part);
                std::iter::once(*end).chain(parts).chain([first.repeated_at])
            });
            first.units.numbers().iter().copied().chain(hold)
        });
        self.moved.iter().flatten().copied().chain(held).chain(settled).chain(first)
    }
}

impl Execution {
    /// The result of an operation that schedules nothing.
    #[must_use]
    pub fn new(response: Response, units: u64) -> Self {
        let scheduled = ScheduledReservations::new();
        Self { response, units, more_units: None, scheduled }
    }

    /// The result with further units.
    pub(crate) fn with_units(self, moved: Option<Box<[u64]>>, held: Option<Units>) -> Self {
        self.with_more(MoreUnits { moved, held, ..MoreUnits::default() })
    }

    /// The result with further units, if there are any.
    pub(crate) fn with_more(self, more: MoreUnits) -> Self {
        let has_more = more.moved.is_some() || more.held.is_some();
        Self { more_units: has_more.then(|| Box::new(more)), ..self }
    }

    /// The result of a call that repeats another one.
    pub(crate) fn repeating(response: Response, first: FirstCall) -> Self {
        let units = first.units.when_charged();
        let more_units = MoreUnits { first: Some(first), ..MoreUnits::default() };
        Self { more_units: Some(Box::new(more_units)), ..Self::new(response, units) }
    }

    /// See [`MoreUnits::first`].
    #[must_use]
    pub fn first(&self) -> Option<&FirstCall> {
        self.more_units.as_ref()?.first.as_ref()
    }

    /// See [`MoreUnits::moved`].
    #[must_use]
    pub fn moved(&self) -> Option<&[u64]> {
        self.more_units.as_ref()?.moved.as_deref()
    }

    /// See [`MoreUnits::settled`].
    #[must_use]
    pub fn settled(&self) -> Option<&SettledUnits> {
        self.more_units.as_ref()?.settled.as_ref()
    }

    /// See [`MoreUnits::held`].
    #[must_use]
    pub fn held(&self) -> Option<&Units> {
        self.more_units.as_ref()?.held.as_ref()
    }
}
