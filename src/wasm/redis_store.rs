//! The Redis store of the WebAssembly module: it builds requests and decodes replies, which a
//! client in JavaScript carries.

#![allow(clippy::needless_pass_by_value, reason = "wasm-bindgen hands strings over by value")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use wasm_bindgen::prelude::wasm_bindgen;

use super::response::FailureCode;
use super::{builder, host, whole};
use crate::policy::operation::Operation;
use crate::policy::policy_set::PolicySet;
use crate::prefixes::PrefixInUse;
use crate::prefixes::Prefixes;
use crate::redis::{self, CallBatch, KeyNames, Script};
use crate::wasm::operation_reader::read_operation;
use crate::wasm::scratch::{ScratchKeys, with_scratch};

/// The source of the script that decides calls, for EVAL.
#[wasm_bindgen(js_name = scriptSource)]
pub fn script_source() -> String {
    Script::limiter_as_text().source().to_owned()
}

/// The script's digest, for EVALSHA.
#[wasm_bindgen(js_name = scriptDigest)]
pub fn script_digest() -> String {
    Script::limiter_as_text().sha1().to_owned()
}

/// The source of the script that registers the policies of a prefix, for EVAL. Its key is
/// [`policies_name`].
#[wasm_bindgen(js_name = policiesSource)]
pub fn policies_source() -> String {
    Script::policy_registry().source().to_owned()
}

/// The name of the key that stores the policies of a prefix.
#[wasm_bindgen(js_name = policiesName)]
pub fn policies_name(prefix: &str) -> String {
    redis::policy_registry_key(prefix)
}

/// Draws the secret of the hash functions. Call it before the first call is enqueued.
#[wasm_bindgen(js_name = drawSeed)]
pub fn draw_seed() {
    redis::seed(host::seed());
}

/// The open prefixes of a store.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct WasmRedisStore(Rc<RefCell<Prefixes>>);

#[wasm_bindgen]
impl WasmRedisStore {
    /// A store without limiters.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a limiter. The scratch buffer has its prefix as its first text; the builder has its
    /// policies. If the policies are invalid, or the prefix is open with other policies, this
    /// writes the reason to the buffer and returns nothing.
    pub fn open(&self, is_single: bool) -> Option<WasmRedisLimiter> {
        let prefix = with_scratch(|scratch| scratch.text(0).to_owned());
        let reason = match builder::take(is_single) {
            Ok(policies) => match self.0.borrow_mut().open(&prefix, &policies) {
                Ok(_) => return Some(WasmRedisLimiter::new(prefix, policies, Rc::clone(&self.0))),
                Err(_) => PrefixInUse::RULE,
            },
            Err(invalid) => invalid.rule(),
        };
        with_scratch(|scratch| scratch.write_text(&[reason]));
        None
    }
}

/// One limiter over Redis. It enqueues calls until a flush sends them.
#[wasm_bindgen]
#[derive(Debug)]
pub struct WasmRedisLimiter {
    names: KeyNames,
    policies: Arc<PolicySet>,
    batch: RefCell<CallBatch>,
    prefix: String,
    prefixes: Rc<RefCell<Prefixes>>,
    closed: Cell<bool>,
}

impl WasmRedisLimiter {
    fn new(prefix: String, policies: PolicySet, prefixes: Rc<RefCell<Prefixes>>) -> Self {
        Self {
            names: KeyNames::new(&prefix, &policies),
            policies: Arc::new(policies),
            batch: RefCell::default(),
            prefix,
            prefixes,
            closed: Cell::new(false),
        }
    }

    /// Takes out the enqueued calls.
    pub(crate) fn take_calls(&self) -> (Arc<PolicySet>, CallBatch) {
        (Arc::clone(&self.policies), self.batch.borrow_mut().take())
    }

    /// A batch with one peek of `cost` units from the keys in the scratch buffer.
    pub(crate) fn peeking(
        &self,
        tag: Option<&str>,
        cost: u64,
    ) -> Result<(Arc<PolicySet>, CallBatch), FailureCode> {
        let mut batch = CallBatch::new();
        with_scratch(|scratch| {
            let (keys, _) = scratch.keys();
            self.push(&mut batch, &keys?, tag, Operation::Peek { cost });
            Ok((Arc::clone(&self.policies), batch))
        })
    }

    fn push(
        &self,
        batch: &mut CallBatch,
        keys: &ScratchKeys<'_>,
        tag: Option<&str>,
        operation: Operation,
    ) {
        batch.push_operation(&self.names, &keys[..self.policies.key_dimensions()], tag, operation);
    }
}

#[wasm_bindgen]
impl WasmRedisLimiter {
    /// Enqueues a take of `cost` units from the first key in the scratch buffer, which has `length`
    /// bytes. Returns 0 or a failure's code.
    #[wasm_bindgen(js_name = enqueueTake)]
    pub fn enqueue_take(&self, length: usize, cost: f64) -> f64 {
        let enqueued = with_scratch(|scratch| {
            let (key, _) = scratch.key(length);
            self.batch.borrow_mut().push(&self.names, key?, whole(cost));
            Ok(())
        });
        enqueued.map_or_else(FailureCode::code, |()| 0.0)
    }

    /// Enqueues an operation on the keys in the scratch buffer. `code` is its number in
    /// `ts/backends/protocol.ts`, or one that [`read_operation`] decodes; the buffer has `count` numbers
    /// for it. Returns 0 or a failure's code.
    pub fn enqueue(&self, tag: Option<String>, code: u8, count: usize) -> f64 {
        let enqueued = with_scratch(|scratch| {
            let operation = read_operation(scratch, code, count).ok_or(FailureCode::Panicked)?;
            let (keys, _) = scratch.keys();
            self.push(&mut self.batch.borrow_mut(), &keys?, tag.as_deref(), operation);
            Ok(())
        });
        enqueued.map_or_else(FailureCode::code, |()| 0.0)
    }

    /// Releases the prefix for other policies.
    pub fn close(&self) {
        if !self.closed.replace(true) {
            self.prefixes.borrow_mut().close(&self.prefix);
        }
    }
}
