//! A flush that is split by slot gets the same decisions as the whole flush.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use tollgate::key::Key;
use tollgate::policy::Policy;
use tollgate::policy::execute::Execution;
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::{NamedPolicy, PolicySet};
use tollgate::redis::{CallBatch, CallFailure, Flush, FlushPartition, KeyNames, slot_of};

use crate::algorithm::sliding_window::SlidingSpec;
use crate::laws::trace::START;
use crate::policy::specs::{HOUR, RateSpec, SECOND, WindowSpec};
use crate::redis::flushes::run;
use crate::redis::server::Server;

const KEYS: usize = 6;

/// Limiters of one policy, of several policies by one key, and of several policies by two keys.
fn limiters() -> Vec<Arc<PolicySet>> {
    let gcra = |burst| RateSpec { units: 7, period: SECOND, burst }.gcra();
    let window = |limit| WindowSpec { limit, window: SECOND }.policy();
    let list = SlidingSpec { limit: 6, window: SECOND, buckets: 10 }.list();
    let several = |policies: Vec<(Policy, usize)>| {
        let named = |(number, (policy, key_dimension))| NamedPolicy {
            name: format!("policy-{number}").into(),
            policy,
            key_dimension,
        };
        PolicySet::multi(policies.into_iter().enumerate().map(named).collect()).unwrap()
    };
    let limiters = [
        gcra(5).into(),
        window(9).into(),
        several(vec![(gcra(9), 0), (window(20), 0), (list.clone(), 0)]),
        several(vec![(gcra(9), 0), (window(20), 1), (list, 1), (gcra(30), 0)]),
    ];
    limiters.into_iter().map(Arc::new).collect()
}

/// A call: its limiter, its operation, two keys, its tag and a number.
#[derive(Debug, Clone)]
struct Call {
    limiter: usize,
    deed: usize,
    keys: [Option<usize>; 2],
    tag: Option<usize>,
    number: u8,
}

fn any_call(limiters: usize) -> impl Strategy<Value = Call> {
    let key = prop::option::weighted(0.9, 0..KEYS);
    let keys = (0..KEYS, key, any::<bool>())
        .prop_map(|(first, other, both)| [Some(first).filter(|_| both || other.is_none()), other]);
    let tag = prop::option::weighted(0.4, 0..2_usize);
    let deed = prop_oneof![6 => Just(0_usize), 4 => 1..9_usize];
    (0..limiters, deed, keys, tag, 1..4_u8).prop_map(|(limiter, deed, keys, tag, number)| Call {
        limiter,
        deed,
        keys,
        tag,
        number,
    })
}

impl Call {
    fn operation(&self) -> Operation {
        let units = u64::from(self.number);
        let hold = [self.number; 16];
        match self.deed {
            1 => Operation::TakeUpTo { units: 2 * units },
            2 => Operation::Penalize { units: units.into() },
            3 => Operation::Reserve { cost: units.into(), hold, lasting: HOUR },
            4 => Operation::Settle { hold, actual: 1.into(), charges: vec![] },
            5 => Operation::Reset,
            6 => Operation::Block { lasting: SECOND / 10 },
            7 => Operation::Unblock,
            _ => Operation::Take { cost: (1 + units * (self.deed as u64 % 2)).into() },
        }
    }

    /// Adds the call to the batch of its limiter.
    fn note(&self, names: &KeyNames, key_dimensions: usize, batch: &mut CallBatch) {
        let texts = self.keys_of(key_dimensions).map(|key| key.map(|key| format!("key {key}")));
        let keys = texts.each_ref().map(|key| key.as_deref().map(|key| Key::new(key).unwrap()));
        let tag = self.tag.map(|tag| format!("tenant {tag}"));
        batch.push_operation(names, &keys[..key_dimensions], tag.as_deref(), self.operation());
    }

    fn keys_of(&self, key_dimensions: usize) -> [Option<usize>; 2] {
        match key_dimensions {
            1 => [self.keys[0].or(self.keys[1]), None],
            // A take needs keys of all key dimensions.
            _ if matches!(self.deed, 0 | 1 | 3 | 8) => self.keys.map(|key| key.or(Some(0))),
            _ => self.keys,
        }
    }

    fn is_crossing(&self, key_dimensions: usize) -> bool {
        let slots = self.keys_of(key_dimensions).map(|key| key.map(|key| format!("{{key {key}}}")));
        match slots.map(|tag| tag.map(|tag| slot_of(tag.as_bytes()))) {
            [Some(first), Some(second)] => self.tag.is_none() && first != second,
            _ => false,
        }
    }
}

type Told = Vec<Result<Execution, CallFailure>>;

fn decided(server: &mut Server, round: &Flush, now: u64) -> Told {
    let answers: Vec<_> = round.script_calls().iter().map(|job| run(server, job, now)).collect();
    let mut told = Vec::new();
    round.complete(&answers, |one| told.push(one));
    told
}

fn holds(
    [whole, split]: &mut [Server; 2],
    limiters: &[Arc<PolicySet>],
    tags: Option<u16>,
    rounds: &[(u64, Vec<Call>)],
) -> TestCaseResult {
    let _: [(); 2] = [whole.run(&[b"FLUSHALL"]), split.run(&[b"FLUSHALL"])];
    let mut now = START;
    for (pause, calls) in rounds {
        now += pause;
        // One batch has all calls, the other only the calls that a cluster can decide.
        let [mut all, mut possible] = [Flush::default(), Flush::default()];
        let (mut crossing, mut decidable, mut index) = (Vec::new(), Vec::new(), 0_u32);
        for (number, policies) in limiters.iter().enumerate() {
            let names = KeyNames::new(&format!("limiter-{number}"), policies);
            let names = names.with_tags(tags.and_then(std::num::NonZeroU16::new));
            let [mut own, mut own_possible] = [CallBatch::new(), CallBatch::new()];
            let key_dimensions = policies.key_dimensions();
            for call in calls.iter().filter(|call| call.limiter == number) {
                call.note(&names, key_dimensions, &mut own);
                // With one tag for all keys, no call crosses slots.
                if call.is_crossing(key_dimensions) && tags.is_none() {
                    crossing.push(index);
                } else {
                    call.note(&names, key_dimensions, &mut own_possible);
                    decidable.push(index);
                }
                index += 1;
            }
            for (round, batch) in [(&mut all, own), (&mut possible, own_possible)] {
                if !batch.is_empty() {
                    round.push(Arc::clone(policies), batch);
                }
            }
        }
        let expected = decided(whole, &possible, now);
        let parted = all.by_slot();
        let found = parted.cross_slot.map(|part| part.calls).unwrap_or_default();
        prop_assert_eq!(&found, &crossing);
        let mut told = vec![None; index as usize];
        for FlushPartition { slot, flush: round, calls } in parted.partitions {
            let jobs = round.script_calls();
            prop_assert_eq!(jobs.len(), 1);
            prop_assert!(jobs[0].keys.iter().all(|name| slot_of(name) == slot));
            prop_assert_eq!((round.len(), calls.is_sorted()), (calls.len(), true));
            for (call, one) in calls.into_iter().zip(decided(split, &round, now)) {
                prop_assert!(told[call as usize].replace(one).is_none(), "{} twice", call);
            }
        }
        let told: Vec<_> =
            decidable.iter().map(|index| told[*index as usize].take().unwrap()).collect();
        prop_assert_eq!(told, expected);
    }
    Ok(())
}

fn proven(tags: Option<u16>) {
    let servers = std::cell::RefCell::new([Server::start(), Server::start()]);
    let limiters = limiters();
    let calls = prop::collection::vec(any_call(limiters.len()), 1..40);
    let rounds = prop::collection::vec((0_u64..400_000, calls), 1..20);
    let outcome = TestRunner::new(crate::cases::cases(60))
        .run(&rounds, |rounds| holds(&mut servers.borrow_mut(), &limiters, tags, &rounds));
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

#[test]
fn parts_are_decided_as_the_whole_round_and_what_crosses_slots_is_set_apart() {
    proven(None);
}

#[test]
fn so_are_they_with_a_tag_that_all_keys_share() {
    proven(Some(1));
}

#[test]
fn calls_are_parted_one_by_one_in_their_order() {
    let policies: Arc<PolicySet> = limiters().remove(0);
    let (mut batch, mut round) = (CallBatch::new(), Flush::default());
    let names = KeyNames::new("api", &policies);
    for key in ["a", "b", "a"] {
        batch.push(&names, Key::new(key).unwrap(), 1);
    }
    round.push(policies, batch);
    let parts = round.by_call(7);
    let calls: Vec<_> = parts.iter().map(|part| (part.slot, part.calls.clone())).collect();
    assert_eq!(calls, [(7, vec![0]), (7, vec![1]), (7, vec![2])]);
    let keys =
        |part: &FlushPartition| part.flush.script_calls()[0].keys.iter().next().unwrap().to_vec();
    let keys: Vec<_> = parts.iter().map(keys).collect();
    assert_eq!(keys, [b"api:default:gcra:{a}", b"api:default:gcra:{b}", b"api:default:gcra:{a}"]);
}
