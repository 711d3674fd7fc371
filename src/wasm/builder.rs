//! Builds the policies of a limiter or an override: JavaScript writes them to the scratch memory
//! one by one.

use std::cell::RefCell;
use std::sync::Arc;

use wasm_bindgen::prelude::wasm_bindgen;

use super::policy::read_policy;
use super::{operation, whole};
use crate::policy::Policy;
use crate::policy::ban::BanRule;
use crate::policy::operation::Operation;
use crate::policy::policy_set::{InvalidPolicySet, NamedPolicy, PolicySet};
use crate::wasm::scratch::{Scratch, with_scratch, write_reason};

/// The policies that have been added since the last start.
struct PolicyBuilder {
    /// The policies of a limiter.
    policies: Vec<NamedPolicy>,
    /// The policies of an override, by policy; `None` for a policy that keeps the limiter's
    /// numbers.
    overrides: Vec<Option<Arc<Policy>>>,
    /// The rule for bans of a limiter.
    ban: Option<BanRule>,
    /// The most units that may be owed, by policy of a limiter, where it is set.
    max_owed: Vec<Option<u64>>,
}

thread_local! {
    static BUILDER: RefCell<PolicyBuilder> =
        const {
            RefCell::new(PolicyBuilder {
                policies: Vec::new(),
                overrides: Vec::new(),
                ban: None,
                max_owed: Vec::new(),
            })
        };
}

/// Starts a new list of policies.
#[wasm_bindgen(js_name = startPolicySet)]
pub fn start() {
    BUILDER.with_borrow_mut(|builder| {
        builder.policies.clear();
        builder.overrides.clear();
        builder.ban = None;
        builder.max_owed.clear();
    });
}

/// Adds the policy in the scratch memory. Its name is the first text there. JavaScript has checked
/// the numbers.
#[wasm_bindgen(js_name = addPolicy)]
pub fn add_policy(kind: u32, count: usize, zone: u32, key_dimension: usize) {
    with_scratch(|scratch| {
        if let Ok(policy) = read_policy(scratch, kind, count, zone) {
            let named = NamedPolicy { name: scratch.text(0).into(), policy, key_dimension };
            BUILDER.with_borrow_mut(|builder| builder.policies.push(named));
        }
    });
}

/// Sets the rule for bans: `count` numbers in the scratch memory, and a bit for each policy to which
/// it applies. JavaScript has checked the numbers.
#[wasm_bindgen(js_name = setBan)]
pub fn set_ban(policies: u32, count: usize) {
    with_scratch(|scratch| {
        let numbers: Vec<_> = scratch.arguments(count).iter().copied().map(whole).collect();
        BUILDER.with_borrow_mut(|builder| builder.ban = BanRule::new(policies, &numbers));
    });
}

/// Sets the most units that may be owed, by policy: `count` numbers in the scratch memory, negative for
/// the default.
#[wasm_bindgen(js_name = setMaxOwed)]
pub fn set_max_owed(count: usize) {
    with_scratch(|scratch| {
        let numbers = scratch.arguments(count).iter();
        let max_owed = numbers.map(|&most| (most >= 0.0).then(|| whole(most))).collect();
        BUILDER.with_borrow_mut(|builder| builder.max_owed = max_owed);
    });
}

/// Adds an override for the next policy: the policy in the scratch memory, or none.
#[wasm_bindgen(js_name = addOverride)]
pub fn add_override(kind: u32, count: usize, zone: u32) {
    let policy = with_scratch(|scratch| read_policy(scratch, kind, count, zone).ok().map(Arc::new));
    BUILDER.with_borrow_mut(|builder| builder.overrides.push(policy));
}

/// Takes the added policies, and returns whether they can decide together. If not, the reason is
/// written to the scratch memory.
#[wasm_bindgen(js_name = checkPolicySet)]
pub fn check() -> bool {
    take(false).map_err(|invalid| write_reason(invalid.rule())).is_ok()
}

/// Takes the added policies as a policy set.
pub(crate) fn take(is_single: bool) -> Result<PolicySet, InvalidPolicySet> {
    let (mut policies, ban, max_owed) = BUILDER.with_borrow_mut(|builder| {
        let max_owed = std::mem::take(&mut builder.max_owed);
        (std::mem::take(&mut builder.policies), builder.ban.take(), max_owed)
    });
    let policies = match policies.pop() {
        Some(named) if is_single => PolicySet::single(named.policy),
        last => {
            policies.extend(last);
            PolicySet::multi(policies)?
        }
    };
    let policies = policies.with_max_owed(max_owed);
    Ok(match ban {
        Some(rule) => policies.with_ban(rule),
        None => policies,
    })
}

/// The operation of this code, with `count` arguments in the scratch memory. An override has the added
/// policies.
pub(crate) fn read_operation(scratch: &Scratch, code: u8, count: usize) -> Option<Operation> {
    let overrides = || BUILDER.with_borrow_mut(|builder| std::mem::take(&mut builder.overrides));
    operation::read(code, scratch.arguments(count), overrides)
}
