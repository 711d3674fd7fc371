//! Policies on their way into a limiter: JavaScript lays them on the desk one by one.

use std::cell::RefCell;
use std::sync::Arc;

use wasm_bindgen::prelude::wasm_bindgen;

use super::desk::at_desk;
use super::policy::on_desk;
use crate::policies::{InvalidPolicies, NamedPolicy, Policies};
use crate::policy::Policy;

/// A policy with its name and subject, or nothing where a key keeps the limiter's numbers.
type Drafted = Option<NamedPolicy>;

thread_local! {
    static DRAFT: RefCell<Vec<Drafted>> = const { RefCell::new(Vec::new()) };
}

/// Begins anew.
#[wasm_bindgen(js_name = startDraft)]
pub fn start() {
    DRAFT.with_borrow_mut(Vec::clear);
}

/// Adds the policy that lies on the desk, of the name that is the first text there. JavaScript has checked it.
#[wasm_bindgen(js_name = draftPolicy)]
pub fn draft(kind: u32, count: usize, subject: usize) {
    let drafted = at_desk(|desk| {
        let policy = on_desk(desk, kind, count).ok()?;
        Some(NamedPolicy { name: desk.text(0).into(), policy, subject })
    });
    DRAFT.with_borrow_mut(|draft| draft.push(drafted));
}

/// Adds nothing: the policy at this place keeps its numbers.
#[wasm_bindgen(js_name = draftNothing)]
pub fn draft_nothing() {
    DRAFT.with_borrow_mut(|draft| draft.push(None));
}

/// Whether what has been drafted can decide together; it is taken away. If not, the reason is said.
#[wasm_bindgen(js_name = checkDraft)]
pub fn check() -> bool {
    take(false).map_err(|invalid| at_desk(|desk| desk.say(&[invalid.rule()]))).is_ok()
}

/// What a limiter is to enforce.
pub(super) fn take(is_single: bool) -> Result<Policies, InvalidPolicies> {
    let mut named: Vec<_> = DRAFT.take().into_iter().flatten().collect();
    match named.pop() {
        Some(last) if is_single => Ok(Policies::one(last.policy)),
        last => {
            named.extend(last);
            Policies::several(named)
        }
    }
}

/// Numbers of a key's own, by policy.
pub(super) fn take_numbers() -> Vec<Option<Arc<Policy>>> {
    let numbers = |drafted: Drafted| drafted.map(|named| Arc::new(named.policy));
    DRAFT.take().into_iter().map(numbers).collect()
}
