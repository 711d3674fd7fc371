//! Policies, checked once when they are created.

use wasm_bindgen::prelude::wasm_bindgen;

use super::host::NumberedZone;
use super::whole;
use crate::abi::policy::{self, PolicyResult, levels};
use crate::algorithm::{CalendarWindow, InvalidNumber};
use crate::calendar::Calendar;
use crate::policy::Policy;
use crate::protocol::policy_kind;
use crate::wasm::scratch::{Scratch, with_scratch};

/// Whether the policy in the scratch memory is valid: see [`read_policy`]. If not, the reason is
/// written there.
#[wasm_bindgen(js_name = checkPolicy)]
pub fn check(kind: u32, count: usize) -> bool {
    with_scratch(|scratch| {
        let policy = read_policy(scratch, kind, count);
        policy.map_err(|invalid| scratch.write_text(&[invalid.option, " ", invalid.rule])).is_ok()
    })
}

/// The policy of a kind, with `count` numbers in the scratch memory.
pub(crate) fn read_policy(scratch: &Scratch, kind: u32, count: usize) -> PolicyResult {
    match (kind, scratch.arguments(count)) {
        (policy_kind::FIXED_WINDOW, &[limit, window, refused]) => {
            policy::fixed_window(limit, window, refused > 0.0)
        }
        (policy_kind::SLIDING_COUNTER, &[limit, window]) => policy::sliding_counter(limit, window),
        (policy_kind::TOKEN_BUCKET, &[capacity, tokens, every, initial, debt]) => {
            policy::token_bucket(levels(capacity, initial, debt), tokens, every)
        }
        (policy_kind::TOKEN_BUCKET_INTERVAL, &[capacity, tokens, every, initial, debt]) => {
            policy::token_bucket_interval(levels(capacity, initial, debt), tokens, every)
        }
        (policy_kind::LEAKY_BUCKET, &[capacity, units, every]) => {
            policy::leaky_bucket(capacity, units, every)
        }
        (policy_kind::GCRA, &[limit, period, burst]) => policy::gcra(limit, period, burst),
        (policy_kind::SLIDING_WINDOW, &[limit, window, buckets, hash]) => {
            policy::sliding_window(limit, window, buckets, hash > 0.0)
        }
        (policy_kind::CALENDAR_WINDOW, &[limit, every, zone]) => {
            calendar_window(limit, every, zone, scratch.text(1))
        }
        (policy_kind::SLIDING_LOG, &[limit, window, refused]) => {
            policy::sliding_log(limit, window, refused > 0.0)
        }
        (policy_kind::SLIDING_LOGS, [precision, numbers @ ..]) => {
            let (limits, windows) = numbers.split_at(numbers.len() / 2);
            policy::sliding_logs(limits, windows, (*precision >= 0.0).then_some(*precision))
        }
        _ => Err(InvalidNumber { option: "algorithm", rule: "must be one that the engine knows" }),
    }
}

/// A calendar window. The named windows have the numbers from 0 on; a part of a day is given by its
/// length in microseconds, at least a second. JavaScript has checked the zone.
fn calendar_window(limit: f64, every: f64, zone: f64, name: &str) -> PolicyResult {
    let every = match ["hour", "day", "week", "month"].get(index(every)) {
        Some(unit) => policy::named_window(unit)?,
        None => policy::day_part(every)?,
    };
    let zone = NumberedZone(u32::try_from(whole(zone)).unwrap_or(u32::MAX));
    let calendar = Calendar::in_zone(every, name, Box::new(zone));
    CalendarWindow::by(whole(limit), calendar).map(Policy::CalendarWindow)
}

fn index(number: f64) -> usize {
    usize::try_from(whole(number)).unwrap_or(usize::MAX)
}
