//! The embedded store.

use std::sync::Arc;

use wasm_bindgen::prelude::wasm_bindgen;

use super::builder;
use super::host::seed;
use super::whole;
use crate::memory;
use crate::prefixes::PrefixTaken;
use crate::wasm::limiter::Ledger;
use crate::wasm::scratch::at_desk;

/// A store in this instance's memory.
#[wasm_bindgen]
#[derive(Debug)]
pub struct MemoryStore(Arc<memory::MemoryStore>);

#[wasm_bindgen]
impl MemoryStore {
    /// A store of its own.
    #[wasm_bindgen(constructor)]
    pub fn new(max_keys: f64) -> Self {
        let max_keys = usize::try_from(whole(max_keys)).unwrap_or(usize::MAX);
        Self(memory::MemoryStore::drawing(max_keys, seed))
    }

    /// Opens a limiter's ledger, of the prefix that is the first text on the desk and of what has been drafted. Nothing
    /// while the prefix is open with other policies: the reason is said.
    pub fn open(&self, is_single: bool) -> Option<Ledger> {
        let prefix = at_desk(|desk| desk.text(0).to_owned());
        let reason = match builder::take(is_single) {
            Ok(policies) => {
                let is_named = !is_single || policies.named_limits() > 0;
                match self.0.open(&prefix, policies) {
                    Ok(ledger) => return Some(Ledger::new(ledger, is_named)),
                    Err(_) => PrefixTaken::RULE,
                }
            }
            Err(invalid) => invalid.rule(),
        };
        at_desk(|desk| desk.say(&[reason]));
        None
    }

    /// The number of keys that are held apart now.
    #[wasm_bindgen(js_name = heldKeys)]
    pub fn held_keys(&self) -> usize {
        self.0.held_keys()
    }
}
