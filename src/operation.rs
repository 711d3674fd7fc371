//! What can be asked of a key.

use std::sync::Arc;

use crate::algorithm::Taken;
use crate::policy::Policy;
use crate::time::Micros;

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
    /// Makes the key as if never used, but for the numbers of its own.
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
