//! No key that still counts expires: after every operation its TTL reaches at least to the reset
//! time of the state in its value, whichever numbers wrote that. Units that Redis drops too early
//! are admitted twice.

use std::sync::Arc;
use std::time::Instant;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::Algorithm as _;
use tollgate::key::Key;
use tollgate::policy::Policy;
use tollgate::policy::decision::Status;
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::PolicySet;
use tollgate::redis::{CallBatch, KeyNames, Script};

use crate::algorithm::buckets::{BucketSpec, any_versions};
use crate::laws::trace::{START, Step, any_trace};
use crate::policy::specs::{DAY, HOUR, RateSpec, SECOND};
use crate::redis::server::Server;
use crate::redis::twins::proven;

/// Added to each TTL, so that no key expires before the test has read it.
const MARGIN_MS: i64 = 1_000_000;

/// The script takes its time as an argument, and counts TTLs from the start of the trace.
fn script() -> Script {
    let script = Script::limiter().with_clock("local now = tonumber(ARGV[3])\n");
    let ttl = format!("ttl + {MARGIN_MS} + math.floor((now - {START}) / 1000)");
    let ttl = format!("'PX', string.format('%.0f', {ttl})");
    script.edited(|source| source.replace("'PX', ttl", &ttl))
}

/// The algorithm that wrote a value.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Continuous,
    Interval,
}

impl Kind {
    fn policy(self, spec: &BucketSpec) -> Policy {
        match self {
            Self::Continuous => spec.continuous(),
            Self::Interval => spec.interval(),
        }
    }

    /// The reset time of the state in a value, by the numbers in that value alone.
    fn end_of(self, value: &[u8]) -> u64 {
        let state = without_extras(value);
        let number = |index: usize| {
            let bytes = state[8 * index..8 * index + 8].try_into().unwrap();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole")]
            let whole = f64::from_be_bytes(bytes) as u64;
            whole
        };
        let end = match self {
            Self::Continuous => number(0) + u64::from(number(1) > 0),
            Self::Interval => number(0) + number(1).div_ceil(number(3)) * number(2),
        };
        let lingers = matches!(state.get(40..), Some([b'l'] | [.., b'B']));
        end + if lingers { DAY } else { 0 }
    }
}

/// A value without its key metadata: see `lua/executor/key_metadata.lua`.
fn without_extras(value: &[u8]) -> &[u8] {
    match value {
        [.., high, low, b'X'] if value.len() >= 48 => {
            &value[..value.len() - usize::from(u16::from_be_bytes([*high, *low]))]
        }
        _ => value,
    }
}

/// A key on a server with scripts that take their time as an argument.
struct Watched<'a> {
    server: &'a mut Server,
    kind: Kind,
    script: Script,
    began: Instant,
}

impl<'a> Watched<'a> {
    fn new(server: &'a mut Server, kind: Kind) -> Self {
        let _: () = server.run(&[b"FLUSHALL"]);
        Self { server, kind, script: script(), began: Instant::now() }
    }

    /// Executes an operation under a policy, and returns whether the key lives long enough.
    fn execute(&mut self, policy: &Policy, operation: Operation, now: u64) -> (Status, bool) {
        let policies: PolicySet = policy.clone().into();
        let (names, key) = (KeyNames::new("api", &policies), Key::new("a").unwrap());
        let mut batch = CallBatch::new();
        batch.push_operation(&names, &[Some(key)], None, operation);
        let more = [String::new(), now.to_string()];
        let executed = self.server.execute(&self.script, &policies, &batch, &more).remove(0);
        (executed.unwrap().response.decision.status, self.lives(&names.of(key)))
    }

    fn lives(&mut self, name: &[u8]) -> bool {
        let value: Option<Vec<u8>> = self.server.run(&[b"GET", name]);
        let Some(value) = value else { return true };
        let end = self.kind.end_of(&value);
        let ttl: i64 = self.server.run(&[b"PTTL", name]);
        let lived = i64::try_from(self.began.elapsed().as_millis()).unwrap();
        let needed = i64::try_from(end.saturating_sub(START).div_ceil(1_000)).unwrap();
        ttl - MARGIN_MS + lived >= needed
    }
}

/// An operation on the key, selected by a part of the step's choice.
fn operation(step: &Step, policy: &Policy, other: &Policy) -> Operation {
    let cost = step.cost.of(policy.capacity());
    match step.choice / 2 % 9 {
        0..=3 => Operation::Take { cost: cost.into() },
        4 => Operation::Override { policies: vec![Some(Arc::new(other.clone()))], lasting: HOUR },
        5 => Operation::ClearOverride,
        6 => Operation::Block { lasting: SECOND },
        7 => Operation::Unblock,
        _ => Operation::Penalize { units: cost.into() },
    }
}

fn lives(server: &mut Server, kind: Kind, specs: &[BucketSpec], trace: &[Step]) -> TestCaseResult {
    let policies: Vec<Policy> = specs.iter().map(|spec| kind.policy(spec)).collect();
    let mut key = Watched::new(server, kind);
    let mut now = START;
    for step in trace {
        now = step.time.onward_from(now, now, now);
        let policy = &policies[step.choice % policies.len()];
        let other = &policies[(step.choice + 1) % policies.len()];
        let operation = operation(step, policy, other);
        let (_, lives) = key.execute(policy, operation.clone(), now);
        prop_assert!(lives, "after {operation:?} under {policy:?}");
    }
    Ok(())
}

#[test]
fn a_key_lives_until_its_state_ends_whatever_is_done_to_it() {
    let choices = prop::collection::vec(0..1_000_usize, 100);
    let cases = (any_versions(2..3), any::<bool>(), any_trace(100), choices);
    proven(cases, |server, (specs, continuous, mut trace, choices)| {
        for (step, choice) in trace.iter_mut().zip(choices) {
            step.choice = choice;
        }
        let kind = if continuous { Kind::Continuous } else { Kind::Interval };
        lives(server, kind, &specs, &trace)
    });
}

/// After an override with a shorter time to full, Redis must keep the units charged before. TTL
/// steps are an hour under the policy and a second under the override.
#[test]
fn what_was_charged_outlives_an_override_with_a_shorter_horizon() {
    let mut server = Server::start();
    let spec = |units, period| {
        let rate = RateSpec { units, period, burst: 100 };
        BucketSpec { rate, initial: 100, debt: 0 }
    };
    for kind in [Kind::Continuous, Kind::Interval] {
        let (policy, generous) = (kind.policy(&spec(100, HOUR)), kind.policy(&spec(100, SECOND)));
        // The start of a step: no later charge of this test changes the TTL.
        let now = START - START % HOUR + 24 * HOUR;
        let changes = [
            vec![
                Operation::Override { policies: vec![Some(Arc::new(generous))], lasting: HOUR },
                Operation::ClearOverride,
            ],
            vec![Operation::Block { lasting: SECOND }, Operation::Unblock],
        ];
        for change in changes {
            let mut key = Watched::new(&mut server, kind);
            let mut execute = |operation, now| key.execute(&policy, operation, now);
            assert_eq!(execute(Operation::Take { cost: 5.into() }, now), (Status::Allowed, true));
            for operation in change {
                assert!(execute(operation, now).1);
            }
            assert_eq!(
                execute(Operation::Take { cost: 50.into() }, now),
                (Status::Allowed, true),
                "{kind:?}"
            );
        }
    }
}
