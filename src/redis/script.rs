//! The Lua scripts, composed from the files in `lua/`.

use std::sync::LazyLock;

use crate::protocol::{LUA_FILES, LUA_NAMES};

/// The Lua code that reads the time. Tests replace it.
pub const CLOCK: &str = lua!("clock.lua");

/// A line with this prefix stands for the file that it names.
const INCLUDE: &str = "--@include ";

static LIMITER: LazyLock<Script> = LazyLock::new(|| Script::new(limiter_source()));

fn composed(name: &str) -> String {
    let (_, text) =
        LUA_FILES.iter().find(|(file, _)| *file == name).expect("every file is in the list");
    let line = |line: &str| match line.trim_start().strip_prefix(INCLUDE) {
        Some(included) => composed(included),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

fn limiter_source() -> String {
    with_numbers(&composed("limiter.lua"))
}

/// The source with the protocol's numbers in place of their names: they cost nothing at run time.
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
const TEXT_DECODE: &str = lua!("dispatch/text_decode.lua");
const TEXT_ENCODE: &str = lua!("dispatch/text_encode.lua");

const BEGIN_LIMITER: &str = "local function run()\n";
const END_LIMITER: &str = "end\nlocal reply = run()\n";

static TEXT_LIMITER: LazyLock<Script> = LazyLock::new(|| {
    let source = [TEXT_DECODE, BEGIN_LIMITER, &limiter_source(), END_LIMITER, TEXT_ENCODE];
    Script::new(source.concat())
});

static POLICY_REGISTRY: LazyLock<Script> =
    LazyLock::new(|| Script { is_rare: true, ..Script::new(lua!("policies.lua").to_owned()) });

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
            let tables = ["ALGORITHM_", "FORM_", "OPERATION_", "OUTCOME_", "VALUE_"];
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

    #[test]
    fn every_file_is_included() {
        let source = composed("limiter.lua");
        for (name, text) in LUA_FILES {
            let first = text.lines().find(|line| !line.starts_with("--") && !line.is_empty());
            assert!(source.contains(first.expect("a line of code")), "{name}");
        }
    }

    /// Every run pays for each function that it creates.
    #[test]
    fn a_lone_call_creates_no_function_but_those_of_its_algorithm() {
        let source = composed("limiter.lua");
        let (lone, _) = source.split_once("decide = decide or function").expect("the other path");
        let functions: Vec<_> = lone
            .lines()
            .filter(|line| line.contains("function") && !line.starts_with("--"))
            .collect();
        let of_interval_buckets = [
            "local function refills_for(used, tokens)",
            "local function refill(now, anchor, used, interval, tokens)",
        ];
        assert_eq!(functions, of_interval_buckets);
    }
}
