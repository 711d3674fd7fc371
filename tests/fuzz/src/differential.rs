//! One input drives the embedded store, the scripts and the WebAssembly module, which must agree in
//! all fields of all answers.
//!
//! If the clock of an input steps back, states that have expired make a difference that is allowed:
//! a store may have dropped them or not. Then the scripts' keys do not expire, and the scripts are
//! compared with [`execute`] on states that do not expire either; the module is compared with the
//! embedded store, which drops the same states. There are no blocks, bans and overrides then: a script drops
//! those that have ended.

use std::cell::RefCell;
use std::collections::HashMap;

use arbitrary::{Result, Unstructured};
use tollgate::algorithm::Algorithm as _;
use tollgate::fuzzing::wasm::{encode, encode_decision};
use tollgate::key::Key;
use tollgate::memory::{MemoryLimiter, MemoryStore};
use tollgate::policy::State;
use tollgate::policy::decision::Status;
use tollgate::policy::execute::{Execution, KeyEntry, KeyMetadata, execute};
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::PolicySet;
use tollgate::policy::units::Units;
use tollgate::policy::variants::PolicyVariants;
use tollgate::prefixes::VariantIndex;
use tollgate::redis::{CallBatch, Flush, KeyNames, Script};
use tollgate::time::MAX_TIME;

use crate::calls::{Call, History, Keys, numbers_of};
use crate::module::{Compiled, WasmInstance};
use crate::policies::{SetNumbers, length};
use crate::server::Server;

/// 2026-09-21, in microseconds.
const START: u64 = 1_790_000_000_000_000;

/// The seed of the module's hash functions: see `randomBits` in `module.rs`.
const SEED: (u64, u64) = (7 << 32 | 7, 7 << 32 | 7);

const MAX_CALLS: usize = 80;

/// The keys of each dimension.
const KEYS: [&str; 3] = ["a", "b{é}", "%~1"];

thread_local! {
    static COMPILED: Compiled = Compiled::load();
    static INSTANCE: RefCell<Option<(WasmInstance, u32)>> = const { RefCell::new(None) };
}

/// The inputs after which an instance is replaced. Each input adds a store to its memory.
const INPUTS_OF_AN_INSTANCE: u32 = 200;

/// Decodes the bytes as policies and calls, and compares the answers.
pub fn run(data: &[u8]) {
    // An input that is too short is no case.
    let _case = case(&mut Unstructured::new(data));
}

fn case(input: &mut Unstructured<'_>) -> Result<()> {
    let steps_back = input.ratio(1, 4)?;
    let Some(set) = SetNumbers::any(input)? else { return Ok(()) };
    if steps_back && set.ban.is_some() {
        return Ok(());
    }
    let other = if input.ratio(1, 3)? { set.renumbered(input)? } else { None };
    let variants: Vec<_> = [Some(set), other].into_iter().flatten().collect();
    INSTANCE.with_borrow_mut(|slot| {
        let fresh = || (COMPILED.with(Compiled::start), 0);
        let (mut instance, inputs) = slot.take().unwrap_or_else(fresh);
        Trace::new(&variants, steps_back, &mut instance).play(input)?;
        // After a failure, the next input gets a new instance.
        *slot = (inputs < INPUTS_OF_AN_INSTANCE).then_some((instance, inputs + 1));
        Ok(())
    })
}

/// The stores under one input.
struct Trace<'a> {
    variants: &'a [SetNumbers],
    steps_back: bool,
    now: u64,
    history: History,
    memory: Vec<MemoryLimiter>,
    /// The states of the model, if the clock steps back: by policy and key.
    model: Option<HashMap<(usize, usize), (State, KeyMetadata)>>,
    module: &'a mut WasmInstance,
    module_limiters: Vec<i32>,
    server: Server,
    names: KeyNames,
    policy_variants: PolicyVariants,
    /// For messages.
    log: Vec<String>,
    reset_at: u64,
    retry_at: u64,
}

impl<'a> Trace<'a> {
    fn new(variants: &'a [SetNumbers], steps_back: bool, module: &'a mut WasmInstance) -> Self {
        let (first, others) = variants.split_first().expect("at least one variant");
        let limiter = MemoryStore::new(1_000_000, SEED).open("api", first.set.clone());
        let mut memory = vec![limiter.expect("a new store has no other prefix")];
        let mut module_limiters = vec![module.open(first)];
        let mut policy_variants = PolicyVariants::new(first.set.clone());
        for other in others {
            let index = VariantIndex { index: 1, replaces: false };
            let variant = memory[0].open_variant(index, other.set.clone());
            memory.push(variant.expect("it differs in numbers only"));
            module_limiters.push(module.open_variant(module_limiters[0], other));
            policy_variants.add(other.set.clone()).expect("it differs in numbers only");
        }
        let mut server = Server::default();
        server.keys.keeps_expired = steps_back;
        Self {
            variants,
            steps_back,
            now: START,
            history: History::default(),
            memory,
            model: steps_back.then(HashMap::new),
            module,
            module_limiters,
            server,
            names: KeyNames::new("api", &first.set),
            policy_variants,
            log: Vec::new(),
            reset_at: START,
            retry_at: START,
        }
    }

    fn play(mut self, input: &mut Unstructured<'_>) -> Result<()> {
        while !input.is_empty() && self.log.len() < MAX_CALLS {
            self.now = self.next_time(input)?;
            let mut batch = CallBatch::new();
            let mut expected = Vec::new();
            for _ in 0..input.int_in_range(1..=4)? {
                let variant = input.choose_index(self.variants.len())?;
                let mut call =
                    self.history.call(input, &self.variants[variant], !self.steps_back)?;
                let is_peek = matches!(call.operation, Operation::Peek { .. });
                if is_peek && !expected.is_empty() {
                    // Peeks have flushes of their own.
                    call.operation = Operation::Take { cost: 1.into() };
                    if self.variants[0].has_permits() {
                        break;
                    }
                }
                if let Operation::Repeatable(own) = &mut call.operation {
                    // Only a decision that is repeated under the same numbers is the same everywhere.
                    own.id = [&own.id[..], &[b'0' + variant as u8]].concat().into();
                }
                let keys = self.keys_of(&call, input)?;
                expected.push(self.decide(&call, &keys, variant, input.ratio(1, 2)?));
                push(&mut batch, &self.names, &call.operation, &keys, variant);
                if is_peek {
                    break;
                }
            }
            if expected.is_empty() {
                continue;
            }
            batch.set_optimistic(input.arbitrary()?);
            self.compare_scripts(batch, &expected, input.ratio(1, 2)?);
        }
        Ok(())
    }

    fn next_time(&self, input: &mut Unstructured<'_>) -> Result<u64> {
        let now = self.now;
        let next = match input.int_in_range(0..=9)? {
            0..=2 => now,
            3 => now + 1,
            4 => self.reset_at - input.int_in_range(0..=1)?,
            5 => self.retry_at - input.int_in_range(0..=1)?,
            6 if self.steps_back => now.saturating_sub(length(input)?),
            6 => now + 1_000,
            _ => now.saturating_add(length(input)?),
        };
        let first = if self.steps_back { START / 2 } else { now };
        // At the last time itself, a length of 2^52 µs ends at 2^53, which the decoder of replies refuses.
        Ok(next.clamp(first, MAX_TIME - 1))
    }

    /// The keys of a call. Only operations that take no units may leave some out.
    fn keys_of(&self, call: &Call, input: &mut Unstructured<'_>) -> Result<Keys> {
        if let Some(keys) = &call.keys {
            return Ok(keys.clone());
        }
        use Operation::{Acquire, Peek, Repeatable, Reserve, Schedule, Take, TakeUpTo};
        let needs_all = matches!(
            call.operation,
            Acquire { .. }
                | Peek { .. }
                | Repeatable(_)
                | Reserve { .. }
                | Schedule { .. }
                | Take { .. }
                | TakeUpTo { .. }
        );
        let dimensions = self.variants[0].set.key_dimensions();
        let left_out =
            if dimensions > 1 && !needs_all { input.int_in_range(0..=5)? } else { dimensions };
        let mut keys = Vec::new();
        for dimension in 0..dimensions {
            let key = input.choose_index(KEYS.len())?;
            keys.push((dimension != left_out).then_some(key));
        }
        Ok(keys)
    }

    /// Decides a call in memory and in the module.
    fn decide(&mut self, call: &Call, keys: &Keys, variant: usize, is_short: bool) -> Execution {
        let (operation, set) = (&call.operation, &self.variants[variant]);
        self.log.push(format!("{} {keys:?} {variant} {operation:?}", self.now));
        let limiter = &self.memory[variant];
        let texts: Vec<_> = keys.iter().map(|key| key.map(|key| KEYS[key])).collect();
        let parsed = parsed(keys);
        let short_take = match (operation, &parsed[..]) {
            (Operation::Take { cost: Units::Same(cost) }, &[Some(key)]) if is_short => {
                Some((*cost, key))
            }
            _ => None,
        };
        let executed = match short_take {
            Some((cost, key)) => {
                let response = limiter.take_with_report(key, cost, &self.now);
                let status = response.decision.status;
                let admitted = matches!(status, Status::Allowed | Status::AllowedLast);
                Execution::new(response, if admitted { cost } else { 0 })
            }
            None => limiter.execute(&parsed, operation, &self.now).expect("the store is not full"),
        };
        self.log.push(format!("  {executed:?}"));
        let module_limiter = self.module_limiters[variant];
        let expected = match short_take {
            Some((cost, key)) => {
                self.module.take(module_limiter, key.as_str(), cost, self.now);
                let is_plain = set.is_single && set.ban.is_none() && set.set.named_limits() == 0;
                if is_plain {
                    encode_decision(&executed.response.decision)
                } else {
                    encode(&executed)
                }
            }
            None => {
                if matches!(operation, Operation::Override { .. }) {
                    self.module.write_overrides(&call.overrides);
                }
                let (code, numbers) = numbers_of(operation, set.policies.len());
                self.module.execute(module_limiter, &texts, code, &numbers, self.now);
                encode(&executed)
            }
        };
        let actual = self.module.response(expected.len());
        if actual != expected {
            let doubles =
                |bits: &[u64]| bits.iter().copied().map(f64::from_bits).collect::<Vec<_>>();
            self.fail(&format!(
                "the module answers {:?}, not {:?}",
                doubles(&actual),
                doubles(&expected)
            ));
        }
        let decided = self.decide_in_model(operation, keys, variant).unwrap_or(executed);
        let decision = &decided.response.decision;
        self.reset_at = (self.now + decision.reset_after_ms * 1_000).max(1);
        self.retry_at = (self.now + decision.retry_after_ms * 1_000).max(1);
        self.history.add(set, keys, operation, &decided);
        decided
    }

    /// Decides a call on states that do not expire.
    fn decide_in_model(
        &mut self,
        operation: &Operation,
        keys: &Keys,
        variant: usize,
    ) -> Option<Execution> {
        let states = self.model.as_mut()?;
        let policies: &PolicySet = &self.variants[variant].set;
        let mut entries: Vec<_> = policies.named().iter().map(|_| None).collect();
        for (index, named) in policies.named().iter().enumerate() {
            if let Some(key) = keys[named.key_dimension] {
                let initial = || (named.policy.initial_state(), KeyMetadata::default());
                states.entry((index, key)).or_insert_with(initial);
            }
        }
        for (&(index, key), (state, metadata)) in states {
            if keys[policies.named()[index].key_dimension] == Some(key) {
                entries[index] = Some(KeyEntry {
                    state,
                    metadata,
                    may_strike: true,
                    may_owe: true,
                    is_shared: false,
                });
            }
        }
        Some(execute(policies, &mut entries, self.now, operation))
    }

    /// Decides the calls of a batch by the scripts.
    fn compare_scripts(&mut self, batch: CallBatch, expected: &[Execution], deduplicates: bool) {
        let is_peek = self.log.iter().rev().nth(1).is_some_and(|line| line.contains("Peek"));
        let mut flush = if is_peek { Flush::peeking() } else { Flush::default() };
        flush.push_variants(&self.policy_variants, batch);
        flush.set_time(self.now);
        if deduplicates {
            flush = flush.deduplicate();
        }
        let mut results = Vec::new();
        loop {
            for call in flush.script_calls() {
                results.push(self.server.run(&call, Script::limiter().source(), &[], self.now));
            }
            let Some(now) = flush.retry_stale(&results) else { break };
            assert_eq!(now, self.now);
        }
        let mut actual = Vec::new();
        flush.complete(&results, |result| actual.push(result));
        assert_eq!(actual.len(), expected.len());
        for (actual, expected) in actual.into_iter().zip(expected) {
            match actual {
                Ok(actual) if actual == *expected => {}
                other => self.fail(&format!("the scripts answer {other:?}, not {expected:?}")),
            }
        }
    }

    fn fail(&self, what: &str) -> ! {
        let policies: Vec<_> =
            self.variants.iter().map(|own| (&own.policies, &own.dimensions, &own.ban)).collect();
        panic!("{what}\nunder {policies:#?}\nafter {}", self.log.join("\n"));
    }
}

fn parsed(keys: &Keys) -> Vec<Option<Key<'static>>> {
    keys.iter().map(|key| key.map(|key| Key::new(KEYS[key]).expect("a short key"))).collect()
}

fn push(
    batch: &mut CallBatch,
    names: &KeyNames,
    operation: &Operation,
    keys: &Keys,
    variant: usize,
) {
    batch.push_operation(names, &parsed(keys), None, operation.clone());
    batch.set_variant(u16::try_from(variant).expect("few variants"));
}
