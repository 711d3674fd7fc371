//! The embedded store.

use std::sync::Arc;

use wasm_bindgen::prelude::wasm_bindgen;

use super::desk::at_desk;
use super::draft;
use super::host::seed;
use super::ledger::Ledger;
use super::whole;
use crate::store::memory::{self, open_named};

/// A store in this instance's memory.
#[wasm_bindgen]
#[derive(Debug)]
pub struct MemoryStore(Arc<memory::MemoryStore>);

#[wasm_bindgen]
impl MemoryStore {
    /// A store of its own; if it has a name, which is the first text on the desk, the instance's store of that name.
    /// Nothing if that has other options: the reason is said.
    pub fn of(max_keys: f64, is_named: bool, own_clock: bool) -> Option<Self> {
        let max_keys = usize::try_from(whole(max_keys)).unwrap_or(usize::MAX);
        if !is_named {
            return Some(Self(memory::MemoryStore::drawing(max_keys, seed)));
        }
        let name = at_desk(|desk| desk.text(0).to_owned());
        said(open_named(&name, max_keys, own_clock, seed).map_err(|taken| taken.to_string()))
            .map(Self)
    }

    /// Opens a limiter's ledger, of the prefix that is the first text on the desk and of what has been drafted. Nothing
    /// while the prefix is open with other policies: the reason is said.
    pub fn open(&self, is_single: bool) -> Option<Ledger> {
        let prefix = at_desk(|desk| desk.text(0).to_owned());
        let opened = draft::take(is_single).and_then(|policies| {
            let is_named = !is_single || policies.named_limits() > 0;
            let ledger = self.0.open(&prefix, policies).map_err(|taken| taken.to_string())?;
            Ok(Ledger::new(ledger, is_named))
        });
        said(opened)
    }

    /// The number of keys that are held apart now.
    #[wasm_bindgen(js_name = heldKeys)]
    pub fn held_keys(&self) -> usize {
        self.0.held_keys()
    }
}

/// What has been made; a reason against it is said.
fn said<T>(made: Result<T, String>) -> Option<T> {
    made.map_err(|reason| at_desk(|desk| desk.say(&reason))).ok()
}
