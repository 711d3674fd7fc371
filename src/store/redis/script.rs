//! The scripts, composed from the files in `lua/`.

use once_cell::sync::Lazy;

use crate::policy::Policy;

/// How a script reads the time. Tests compose theirs with another.
pub const CLOCK: &str = include_str!("../../../lua/clock.lua");

const RESET: &str = include_str!("../../../lua/reset.lua");
const BATCH: &str = include_str!("../../../lua/batch.lua");
const RATE: &str = include_str!("../../../lua/rate.lua");
const FIXED_WINDOW: &str = include_str!("../../../lua/fixed_window.lua");

static RATE_SCRIPT: Lazy<Script> = Lazy::new(|| Script::composed(CLOCK, RATE));
static RESET_SCRIPT: Lazy<Script> = Lazy::new(|| Script::new(RESET.to_owned()));
static FIXED_WINDOW_SCRIPT: Lazy<Script> = Lazy::new(|| Script::composed(CLOCK, FIXED_WINDOW));

/// A script as Redis gets it.
#[derive(Debug, Clone)]
pub struct Script {
    source: String,
    sha1: String,
}

impl Script {
    /// The script that decides a batch of calls under a policy.
    #[must_use]
    pub fn of(policy: &Policy) -> &'static Self {
        match policy {
            Policy::FixedWindow(_) => &FIXED_WINDOW_SCRIPT,
            Policy::TokenBucket(_) | Policy::Gcra(_) => &RATE_SCRIPT,
        }
    }

    /// The script that forgets its keys.
    #[must_use]
    pub fn reset() -> &'static Self {
        &RESET_SCRIPT
    }

    /// The same as [`of`](Self::of), with another clock: Lua that leaves the time in `now`.
    #[must_use]
    pub fn with_clock(policy: &Policy, clock: &str) -> Self {
        match policy {
            Policy::FixedWindow(_) => Self::composed(clock, FIXED_WINDOW),
            Policy::TokenBucket(_) | Policy::Gcra(_) => Self::composed(clock, RATE),
        }
    }

    /// The script with another source, for tests that make keys outlive it.
    #[must_use]
    pub fn edited(&self, edit: impl FnOnce(&str) -> String) -> Self {
        Self::new(edit(&self.source))
    }

    fn composed(clock: &str, algorithm: &str) -> Self {
        Self::new([clock, BATCH, algorithm].concat())
    }

    fn new(source: String) -> Self {
        let sha1 = sha1_smol::Sha1::from(&source).digest().to_string();
        Self { source, sha1 }
    }

    /// The source, for EVAL.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The digest in hexadecimal, for EVALSHA.
    #[must_use]
    pub fn sha1(&self) -> &str {
        &self.sha1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Gcra;

    #[test]
    fn the_shipped_scripts_read_the_servers_clock_and_no_other() {
        let script = Script::of(&Policy::Gcra(Gcra::new(1, 1, 1).unwrap()));
        assert_eq!(script.source().matches("redis.call('TIME')").count(), 1);
        assert_eq!(script.sha1().len(), 40);
    }
}
