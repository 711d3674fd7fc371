//! The invariants of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate::policy::decision::Decision;
use tollgate::redis::{CallError, CallFailure, ScriptFailure};

use crate::run::{Call, is_admitted};
use crate::scenario::{Keys, Scenario};
use crate::server::{EPOCH, World};

/// A request reads an answer that is in the socket already for this long after its deadline. Timers
/// have a resolution of a millisecond.
const GRACE: Duration = Duration::from_millis(3);

/// The violated invariants of a run, in words.
pub(crate) fn violations(scenario: &Scenario, world: &World, calls: &[Call]) -> Vec<String> {
    let mut found = Vec::new();
    let mut keys = BTreeMap::<(usize, &str), Vec<&Call>>::new();
    for call in calls {
        settled(call, &mut found);
        match scenario.limiters[call.limiter].keys {
            Keys::Once => once(call, world, &mut found),
            Keys::Ordered | Keys::Bounded(..) => {
                keys.entry((call.limiter, &call.key)).or_default().push(call);
            }
        }
    }
    if !world.has_lost_keys {
        for ((limiter, _), calls) in keys {
            match scenario.limiters[limiter].keys {
                Keys::Ordered => ordered(scenario, &calls, world, &mut found),
                Keys::Bounded(window, bound) => bounded(&calls, window, bound, &mut found),
                Keys::Once => {}
            }
        }
    }
    found
}

/// Every call settles once, by its deadline; after the recovery each is decided.
fn settled(call: &Call, found: &mut Vec<String>) {
    match &call.outcome {
        None => found.push(format!("a call never settled: {call:?}")),
        Some(_) if call.outcomes != 1 => found.push(format!("a call settled twice: {call:?}")),
        Some((at, _)) if *at > call.deadline + GRACE => {
            found.push(format!("a call settled after its deadline: {call:?}"));
        }
        Some((_, Err(_))) if call.is_after_recovery => {
            found.push(format!("a call failed after the recovery: {call:?}"));
        }
        Some((_, Err(CallFailure::Call(error)))) if is_defect(error) => {
            found.push(format!("a reply was not understood: {call:?}"));
        }
        Some(_) => {}
    }
}

/// Whether an error means that the script and the engine do not understand each other.
fn is_defect(error: &CallError) -> bool {
    !matches!(error, CallError::Unwritten(_))
}

/// At most one script run charges a call, exactly one if it is admitted, and none if the call failed
/// with the promise that nothing was charged.
fn once(call: &Call, world: &World, found: &mut Vec<String>) {
    let runs = world.runs.get(call.name.as_bytes()).copied().unwrap_or_default();
    let is_right = match &call.outcome {
        Some((_, Ok(decision))) => is_admitted(decision.status) && runs == 1,
        Some((_, Err(CallFailure::Script(failure)))) => match failure {
            ScriptFailure::Unavailable(_)
            | ScriptFailure::Refused(_)
            | ScriptFailure::CrossSlot => runs == 0,
            ScriptFailure::Broken(_)
            | ScriptFailure::Failed(_)
            | ScriptFailure::TimedOut
            | ScriptFailure::Closed => runs <= 1,
        },
        Some((_, Err(CallFailure::Call(_)))) => runs == 0,
        None => runs <= 1,
    };
    if !is_right {
        found.push(format!("{runs} script runs charged a call: {call:?}"));
    }
}

/// The calls of a client on a key take effect in their order: each leaves fewer units.
///
/// A call may overtake an earlier one that the server refused, if both were under way: sent again
/// together, or the later one sent before the refusal arrived. Not in a cluster: a slot has one
/// request under way.
fn ordered(scenario: &Scenario, calls: &[&Call], world: &World, found: &mut Vec<String>) {
    let mut last = BTreeMap::<usize, (&Decision, &Call)>::new();
    let micros = |time: Duration| time.as_micros() as u64;
    let together = micros(scenario.delays.jitter + GRACE);
    let trip = micros(scenario.delays.min) + together;
    // The latest time at which something arrives that was sent at a time.
    let arrival = |sent: u64| {
        let stalls = world.stalls.iter();
        let stalls = stalls.filter(|(from, until)| *from <= sent + trip && sent < *until);
        stalls.map(|(_, until)| *until).max().unwrap_or(sent) + trip
    };
    for call in calls {
        let Some((_, Ok(decision))) = &call.outcome else { continue };
        let before = last.insert(call.client, (decision, call));
        let Some((earlier, before)) = before.filter(|(one, _)| one.remaining <= decision.remaining)
        else {
            continue;
        };
        let refused_at = world.refused.get(before.marker.as_bytes());
        let submitted = EPOCH + micros(call.submitted);
        let is_overtaken = refused_at.is_some_and(|&at| {
            let was_under_way = submitted <= arrival(at) && decision.at <= arrival(submitted);
            was_under_way || decision.at <= at + together
        });
        if world.is_cluster || !is_overtaken {
            found.push(format!("a call took effect before an earlier one: {call:?}, {before:?}"));
        }
        // Only the latest of several calls that were overtaken counts.
        if is_overtaken {
            last.insert(call.client, (earlier, before));
        }
    }
}

/// No window admits more than the law, by the time of the decisions.
fn bounded(calls: &[&Call], window: u64, bound: u64, found: &mut Vec<String>) {
    let mut admitted: Vec<(u64, u64)> = Vec::new();
    for call in calls {
        if let Some((_, Ok(decision))) = &call.outcome
            && is_admitted(decision.status)
        {
            admitted.push((decision.at, call.cost));
        }
    }
    admitted.sort_unstable();
    for (first, &(from, _)) in admitted.iter().enumerate() {
        let inside = admitted[first..].iter().take_while(|(at, _)| at - from < window);
        let units: u64 = inside.map(|(_, units)| units).sum();
        if units > bound {
            found.push(format!(
                "{units} units of {:?} were admitted within {window} us from {from}, not {bound}: \
                 {admitted:?}",
                calls[0].name
            ));
            return;
        }
    }
}
