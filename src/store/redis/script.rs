//! The scripts, composed from the files in `lua/`.

use once_cell::sync::Lazy;

/// How a script reads the time. Tests compose theirs with another.
pub const CLOCK: &str = include_str!("../../../lua/clock.lua");

const BATCH: &str = include_str!("../../../lua/batch.lua");

static RESET: Lazy<Script> =
    Lazy::new(|| Script::new(include_str!("../../../lua/reset.lua").to_owned()));

macro_rules! scripts {
    ($($name:ident = $file:literal),+ $(,)?) => {
        $(pub(super) static $name: Lazy<Script> =
            Lazy::new(|| Script::composed(include_str!(concat!("../../../lua/", $file))));)+
    };
}

scripts! {
    RATE = "rate.lua",
    FIXED_WINDOW = "fixed_window.lua",
    TOKEN_BUCKET_INTERVAL = "token_bucket_interval.lua",
    SLIDING_COUNTER = "sliding_counter.lua",
    SLIDING_LOG = "sliding_log.lua",
}

/// What the layouts of the sliding window share.
const SLIDING_WINDOW: &str = include_str!("../../../lua/sliding_window.lua");

pub(super) static SLIDING_WINDOW_LIST: Lazy<Script> = Lazy::new(|| {
    let layout = include_str!("../../../lua/sliding_window_list.lua");
    Script::composed(&[SLIDING_WINDOW, layout].concat())
});

pub(super) static SLIDING_WINDOW_HASH: Lazy<Script> = Lazy::new(|| {
    let layout = include_str!("../../../lua/sliding_window_hash.lua");
    Script::composed(&[SLIDING_WINDOW, layout].concat())
});

/// A script as Redis gets it.
#[derive(Debug, Clone)]
pub struct Script {
    source: String,
    sha1: String,
}

impl Script {
    /// The script that forgets its keys.
    #[must_use]
    pub fn reset() -> &'static Self {
        &RESET
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

    fn composed(algorithm: &str) -> Self {
        Self::new([CLOCK, BATCH, algorithm].concat())
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
        let script = &*RATE;
        assert_eq!(script.source().matches("redis.call('TIME')").count(), 1);
        assert_eq!(script.sha1().len(), 40);
    }
}
