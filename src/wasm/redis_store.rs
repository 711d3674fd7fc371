//! The Redis store of the WebAssembly module: it builds requests and decodes replies, which a
//! client in JavaScript carries.

#![allow(clippy::needless_pass_by_value, reason = "wasm-bindgen hands strings over by value")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use wasm_bindgen::prelude::wasm_bindgen;

use super::response::FailureCode;
use super::{builder, host, whole};
use crate::policy::operation::Operation;
use crate::policy::policy_set::{InvalidPolicySet, PolicySet};
use crate::policy::variants::PolicyVariants;
use crate::prefixes::{Prefixes, VariantIndex};
use crate::redis::{self, CallBatch, Flush, KeyNames, Script};
use crate::wasm::scratch::{ScratchKeys, with_scratch, write_reason};

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
                Err(invalid) => invalid.rule(),
            },
            Err(invalid) => invalid.rule(),
        };
        write_reason(reason);
        None
    }
}

/// One limiter over Redis. It enqueues calls until a flush sends them.
#[wasm_bindgen]
#[derive(Debug)]
pub struct WasmRedisLimiter {
    names: KeyNames,
    queue: Rc<WasmCallQueue>,
    /// The policy variant of its calls.
    variant: u16,
    prefix: String,
    prefixes: Rc<RefCell<Prefixes>>,
    closed: Cell<bool>,
}

/// Calls that wait for the next flush, and the policies that they use.
#[derive(Debug)]
struct WasmCallQueue {
    variants: RefCell<PolicyVariants>,
    batch: RefCell<CallBatch>,
}

impl WasmRedisLimiter {
    fn new(prefix: String, policies: PolicySet, prefixes: Rc<RefCell<Prefixes>>) -> Self {
        Self {
            names: KeyNames::new(&prefix, &policies),
            queue: Rc::new(WasmCallQueue {
                variants: RefCell::new(PolicyVariants::new(policies)),
                batch: RefCell::default(),
            }),
            variant: 0,
            prefix,
            prefixes,
            closed: Cell::new(false),
        }
    }

    /// Moves the enqueued calls of all variants into a flush.
    pub(crate) fn move_calls(&self, flush: &mut Flush) {
        let batch = self.queue.batch.borrow_mut().take();
        flush.push_variants(&self.queue.variants.borrow(), batch);
    }

    /// Adds one peek from the keys in the scratch buffer to a flush.
    pub(crate) fn push_peek(
        &self,
        flush: &mut Flush,
        tag: Option<&str>,
        peek: Operation,
    ) -> Result<(), FailureCode> {
        let mut batch = CallBatch::new();
        with_scratch(|scratch| {
            let (keys, _) = scratch.keys();
            self.push(&mut batch, &keys?, tag, peek);
            flush.push_variants(&self.queue.variants.borrow(), batch);
            Ok(())
        })
    }

    fn push(
        &self,
        batch: &mut CallBatch,
        keys: &ScratchKeys<'_>,
        tag: Option<&str>,
        operation: Operation,
    ) {
        batch.push_operation(&self.names, keys, tag, operation);
        batch.set_variant(self.variant);
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
            let mut batch = self.queue.batch.borrow_mut();
            batch.push(&self.names, key?, whole(cost));
            batch.set_variant(self.variant);
            Ok(())
        });
        enqueued.map_or_else(FailureCode::code, |()| 0.0)
    }

    /// Enqueues an operation on the keys in the scratch buffer, which also has the `count` numbers of
    /// `numbersOf` in `ts/backends/operation.ts`. Returns 0 or a failure's code.
    pub fn enqueue(&self, tag: Option<String>, code: u8, count: usize) -> f64 {
        let enqueued = with_scratch(|scratch| {
            let operation =
                builder::read_operation(scratch, code, count).ok_or(FailureCode::Panicked)?;
            let (keys, _) = scratch.keys();
            self.push(&mut self.queue.batch.borrow_mut(), &keys?, tag.as_deref(), operation);
            Ok(())
        });
        enqueued.map_or_else(FailureCode::code, |()| 0.0)
    }

    /// Opens a limiter on the same keys and the same queue, with the policies in the builder, as the
    /// variant of this index: see `NativeRedisLimiter::open_variant`. If it fails, it writes the
    /// reason to the scratch buffer and returns nothing.
    #[wasm_bindgen(js_name = openVariant)]
    pub fn open_variant(&self, is_single: bool, index: usize, replaces: bool) -> Option<Self> {
        match self.try_open_variant(is_single, VariantIndex { index, replaces }) {
            Ok(variant) => Some(variant),
            Err(reason) => {
                write_reason(reason);
                None
            }
        }
    }

    fn try_open_variant(&self, is_single: bool, index: VariantIndex) -> Result<Self, &'static str> {
        let policies = builder::take(is_single).map_err(InvalidPolicySet::rule)?;
        let mut variants = self.queue.variants.borrow_mut();
        variants.get(0).check_variant(&policies).map_err(InvalidPolicySet::rule)?;
        let opened = self.prefixes.borrow_mut().open_variant(&self.prefix, index, &policies);
        opened.map_err(InvalidPolicySet::rule)?;
        let variant = variants.add(policies).map_err(InvalidPolicySet::rule)?;
        Ok(Self {
            names: self.names.clone(),
            queue: Rc::clone(&self.queue),
            variant,
            prefix: self.prefix.clone(),
            prefixes: Rc::clone(&self.prefixes),
            closed: Cell::new(false),
        })
    }

    /// Releases the prefix for other policies. No call of this limiter may be pending.
    pub fn close(&self) {
        if !self.closed.replace(true) {
            self.prefixes.borrow_mut().close(&self.prefix);
            self.queue.variants.borrow_mut().remove(self.variant);
        }
    }
}
