//! Policies, checked once when they are created.

use wasm_bindgen::prelude::wasm_bindgen;

use super::host::NumberedZone;
use super::whole;
use crate::algorithm::InvalidNumber;
use crate::calendar::Calendar;
use crate::policy::Policy;
use crate::wasm::scratch::{Scratch, with_scratch};

/// Whether the policy in the scratch memory is valid: see [`read_policy`]. If not, the reason is
/// written there.
#[wasm_bindgen(js_name = checkPolicy)]
pub fn check(kind: u32, count: usize, zone: u32) -> bool {
    with_scratch(|scratch| {
        let policy = read_policy(scratch, kind, count, zone);
        policy.map_err(|invalid| scratch.write_text(&[invalid.option, " ", invalid.rule])).is_ok()
    })
}

/// The policy of a kind, with `count` numbers in the scratch memory. A calendar window has the name
/// of its zone there, too, and the number `zone`. JavaScript has checked the zone.
pub(crate) fn read_policy(
    scratch: &Scratch,
    kind: u32,
    count: usize,
    zone: u32,
) -> Result<Policy, InvalidNumber> {
    let numbers: Vec<_> = scratch.arguments(count).iter().copied().map(whole).collect();
    Policy::from_numbers(kind, &numbers, |every| {
        Ok(Calendar::in_zone(every, scratch.text(1), Box::new(NumberedZone(zone))))
    })
}
