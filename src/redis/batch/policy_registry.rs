//! Which policies decide the calls on a prefix, as far as limiters have noted it in Redis: those that share a prefix
//! share its keys, and are to have the same policies. `lua/policies.lua` is the other end.

use crate::redis::batch::script_call::Job;
use crate::redis::script::Script;
use crate::redis::script_keys::Keys;

/// The name of the key that has the texts of a prefix's policies. No policy's name can begin so.
#[must_use]
pub fn noted_name(prefix: &str) -> String {
    format!("{prefix}:~policies")
}

/// Has a text noted, and asks for all that are.
#[derive(Debug, Clone)]
pub(crate) struct Noting {
    keys: Keys,
    arguments: [Vec<u8>; 2],
}

impl Noting {
    pub(crate) fn new(prefix: &str, text: &str, lasting_ms: u64) -> Self {
        let mut keys = Keys::default();
        keys.push(|name| name.extend_from_slice(noted_name(prefix).as_bytes()));
        Self { keys, arguments: [text.into(), lasting_ms.to_string().into()] }
    }

    /// The name of its key.
    pub(crate) fn name(&self) -> &[u8] {
        self.keys.get(0)
    }

    pub(crate) fn job(&self) -> Job {
        let Self { keys, arguments } = self;
        Job { script: Script::policy_registry(), keys: keys.clone(), arguments: arguments.to_vec() }
    }
}
