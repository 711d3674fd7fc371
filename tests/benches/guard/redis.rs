//! Batches of 128 calls: queued one by one, encoded as one script call, and decided from its reply.
//!
//! The replies are hand-written copies of the scripts' replies. A decoding error would change the
//! decisions.

use std::hint::black_box;

use tollgate::key::Key;
use tollgate::policy::Policy;
use tollgate::policy::decision::{Decision, Status};
use tollgate::policy::policy_set::PolicySet;
use tollgate::policy::variants::PolicyVariants;
use tollgate::redis::{CallBatch, Flush, KeyNames, ReplyValue, ScriptResult};
use tollgate::time::Micros;

use crate::{HOUR, LIMIT, START, count, fixed_window, gcra, names};

const ROUNDS: usize = 20;
const CALLS: usize = 128;

/// The time of one unit at [`LIMIT`] per hour.
const UNIT: Micros = HOUR / LIMIT;

pub(crate) fn count_all() {
    let one_unit = [number(START + UNIT), 0.0];
    whole_way("gcra", gcra(LIMIT), 1, &one_unit);
    whole_way("gcra of 4 tiers", gcra(LIMIT), 4, &one_unit);
    let window = [-number(packed((START + HOUR) / 1_000, 1))];
    whole_way("fixed window", fixed_window(LIMIT), 1, &window);
    costs();
    refusals();
}

/// Queues calls on each of the keys repeatedly, and removes them as they are sent. The calls are
/// spread over tiers, which have equal numbers.
fn note(policy: Policy, tiers: u16, cost: u64) -> impl FnMut() -> Flush {
    let policies = PolicySet::single(policy);
    let mut variants = PolicyVariants::new(policies.clone());
    for _ in 1..tiers {
        variants.add(policies.clone()).expect("a variant");
    }
    let (names, limiter) = (names(), KeyNames::new("guard", &policies));
    let (mut batch, mut next) = (CallBatch::new(), 0);
    move || {
        for call in 0..u16::try_from(CALLS).expect("few calls") {
            let key = Key::new(black_box(&names[next])).expect("a legal key");
            batch.push(&limiter, key, black_box(cost));
            batch.set_variant(call % tiers);
            next = (next + 1) % names.len();
        }
        let mut round = Flush::default();
        round.push_variants(&variants, batch.take());
        round
    }
}

/// Encodes a number as the scripts do.
#[expect(clippy::cast_precision_loss, reason = "all are below 2^53")]
fn number(number: u64) -> f64 {
    number as f64
}

/// A window as Redis stores it, in one number: its end, counted from 2020, and its count.
fn packed(ends_ms: u64, count: u64) -> u64 {
    (ends_ms - 1_577_836_800_000) * 8_192 + count
}

/// A script's reply to calls with the same outcome and the same resulting state.
fn answer(state: &[f64], outcome: Option<u8>) -> Vec<ScriptResult> {
    let state: Vec<u8> = state.iter().flat_map(|number| number.to_be_bytes()).collect();
    let values = [state.repeat(CALLS), outcome.map_or(vec![], |code| vec![code; CALLS]), vec![]];
    let now = ReplyValue::Number(START.try_into().expect("a time"));
    vec![Ok([now].into_iter().chain(values.map(ReplyValue::Bytes)).collect())]
}

fn read(round: &Flush, answers: &[ScriptResult], expected: impl Fn(&Decision) -> bool) {
    let mut told = 0;
    round.complete(black_box(answers), |executed| {
        let decision = executed.expect("a readable answer").response.decision;
        assert!(expected(&decision), "{decision:?}");
        told += 1;
    });
    assert_eq!(told, CALLS);
}

/// One unit for each key, all admitted: the most common case.
fn whole_way(name: &str, policy: Policy, tiers: u16, left: &[f64]) {
    let (mut note, answers) = (note(policy, tiers, 1), answer(left, None));
    let admitted =
        |decision: &Decision| (decision.status, decision.remaining) == (Status::Allowed, LIMIT - 1);
    // From now on the batch expects this number of calls, and open windows.
    let first = note();
    assert_eq!(first.script_calls().len(), 1);
    read(&first, &answers, admitted);
    let mut rounds = Vec::with_capacity(ROUNDS);
    let calls = ROUNDS * CALLS;
    count(&format!("redis, {name}, note"), calls, || rounds.extend((0..ROUNDS).map(|_| note())));
    count(&format!("redis, {name}, write"), calls, || {
        rounds.iter().for_each(|round| drop(black_box(round.script_calls())));
    });
    count(&format!("redis, {name}, read"), calls, || {
        rounds.iter().for_each(|round| read(round, &answers, admitted));
    });
}

/// Calls of different numbers of units.
fn costs() {
    let mut note = note(gcra(LIMIT), 1, 5);
    let rounds: Vec<_> = (0..ROUNDS).map(|_| note()).collect();
    count("redis, gcra, write costs", ROUNDS * CALLS, || {
        rounds.iter().for_each(|round| drop(black_box(round.script_calls())));
    });
}

fn refusals() {
    const REFUSED: u8 = 1;
    let round = note(gcra(1), 1, 1)();
    let answers = answer(&[number(START + HOUR), 0.0], Some(REFUSED));
    let refused = |decision: &Decision| decision.status == Status::Refused;
    count("redis, gcra, read refusals", ROUNDS * CALLS, || {
        (0..ROUNDS).for_each(|_| read(&round, &answers, refused));
    });
}
