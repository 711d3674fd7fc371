//! Policies, checked once.

use wasm_bindgen::prelude::wasm_bindgen;

use super::host::NumberedZone;
use super::whole;
use crate::abi::policy::{self, Made, levels};
use crate::algorithm::{CalendarWindow, InvalidNumber};
use crate::calendar::Calendar;
use crate::policy::Policy;
use crate::wasm::scratch::{Desk, at_desk};

/// Whether the policy that lies on the desk can be counted with: see [`on_desk`]. If not, the reason is said.
#[wasm_bindgen(js_name = checkPolicy)]
pub fn check(kind: u32, count: usize) -> bool {
    at_desk(|desk| {
        let made = on_desk(desk, kind, count);
        made.map_err(|invalid| desk.say(&[invalid.option, " ", invalid.rule])).is_ok()
    })
}

/// The policy whose numbers are the question. `ts/wasm/engine/policies.ts` has the same kinds.
pub(crate) fn on_desk(desk: &Desk, kind: u32, count: usize) -> Made {
    match (kind, desk.question(count)) {
        (0, &[limit, window, refused]) => policy::fixed_window(limit, window, refused > 0.0),
        (1, &[limit, window]) => policy::sliding_counter(limit, window),
        (2, &[capacity, tokens, every, initial, debt]) => {
            policy::token_bucket(levels(capacity, initial, debt), tokens, every)
        }
        (3, &[capacity, tokens, every, initial, debt]) => {
            policy::token_bucket_interval(levels(capacity, initial, debt), tokens, every)
        }
        (4, &[capacity, units, every]) => policy::leaky_bucket(capacity, units, every),
        (5, &[limit, period, burst]) => policy::gcra(limit, period, burst),
        (6, &[limit, window, buckets, hash]) => {
            policy::sliding_window(limit, window, buckets, hash > 0.0)
        }
        (7, &[limit, every, zone]) => calendar_window(limit, every, zone, desk.text(1)),
        (8, &[limit, window, refused]) => policy::sliding_log(limit, window, refused > 0.0),
        (9, [precision, numbers @ ..]) => {
            let (limits, windows) = numbers.split_at(numbers.len() / 2);
            policy::sliding_logs(limits, windows, (*precision >= 0.0).then_some(*precision))
        }
        _ => Err(InvalidNumber { option: "algorithm", rule: "must be one that the engine knows" }),
    }
}

/// The units of a calendar have the numbers from 0 on; a part of a day is as long as it is in microseconds, at least
/// a second. JavaScript has checked the zone.
fn calendar_window(limit: f64, every: f64, zone: f64, name: &str) -> Made {
    let every = match ["hour", "day", "week", "month"].get(index(every)) {
        Some(unit) => policy::every_named(unit)?,
        None => policy::every_part(every)?,
    };
    let zone = NumberedZone(u32::try_from(whole(zone)).unwrap_or(u32::MAX));
    let calendar = Calendar::in_zone(every, name, Box::new(zone));
    CalendarWindow::by(whole(limit), calendar).map(Policy::CalendarWindow)
}

fn index(number: f64) -> usize {
    usize::try_from(whole(number)).unwrap_or(usize::MAX)
}
