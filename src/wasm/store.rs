//! The embedded store, for JavaScript.

use std::sync::Arc;

use wasm_bindgen::prelude::wasm_bindgen;

use super::builder;
use super::host::seed;
use super::whole;
use crate::memory;
use crate::wasm::limiter::WasmMemoryLimiter;
use crate::wasm::scratch::{with_scratch, write_reason};

/// A store in this instance's memory.
#[wasm_bindgen]
#[derive(Debug)]
pub struct WasmMemoryStore(Arc<memory::MemoryStore>);

#[wasm_bindgen]
impl WasmMemoryStore {
    /// Creates a store.
    #[wasm_bindgen(constructor)]
    pub fn new(max_keys: f64) -> Self {
        let max_keys = usize::try_from(whole(max_keys)).unwrap_or(usize::MAX);
        Self(memory::MemoryStore::with_seed_source(max_keys, seed))
    }

    /// Opens a limiter with the added policies. Its prefix is the first text in the scratch memory.
    /// Returns nothing while the prefix is open with policies that differ in more than numbers; the
    /// reason is then written to the scratch memory.
    pub fn open(&self, is_single: bool) -> Option<WasmMemoryLimiter> {
        let prefix = with_scratch(|scratch| scratch.text(0).to_owned());
        let opened = builder::take(is_single).and_then(|policies| {
            let is_named = !is_single || policies.named_limits() > 0 || policies.ban().is_some();
            Ok(WasmMemoryLimiter::new(self.0.open(&prefix, policies)?, is_named))
        });
        opened.map_err(|invalid| write_reason(invalid.rule())).ok()
    }

    /// The number of keys that are stored separately now.
    #[wasm_bindgen(js_name = heldKeys)]
    pub fn held_keys(&self) -> usize {
        self.0.held_keys()
    }
}
