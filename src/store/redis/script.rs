//! The scripts, composed from the files in `lua/`.

use std::sync::LazyLock;

/// How a script reads the time. Tests compose theirs with another.
pub const CLOCK: &str = include_str!("../../../lua/clock.lua");

/// The files behind the clock, each of which makes use of those before it.
const FILES: [&str; 15] = [
    include_str!("../../../lua/batch.lua"),
    include_str!("../../../lua/extras.lua"),
    include_str!("../../../lua/books.lua"),
    include_str!("../../../lua/rate.lua"),
    include_str!("../../../lua/fixed_window.lua"),
    include_str!("../../../lua/sliding_counter.lua"),
    include_str!("../../../lua/token_bucket_interval.lua"),
    include_str!("../../../lua/sliding_window.lua"),
    include_str!("../../../lua/sliding_window_list.lua"),
    include_str!("../../../lua/sliding_window_hash.lua"),
    include_str!("../../../lua/sliding_log.lua"),
    include_str!("../../../lua/holds.lua"),
    include_str!("../../../lua/operations.lua"),
    include_str!("../../../lua/quick.lua"),
    include_str!("../../../lua/decide.lua"),
];

static DECIDING: LazyLock<Script> =
    LazyLock::new(|| Script::new([CLOCK, &FILES.concat()].concat()));

/// A script as Redis gets it.
#[derive(Debug, Clone)]
pub struct Script {
    source: String,
    sha1: String,
}

impl Script {
    /// The script that decides calls, under any policies.
    #[must_use]
    pub fn deciding() -> &'static Self {
        &DECIDING
    }

    /// The script with another clock: Lua that leaves the time in `now`.
    #[must_use]
    pub fn with_clock(&self, clock: &str) -> Self {
        self.edited(|source| source.replacen(CLOCK, clock, 1))
    }

    /// The script with another source, for tests that make keys outlive it.
    #[must_use]
    pub fn edited(&self, edit: impl FnOnce(&str) -> String) -> Self {
        Self::new(edit(&self.source))
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
    #[test]
    fn the_shipped_scripts_read_the_servers_clock_and_no_other() {
        let script = Script::deciding();
        assert_eq!(script.source().matches("redis.call('TIME')").count(), 1);
        assert_eq!(script.sha1().len(), 40);
    }
}
