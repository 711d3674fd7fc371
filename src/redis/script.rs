//! The scripts, composed from the files in `lua/`.

use std::sync::LazyLock;

/// How a script reads the time. Tests compose theirs with another.
pub const CLOCK: &str = include_str!("../../lua/clock.lua");

/// A piece of the script: a function of so many files.
struct Way {
    name: &'static str,
    files: &'static [&'static str],
}

/// The ways to decide. Each is a function that makes what it consists of: what a script defines is made anew whenever
/// it runs, and it needs few of them. What a quick way has in common with the general one is in both.
const WAYS: [Way; 7] = [
    Way {
        name: "general",
        files: &[
            include_str!("../../lua/executor/outcomes.lua"),
            include_str!("../../lua/executor/dirty_keys.lua"),
            include_str!("../../lua/executor/key_metadata.lua"),
            include_str!("../../lua/executor/executor.lua"),
            include_str!("../../lua/rate/shared.lua"),
            include_str!("../../lua/rate/general.lua"),
            include_str!("../../lua/fixed_window/shared.lua"),
            include_str!("../../lua/fixed_window/general.lua"),
            include_str!("../../lua/sliding_counter/shared.lua"),
            include_str!("../../lua/sliding_counter/general.lua"),
            include_str!("../../lua/token_bucket_interval/shared.lua"),
            include_str!("../../lua/token_bucket_interval/general.lua"),
            include_str!("../../lua/sliding_window/shared.lua"),
            include_str!("../../lua/sliding_window/general.lua"),
            include_str!("../../lua/sliding_window/list.lua"),
            include_str!("../../lua/sliding_window/hash.lua"),
            include_str!("../../lua/sliding_log.lua"),
            include_str!("../../lua/executor/holds.lua"),
            include_str!("../../lua/executor/operations.lua"),
            include_str!("../../lua/executor/general.lua"),
        ],
    },
    Way {
        name: "rate_way",
        files: &[
            include_str!("../../lua/rate/shared.lua"),
            include_str!("../../lua/rate/fast_path.lua"),
        ],
    },
    Way {
        name: "window_way",
        files: &[
            include_str!("../../lua/fixed_window/shared.lua"),
            include_str!("../../lua/fixed_window/fast_path.lua"),
        ],
    },
    Way {
        name: "unseen_way",
        files: &[
            include_str!("../../lua/fixed_window/shared.lua"),
            include_str!("../../lua/fixed_window/optimistic.lua"),
        ],
    },
    Way {
        name: "counter_way",
        files: &[
            include_str!("../../lua/sliding_counter/shared.lua"),
            include_str!("../../lua/sliding_counter/fast_path.lua"),
        ],
    },
    Way {
        name: "interval_way",
        files: &[
            include_str!("../../lua/token_bucket_interval/shared.lua"),
            include_str!("../../lua/token_bucket_interval/fast_path.lua"),
        ],
    },
    Way {
        name: "list_way",
        files: &[
            include_str!("../../lua/sliding_window/shared.lua"),
            include_str!("../../lua/sliding_window/list_fast_path.lua"),
        ],
    },
];

/// What decides in one of these ways.
const DECIDING_FILES: [&str; 4] = [
    include_str!("../../lua/dispatch/single_policy.lua"),
    include_str!("../../lua/dispatch/multi_policy.lua"),
    include_str!("../../lua/dispatch/batch.lua"),
    include_str!("../../lua/dispatch/decide.lua"),
];

static DECIDING: LazyLock<Script> = LazyLock::new(|| Script::new(deciding()));

fn way(Way { name, files }: &Way) -> String {
    format!("local function {name}(round)\n{}end\n", files.concat())
}

fn deciding() -> String {
    let ways: String = WAYS.iter().map(way).collect();
    [CLOCK, &ways, &DECIDING_FILES.concat()].concat()
}

/// What is around the script for clients that carry text alone.
const ASKED: &str = include_str!("../../lua/dispatch/text_decode.lua");
const ANSWERED: &str = include_str!("../../lua/dispatch/text_encode.lua");

const BEGIN_DECIDING: &str = "local function decide()\n";
const END_DECIDING: &str = "end\nlocal answer = decide()\n";

static DECIDING_IN_TEXT: LazyLock<Script> = LazyLock::new(|| {
    Script::new([ASKED, BEGIN_DECIDING, &deciding(), END_DECIDING, ANSWERED].concat())
});

static NOTING_POLICIES: LazyLock<Script> = LazyLock::new(|| Script {
    is_rare: true,
    ..Script::new(include_str!("../../lua/policies.lua").to_owned())
});

/// A script as Redis gets it.
#[derive(Debug, Clone)]
pub struct Script {
    source: String,
    sha1: String,
    is_rare: bool,
}

impl Script {
    /// The script that decides calls, under any policies.
    #[must_use]
    pub fn deciding() -> &'static Self {
        &DECIDING
    }

    /// The same for clients that carry text alone: [`text`](super::text) is the other end.
    #[must_use]
    pub fn deciding_in_text() -> &'static Self {
        &DECIDING_IN_TEXT
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
        Self { source, sha1, is_rare: false }
    }

    /// The script that notes by which policies calls are decided: see [`noted_name`](super::noted_name).
    #[must_use]
    pub fn noting_policies() -> &'static Self {
        &NOTING_POLICIES
    }

    /// Whether it is sent as its source at once: a server that does not know it would have all others wait for a second
    /// round trip.
    #[must_use]
    pub fn is_rare(&self) -> bool {
        self.is_rare
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
        for script in [Script::deciding(), Script::deciding_in_text()] {
            assert_eq!(script.source().matches("redis.call('TIME')").count(), 1);
            assert_eq!(script.sha1().len(), 40);
        }
    }

    /// Of what a script defines in the open each start pays for: the ways alone, and what goes them.
    #[test]
    fn nothing_stands_in_the_open_but_ways() {
        let lines = Script::deciding().source().lines();
        let open: Vec<_> = lines.filter(|line| line.starts_with("local function ")).collect();
        let ways: String = WAYS.iter().map(way).collect();
        let in_ways = ways.lines().filter(|line| line.starts_with("local function ")).count();
        assert_eq!(open.len() - in_ways, 2, "quick and quick_several");
    }
}
