//! The registry of policies in Redis: one key per prefix stores the texts of the policies that
//! limiters use on it. Limiters with the same prefix share its keys and must use the same policies.
//! `lua/policies.lua` is the script.

use crate::redis::batch::script_call::ScriptCall;
use crate::redis::script::Script;
use crate::redis::script_keys::ScriptKeys;

/// The name of the key that stores the policy texts of a prefix. No policy's name can begin with
/// `~`.
#[must_use]
pub fn policy_registry_key(prefix: &str) -> String {
    format!("{prefix}:~policies")
}

/// Registers a policy text and asks for all registered texts.
#[derive(Debug, Clone)]
pub(crate) struct PolicyRegistration {
    keys: ScriptKeys,
    arguments: [Vec<u8>; 2],
}

impl PolicyRegistration {
    pub(crate) fn new(prefix: &str, text: &str, lasting_ms: u64) -> Self {
        let mut keys = ScriptKeys::default();
        keys.push(|name| name.extend_from_slice(policy_registry_key(prefix).as_bytes()));
        Self { keys, arguments: [text.into(), lasting_ms.to_string().into()] }
    }

    /// The name of its key.
    pub(crate) fn name(&self) -> &[u8] {
        self.keys.get(0)
    }

    pub(crate) fn script_call(&self) -> ScriptCall {
        let Self { keys, arguments } = self;
        ScriptCall {
            script: Script::policy_registry(),
            keys: keys.clone(),
            arguments: arguments.to_vec(),
        }
    }
}
