//! Policies, checked once.

use napi::bindgen_prelude::Result;
use napi::{Error, Status};
use napi_derive::napi;

use super::whole;
use crate::algorithm::{FixedWindow, Gcra, InvalidNumber, TokenBucket};
use crate::policy;

/// An algorithm with its numbers. A factory throws, naming the option and the rule, for numbers
/// that cannot be counted exactly. Lengths of time are in whole microseconds.
#[napi]
#[derive(Debug, Clone)]
pub struct Policy(policy::Policy);

impl Policy {
    pub(super) fn inner(&self) -> policy::Policy {
        self.0.clone()
    }
}

#[napi]
impl Policy {
    /// `limit` units per window.
    #[napi(factory, catch_unwind)]
    pub fn fixed_window(limit: f64, window_us: f64) -> Result<Self> {
        checked(FixedWindow::new(whole(limit), whole(window_us)), policy::Policy::FixedWindow)
    }

    /// A bucket of `capacity` tokens that gains `tokens` per `every_us`.
    #[napi(factory, catch_unwind)]
    pub fn token_bucket(capacity: f64, tokens: f64, every_us: f64) -> Result<Self> {
        let made = TokenBucket::new(whole(capacity), whole(tokens), whole(every_us));
        checked(made, policy::Policy::TokenBucket)
    }

    /// `limit` units per `period_us`, and up to `burst` at once.
    #[napi(factory, catch_unwind)]
    pub fn gcra(limit: f64, period_us: f64, burst: f64) -> Result<Self> {
        let made = Gcra::new(whole(limit), whole(period_us), whole(burst));
        checked(made, policy::Policy::Gcra)
    }
}

fn checked<A>(
    made: core::result::Result<A, InvalidNumber>,
    lift: fn(A) -> policy::Policy,
) -> Result<Policy> {
    match made {
        Ok(algorithm) => Ok(Policy(lift(algorithm))),
        Err(invalid) => Err(Error::new(Status::InvalidArg, invalid.to_string())),
    }
}
