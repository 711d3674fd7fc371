//! Policies, checked once when they are created.

#![allow(clippy::needless_pass_by_value, reason = "napi hands strings over by value")]

use napi::bindgen_prelude::Result;
use napi_derive::napi;

use super::{invalid, whole};
use crate::algorithm::UNKNOWN_TIME_ZONE;
use crate::calendar::{self, Calendar};
use crate::policy::Policy;

/// An algorithm with its numbers.
#[napi]
#[derive(Debug, Clone)]
pub struct NativePolicy(Policy);

impl NativePolicy {
    pub(crate) fn inner(&self) -> Policy {
        self.0.clone()
    }
}

#[napi]
impl NativePolicy {
    /// A policy from its kind and numbers, as `ts/policies/` encodes them; a calendar window with
    /// its time zone. Throws if a number cannot be counted exactly; the error names the option and
    /// the rule.
    #[napi(
        factory,
        catch_unwind,
        ts_args_type = "kind: number, numbers: readonly number[], timeZone?: string"
    )]
    pub fn from_numbers(kind: u32, numbers: Vec<f64>, time_zone: Option<String>) -> Result<Self> {
        let numbers: Vec<_> = numbers.into_iter().map(whole).collect();
        let calendar_of =
            |every| Calendar::new(every, &time_zone.unwrap_or_default()).ok_or(UNKNOWN_TIME_ZONE);
        let policy = Policy::from_numbers(kind, &numbers, calendar_of);
        policy.map(Self).map_err(invalid)
    }

    /// Whether a time zone has this name.
    #[napi(catch_unwind)]
    pub fn is_time_zone(name: String) -> bool {
        calendar::is_time_zone(&name)
    }
}
