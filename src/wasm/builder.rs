//! Policies on their way into a limiter: JavaScript lays them on the desk one by one.

use std::cell::RefCell;
use std::sync::Arc;

use wasm_bindgen::prelude::wasm_bindgen;

use super::policy::on_desk;
use crate::policy::Policy;
use crate::policy::policy_set::{InvalidPolicies, NamedPolicy, Policies};
use crate::wasm::scratch::at_desk;

/// What has been laid there since the draft began.
struct Draft {
    /// For a limiter.
    policies: Vec<NamedPolicy>,
    /// For a key, by policy; nothing where it keeps the limiter's numbers.
    numbers: Vec<Option<Arc<Policy>>>,
}

thread_local! {
    static DRAFT: RefCell<Draft> =
        const { RefCell::new(Draft { policies: Vec::new(), numbers: Vec::new() }) };
}

/// Begins anew.
#[wasm_bindgen(js_name = startDraft)]
pub fn start() {
    DRAFT.with_borrow_mut(|draft| {
        draft.policies.clear();
        draft.numbers.clear();
    });
}

/// Adds the policy that lies on the desk, of the name that is the first text there. JavaScript has checked it.
#[wasm_bindgen(js_name = draftPolicy)]
pub fn draft(kind: u32, count: usize, subject: usize) {
    at_desk(|desk| {
        if let Ok(policy) = on_desk(desk, kind, count) {
            let named = NamedPolicy { name: desk.text(0).into(), policy, subject };
            DRAFT.with_borrow_mut(|draft| draft.policies.push(named));
        }
    });
}

/// Adds the numbers that lie on the desk, if there are any.
#[wasm_bindgen(js_name = draftNumbers)]
pub fn draft_numbers(kind: u32, count: usize) {
    let numbers = at_desk(|desk| on_desk(desk, kind, count).ok().map(Arc::new));
    DRAFT.with_borrow_mut(|draft| draft.numbers.push(numbers));
}

/// Whether what has been drafted can decide together; it is taken away. If not, the reason is said.
#[wasm_bindgen(js_name = checkDraft)]
pub fn check() -> bool {
    take(false).map_err(|invalid| at_desk(|desk| desk.say(&[invalid.rule()]))).is_ok()
}

/// What a limiter is to enforce.
pub(crate) fn take(is_single: bool) -> Result<Policies, InvalidPolicies> {
    let mut policies = DRAFT.with_borrow_mut(|draft| std::mem::take(&mut draft.policies));
    match policies.pop() {
        Some(named) if is_single => Ok(Policies::one(named.policy)),
        last => {
            policies.extend(last);
            Policies::several(policies)
        }
    }
}

/// The numbers of a key's own, by policy.
pub(crate) fn take_numbers() -> Vec<Option<Arc<Policy>>> {
    DRAFT.with_borrow_mut(|draft| std::mem::take(&mut draft.numbers))
}
