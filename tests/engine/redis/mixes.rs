//! Random mixes of one to five policies. At each step the embedded store, the Lua script on a real
//! server and the oracle report the same, and a refusal leaves every policy's value in Redis
//! unchanged, to the byte.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::KeyState as _;
use tollgate::key::Key;
use tollgate::memory::MemoryStore;
use tollgate::policy::State;
use tollgate::policy::execute::Execution;
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::PolicySet;
use tollgate::redis::{CallBatch, KeyNames, Script};

use crate::algorithm::calendar_window::CalendarSpec;
use crate::algorithm::sliding_counter::CounterSpec;
use crate::algorithm::sliding_window::SlidingSpec;
use crate::laws::trace::{START, Step, any_trace};
use crate::policy::mix::{Mix, Pair, any_mix};
use crate::policy::multi_policy::{
    Deed, Kept, any_deeds, judge, needs_all, on, operation, reset_at, takes, unused,
};
use crate::policy::multi_policy_oracle::{CompoundOracle, Spec};
use crate::policy::specs::WindowSpec;
use crate::redis::server::Server;
use crate::redis::twins::{lasting, proven};

const STEPS: usize = 100;

/// All values, by name.
type Values = BTreeMap<Vec<u8>, Vec<u8>>;

/// A limiter's keys on a server, with a clock of the test.
struct Shared<'a> {
    server: &'a mut Server,
    script: &'static Script,
    policies: PolicySet,
    names: KeyNames,
}

impl Shared<'_> {
    fn execute(
        &mut self,
        keys: &[Option<Key<'_>>],
        operation: &Operation,
        now: u64,
        expected: bool,
    ) -> Execution {
        let mut batch = CallBatch::new();
        batch.set_optimistic(expected);
        batch.push_operation(&self.names, keys, None, operation.clone());
        let mode = if matches!(operation, Operation::Peek { .. }) { "peek" } else { "" };
        let more = [mode.to_owned(), now.to_string()];
        self.server.execute(self.script, &self.policies, &batch, &more).remove(0).unwrap()
    }

    fn values(&mut self) -> Values {
        let names: Vec<Vec<u8>> = self.server.run(&[b"KEYS", b"*"]);
        let value = |name: Vec<u8>| (name.clone(), self.server.run(&[b"DUMP", &name]));
        names.into_iter().map(value).collect()
    }
}

/// The same, with equal calendars and buckets in each pair, because an override cannot change them.
fn with_like_calendars(mix: &Mix) -> Mix {
    let like = |&(one, other): &Pair| {
        let other = match (one, other) {
            (Spec::Calendar(one), Spec::Calendar(CalendarSpec { limit, .. })) => {
                Spec::Calendar(CalendarSpec { limit, ..one })
            }
            (Spec::Sliding(SlidingSpec { buckets, .. }), Spec::Sliding(other)) => {
                Spec::Sliding(SlidingSpec { buckets, ..other })
            }
            (_, other) => other,
        };
        (one, other)
    };
    Mix { pairs: mix.pairs.iter().map(like).collect(), ..mix.clone() }
}

/// The same, with windows of equal length in each pair. Then a refused call finds no state that
/// lies too far ahead.
fn with_like_windows(mix: &Mix) -> Mix {
    let like = |&(one, other): &Pair| {
        let other = match (one, other) {
            (Spec::Counter(one), Spec::Counter(CounterSpec { limit, .. })) => {
                Spec::Counter(CounterSpec { limit, ..one })
            }
            (Spec::Sliding(one), Spec::Sliding(SlidingSpec { limit, .. })) => {
                Spec::Sliding(SlidingSpec { limit, ..one })
            }
            (Spec::Window(one), Spec::Window(WindowSpec { limit, .. })) => {
                Spec::Window(WindowSpec { limit, ..one })
            }
            (_, other) => other,
        };
        (one, other)
    };
    Mix { pairs: mix.pairs.iter().map(like).collect(), ..mix.clone() }
}

/// Whether the name is that of a policy's key.
fn is_of(name: &[u8], number: usize) -> bool {
    let is_alone = name.starts_with(b"mixes:default:");
    is_alone || name.starts_with(format!("mixes:policy-{number}:").as_bytes())
}

/// Whether a state is a log past its reset time: any call may drop it.
fn is_settled_log(now: u64) -> impl Fn(&(usize, &Kept)) -> bool {
    move |(_, (state, _))| {
        let state = state.unmarked();
        matches!(state, State::Log(_)) && state.reset_at() <= now
    }
}

/// Whether a policy records the first call on a key even if it refuses it.
fn notes_first_sight(mix: &Mix) -> bool {
    let begins_low = |spec| match spec {
        Spec::Continuous(spec) | Spec::Interval(spec) => spec.initial < spec.rate.burst,
        _ => false,
    };
    mix.pairs.iter().any(|pair| begins_low(pair.0) || begins_low(pair.1))
}

fn equal(
    server: &mut Server,
    mix: &Mix,
    trace: &[Step],
    deeds: &[Deed],
    keeps_values: bool,
) -> TestCaseResult {
    let _: () = server.run(&[b"FLUSHALL"]);
    let policies = mix.policies();
    let names = KeyNames::new("mixes", &policies);
    let mut shared = Shared { server, script: lasting(), policies: policies.clone(), names };
    let ledger = MemoryStore::new(1_000, (1, 2)).open("mixes", policies.clone()).unwrap();
    let (mut kept, mut oracle) = (unused(&policies), CompoundOracle::new(mix));
    let (mut now, mut retry_at) = (START, START);
    for (&Step { time, cost, choice }, &deed) in trace.iter().zip(deeds) {
        now = time.onward_from(now, reset_at(&kept), retry_at);
        let cost = cost.of(oracle.spec(choice % mix.pairs.len(), now).limit());
        let operation = operation(mix, deed, cost);
        let named = |key_dimension| needs_all(&operation) || deed.concerns(key_dimension);
        let texts: Vec<_> =
            (0..mix.key_dimensions).map(|key_dimension| key_dimension.to_string()).collect();
        let key =
            |(key_dimension, text)| Some(Key::new(text).unwrap()).filter(|_| named(key_dimension));
        let keys: Vec<_> = texts.iter().map(String::as_str).enumerate().map(key).collect();
        let which = |number| named(mix.key_dimension(number));
        if !(0..mix.pairs.len()).any(which) {
            continue;
        }
        let before = shared.values();
        if takes(&operation) {
            let peek =
                Operation::Peek { cost: if choice % 5 == 0 { 0.into() } else { cost.into() } };
            let peeked = shared.execute(&keys, &peek, now, choice % 2 == 0);
            prop_assert_eq!(peeked, ledger.execute(&keys, &peek, &now).unwrap(), "at {}", now);
            prop_assert_eq!(&shared.values(), &before, "after {:?} at {}", peek, now);
        }
        let executed = shared.execute(&keys, &operation, now, choice % 2 == 0);
        let in_memory = ledger.execute(&keys, &operation, &now).unwrap();
        prop_assert_eq!(&executed, &in_memory, "{:?} at {}", operation, now);
        judge(&mut oracle, which, now, &operation, &executed)?;
        let settled_logs = (0..).zip(&kept).filter(is_settled_log(now));
        let settled_logs: Vec<usize> = settled_logs.map(|(number, _)| number).collect();
        let may_change = |name: &[u8]| settled_logs.iter().any(|&number| is_of(name, number));
        // A call also drops metadata and marks that have ended.
        let drops = kept.iter().any(|(state, extras)| {
            let mut rest = extras.clone();
            rest.drop_ended(now);
            rest != *extras || state.clone().drop_ended_mark(now)
        });
        on(&policies, &mut kept, which, now, &operation);
        if takes(&operation)
            && executed.units == 0
            && keeps_values
            && !notes_first_sight(mix)
            && mix.ban.is_none()
            && !drops
        {
            let (mut before, mut after) = (before, shared.values());
            before.retain(|name, _| !may_change(name));
            after.retain(|name, _| !may_change(name));
            prop_assert_eq!(after, before, "after {:?} at {}", operation, now);
        }
        retry_at = now + executed.response.decision.retry_after_ms * 1_000;
    }
    Ok(())
}

#[test]
fn memory_redis_and_the_oracle_say_the_same_and_a_refusal_leaves_all_values_as_they_were() {
    let cases = (any_mix(), any_trace(STEPS), any_deeds(STEPS));
    proven(cases, |server, (mix, trace, deeds)| {
        let mix = with_like_calendars(&mix);
        equal(server, &mix, &trace, &deeds, false)?;
        equal(server, &with_like_windows(&mix), &trace, &deeds, true)
    });
}
