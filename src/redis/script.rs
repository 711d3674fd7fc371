//! The Lua scripts, composed from the files in `lua/`.

use std::sync::LazyLock;

use crate::protocol::LUA_NAMES;

/// The Lua code that reads the time. Tests replace it.
pub const CLOCK: &str = include_str!("../../lua/clock.lua");

/// A function of the limiter script: its body is the concatenation of files.
struct ScriptSection {
    name: &'static str,
    files: &'static [&'static str],
}

/// The general path and the fast paths of the limiter script.
///
/// Redis creates the functions that a script defines on every run, and a run needs few of them. So
/// each section creates its own functions when it is called. Files that a fast path shares with the
/// general path are in both sections.
const SECTIONS: [ScriptSection; 7] = [
    ScriptSection {
        name: "load_general_path",
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
    ScriptSection {
        name: "rate_fast_path",
        files: &[
            include_str!("../../lua/rate/shared.lua"),
            include_str!("../../lua/rate/fast_path.lua"),
        ],
    },
    ScriptSection {
        name: "window_fast_path",
        files: &[
            include_str!("../../lua/fixed_window/shared.lua"),
            include_str!("../../lua/fixed_window/fast_path.lua"),
        ],
    },
    ScriptSection {
        name: "window_optimistic",
        files: &[
            include_str!("../../lua/fixed_window/shared.lua"),
            include_str!("../../lua/fixed_window/optimistic.lua"),
        ],
    },
    ScriptSection {
        name: "counter_fast_path",
        files: &[
            include_str!("../../lua/sliding_counter/shared.lua"),
            include_str!("../../lua/sliding_counter/fast_path.lua"),
        ],
    },
    ScriptSection {
        name: "interval_fast_path",
        files: &[
            include_str!("../../lua/token_bucket_interval/shared.lua"),
            include_str!("../../lua/token_bucket_interval/fast_path.lua"),
        ],
    },
    ScriptSection {
        name: "list_fast_path",
        files: &[
            include_str!("../../lua/sliding_window/shared.lua"),
            include_str!("../../lua/sliding_window/list_fast_path.lua"),
        ],
    },
];

/// The files that decide each group of calls with one of the sections.
const DISPATCH_FILES: [&str; 4] = [
    include_str!("../../lua/dispatch/single_policy.lua"),
    include_str!("../../lua/dispatch/multi_policy.lua"),
    include_str!("../../lua/dispatch/batch.lua"),
    include_str!("../../lua/dispatch/decide.lua"),
];

static LIMITER: LazyLock<Script> = LazyLock::new(|| Script::new(limiter_source()));

fn section_source(ScriptSection { name, files }: &ScriptSection) -> String {
    format!("local function {name}(context)\n{}end\n", files.concat())
}

fn sections_source() -> String {
    SECTIONS.iter().map(section_source).collect()
}

fn limiter_source() -> String {
    with_numbers(&[CLOCK, &sections_source(), &DISPATCH_FILES.concat()].concat())
}

/// The source with the protocol's numbers in place of their names, which so cost nothing at run
/// time.
fn with_numbers(source: &str) -> String {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut result = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find(is_word) {
        let (before, word) = rest.split_at(start);
        let (word, after) =
            word.split_at(word.find(|letter| !is_word(letter)).unwrap_or(word.len()));
        let number = LUA_NAMES.iter().find(|(name, _)| *name == word);
        result.push_str(before);
        result.push_str(number.map_or(word, |(_, number)| number));
        rest = after;
    }
    result + rest
}

/// The code around the limiter script for clients that carry only text.
const TEXT_DECODE: &str = include_str!("../../lua/dispatch/text_decode.lua");
const TEXT_ENCODE: &str = include_str!("../../lua/dispatch/text_encode.lua");

const BEGIN_LIMITER: &str = "local function decide()\n";
const END_LIMITER: &str = "end\nlocal reply = decide()\n";

static TEXT_LIMITER: LazyLock<Script> = LazyLock::new(|| {
    let source = [TEXT_DECODE, BEGIN_LIMITER, &limiter_source(), END_LIMITER, TEXT_ENCODE];
    Script::new(source.concat())
});

static POLICY_REGISTRY: LazyLock<Script> = LazyLock::new(|| Script {
    is_rare: true,
    ..Script::new(include_str!("../../lua/policies.lua").to_owned())
});

/// A script as Redis receives it.
#[derive(Debug, Clone)]
pub struct Script {
    source: String,
    sha1: String,
    is_rare: bool,
}

impl Script {
    /// The script that decides calls under any policies.
    #[must_use]
    pub fn limiter() -> &'static Self {
        &LIMITER
    }

    /// The same script for clients that carry only text. [`text`](super::text) is its counterpart.
    #[must_use]
    pub fn limiter_as_text() -> &'static Self {
        &TEXT_LIMITER
    }

    /// The script with other Lua code for the time. The code must set `now`.
    #[must_use]
    pub fn with_clock(&self, clock: &str) -> Self {
        self.edited(|source| source.replacen(CLOCK, clock, 1))
    }

    /// The script with an edited source. Tests use it to make keys outlive the script.
    #[must_use]
    pub fn edited(&self, edit: impl FnOnce(&str) -> String) -> Self {
        Self::new(edit(&self.source))
    }

    fn new(source: String) -> Self {
        let sha1 = sha1_smol::Sha1::from(&source).digest().to_string();
        Self { source, sha1, is_rare: false }
    }

    /// The script that registers the policies of a prefix: see [`policy_registry_key`](super::policy_registry_key).
    #[must_use]
    pub fn policy_registry() -> &'static Self {
        &POLICY_REGISTRY
    }

    /// Whether clients send the source without trying EVALSHA first. A server that does not know
    /// the script would otherwise delay all other scripts of the flush by a second round trip.
    #[must_use]
    pub fn is_rare(&self) -> bool {
        self.is_rare
    }

    /// The source, for EVAL.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The SHA-1 digest in hexadecimal, for EVALSHA.
    #[must_use]
    pub fn sha1(&self) -> &str {
        &self.sha1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn every_name_of_the_protocol_is_replaced_by_its_number() {
        assert_eq!(with_numbers("if form == FORM_WITH_COSTS then"), "if form == 64 then");
        assert_eq!(with_numbers("OUTCOME_STALE_X + x.OUTCOME_STALE"), "OUTCOME_STALE_X + x.5");
        for script in [Script::limiter(), Script::limiter_as_text()] {
            let words =
                script.source().split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            let tables = ["ALGORITHM_", "FORM_", "OPERATION_", "OUTCOME_"];
            let left = words.filter(|word| tables.iter().any(|table| word.starts_with(table)));
            assert_eq!(left.collect::<Vec<_>>(), Vec::<&str>::new());
        }
    }

    #[test]
    fn the_shipped_scripts_read_the_servers_clock_and_no_other() {
        for script in [Script::limiter(), Script::limiter_as_text()] {
            assert_eq!(script.source().matches("redis.call('TIME')").count(), 1);
            assert_eq!(script.sha1().len(), 40);
        }
    }

    /// Every run pays for each top-level function. Only the sections and two dispatch functions may
    /// be top-level.
    #[test]
    fn only_sections_and_dispatch_functions_are_top_level() {
        let functions = |source: &str| {
            source.lines().filter(|line| line.starts_with("local function ")).count()
        };
        let outside_sections = functions(&limiter_source()) - functions(&sections_source());
        assert_eq!(outside_sections, 2, "single_policy and multi_policy");
    }
}
