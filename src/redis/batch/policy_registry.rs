//! The registry of policies in Redis: one key per prefix stores the texts of the policies that
//! limiters use on it. Limiters with the same prefix share its keys and must use the same policies.
//! `lua/policies.lua` is the script.

use crate::redis::batch::script_call::ScriptCall;
use crate::redis::script::Script;
use crate::redis::script_keys::ScriptKeys;

/// The key of the policy texts of a prefix. No policy's name can begin with `~`.
#[must_use]
pub fn policy_registry_key(prefix: &str) -> String {
    format!("{prefix}:~policies")
}

/// Registers a policy text for `lasting_ms` milliseconds, and asks for all registered texts.
pub(crate) fn registration(prefix: &str, text: &str, lasting_ms: u64) -> ScriptCall {
    let mut keys = ScriptKeys::default();
    keys.push(|name| name.extend_from_slice(policy_registry_key(prefix).as_bytes()));
    let arguments = vec![text.into(), lasting_ms.to_string().into()];
    ScriptCall { script: Script::policy_registry(), keys, arguments }
}
