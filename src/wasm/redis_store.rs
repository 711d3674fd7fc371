//! What a store in Redis notes, and what it asks: JavaScript has a client that carries it.

#![allow(clippy::needless_pass_by_value, reason = "wasm-bindgen hands strings over by value")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use wasm_bindgen::prelude::wasm_bindgen;

use super::response::Failure;
use super::{builder, host, whole};
use crate::policy::operation::Operation;
use crate::policy::policy_set::Policies;
use crate::prefixes::PrefixTaken;
use crate::prefixes::Prefixes;
use crate::redis::{self, Batch, Names, Script};
use crate::wasm::operation_reader::asked;
use crate::wasm::scratch::{Keys, at_desk};

/// The script, for EVAL.
#[wasm_bindgen(js_name = scriptSource)]
pub fn script_source() -> String {
    Script::limiter_as_text().source().to_owned()
}

/// Its digest, for EVALSHA.
#[wasm_bindgen(js_name = scriptDigest)]
pub fn script_digest() -> String {
    Script::limiter_as_text().sha1().to_owned()
}

/// The script that notes by which policies the calls on a prefix are decided, for EVAL. It takes the key of
/// [`policies_name`].
#[wasm_bindgen(js_name = policiesSource)]
pub fn policies_source() -> String {
    Script::policy_registry().source().to_owned()
}

/// The name of that key.
#[wasm_bindgen(js_name = policiesName)]
pub fn policies_name(prefix: &str) -> String {
    redis::noted_name(prefix)
}

/// Draws the secret of hash functions: to be called before anything is noted.
#[wasm_bindgen(js_name = drawSeed)]
pub fn draw_seed() {
    redis::seed(host::seed());
}

/// The prefixes of a store.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct RedisStore(Rc<RefCell<Prefixes>>);

#[wasm_bindgen]
impl RedisStore {
    /// A store without limiters.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a limiter's keys, of the prefix that is the first text on the desk and of what has been drafted. Nothing
    /// while the prefix is open with other policies: the reason is said.
    pub fn open(&self, is_single: bool) -> Option<RedisLedger> {
        let prefix = at_desk(|desk| desk.text(0).to_owned());
        let reason = match builder::take(is_single) {
            Ok(policies) => match self.0.borrow_mut().open(&prefix, &policies) {
                Ok(_) => return Some(RedisLedger::new(prefix, policies, Rc::clone(&self.0))),
                Err(_) => PrefixTaken::RULE,
            },
            Err(invalid) => invalid.rule(),
        };
        at_desk(|desk| desk.say(&[reason]));
        None
    }
}

/// One limiter's keys in Redis: its calls are noted until they are sent.
#[wasm_bindgen]
#[derive(Debug)]
pub struct RedisLedger {
    names: Names,
    policies: Arc<Policies>,
    batch: RefCell<Batch>,
    prefix: String,
    prefixes: Rc<RefCell<Prefixes>>,
    closed: Cell<bool>,
}

impl RedisLedger {
    fn new(prefix: String, policies: Policies, prefixes: Rc<RefCell<Prefixes>>) -> Self {
        Self {
            names: Names::new(&prefix, &policies),
            policies: Arc::new(policies),
            batch: RefCell::default(),
            prefix,
            prefixes,
            closed: Cell::new(false),
        }
    }

    /// Takes out the calls that have been noted.
    pub(crate) fn take_noted(&self) -> (Arc<Policies>, Batch) {
        (Arc::clone(&self.policies), self.batch.borrow_mut().take())
    }

    /// A call that tells what taking `cost` units from the keys on the desk would answer.
    pub(crate) fn peeking(
        &self,
        tag: Option<&str>,
        cost: u64,
    ) -> Result<(Arc<Policies>, Batch), Failure> {
        let mut batch = Batch::new();
        at_desk(|desk| {
            let (keys, _) = desk.keys();
            self.push(&mut batch, &keys?, tag, Operation::Peek { cost });
            Ok((Arc::clone(&self.policies), batch))
        })
    }

    fn push(&self, batch: &mut Batch, keys: &Keys<'_>, tag: Option<&str>, operation: Operation) {
        batch.push_operation(&self.names, &keys[..self.policies.subjects()], tag, operation);
    }
}

#[wasm_bindgen]
impl RedisLedger {
    /// Notes a call of `cost` units on the first key on the desk, which is so many bytes long. Answers 0, or with a
    /// failure's code; and so do the others.
    #[wasm_bindgen(js_name = noteTake)]
    pub fn note_take(&self, length: usize, cost: f64) -> f64 {
        let noted = at_desk(|desk| {
            let (key, _) = desk.key(length);
            self.batch.borrow_mut().push(&self.names, key?, whole(cost));
            Ok(())
        });
        noted.map_or_else(Failure::code, |()| 0.0)
    }

    /// Notes an operation on the keys on the desk: by its number in `ts/backends/operation.ts`, or one that [`asked`] knows, of
    /// the question's numbers.
    pub fn note(&self, tag: Option<String>, code: u32, count: usize) -> f64 {
        let noted = at_desk(|desk| {
            let operation = asked(desk, code, count).ok_or(Failure::Panicked)?;
            let (keys, _) = desk.keys();
            self.push(&mut self.batch.borrow_mut(), &keys?, tag.as_deref(), operation);
            Ok(())
        });
        noted.map_or_else(Failure::code, |()| 0.0)
    }

    /// Frees the prefix for another policy.
    pub fn close(&self) {
        if !self.closed.replace(true) {
            self.prefixes.borrow_mut().close(&self.prefix);
        }
    }
}
