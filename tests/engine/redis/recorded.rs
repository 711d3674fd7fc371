//! Stored values of this version, recorded in `recorded.txt`. A change that writes other values, or
//! that reads these differently, resets all keys of a running service.
//!
//! `TOLLGATE_RECORD=1 cargo test --test engine recorded` writes the file again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use tollgate::key::Key;
use tollgate::policy::Policy;
use tollgate::policy::ban::BanRule;
use tollgate::policy::decision::{Decision, Status};
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::PolicySet;
use tollgate::redis::{CallBatch, KeyNames, Script};

use crate::laws::trace::START;
use crate::policy::specs::{HOUR, MILLI, SECOND};
use crate::redis::policy_sets::{KINDS, policy};
use crate::redis::server::Server;

const RECORDED: &str = include_str!("recorded.txt");

/// By scenario: the commands that write the recorded keys, and the decisions a second after the
/// start.
type Records = BTreeMap<String, (Vec<String>, String)>;

/// By the name of the scenario: the operations on a key, one each 100 ms.
fn scenarios(policy: &Policy, other: &Policy) -> Vec<(&'static str, Vec<Operation>)> {
    let take = |cost| Operation::Take { cost };
    let own = || vec![Some(Arc::new(other.clone()))];
    let mut scenarios = vec![
        ("taken", vec![take(3.into()), take(1.into()), take(2.into())]),
        ("refused", vec![take(9.into()), take(2.into()), take(5.into())]),
        ("blocked", vec![take(2.into()), Operation::Block { lasting: HOUR }]),
        ("almost banned", vec![take(9.into()), take(9.into())]),
        (
            "banned",
            vec![
                take(9.into()),
                take(9.into()),
                take(9.into()),
                Operation::Unblock,
                take(9.into()),
                take(9.into()),
            ],
        ),
        (
            "overridden",
            vec![
                take(2.into()),
                Operation::Override { policies: own(), lasting: HOUR },
                take(1.into()),
            ],
        ),
        (
            "overridden for a while",
            vec![
                take(2.into()),
                Operation::Override { policies: own(), lasting: 50 * MILLI },
                take(1.into()),
            ],
        ),
        (
            "reserved",
            vec![Operation::Reserve { cost: 2.into(), hold: 7_u128.to_le_bytes(), lasting: HOUR }],
        ),
    ];
    if matches!(policy, Policy::Gcra(_) | Policy::LeakyBucket(_) | Policy::TokenBucket(_)) {
        let book = Operation::Schedule { cost: 4.into(), max_wait: HOUR };
        scenarios.push(("booked", vec![take(8.into()), book.clone(), book]));
    }
    scenarios
}

/// A key of a policy on a server.
struct Recorder<'a> {
    server: &'a mut Server,
    policies: PolicySet,
    names: KeyNames,
    script: Script,
}

impl<'a> Recorder<'a> {
    /// In scenarios whose name ends with `banned`, two refused calls ban the key.
    fn new(server: &'a mut Server, policy: &Policy, scenario: &str) -> Self {
        let _: () = server.run(&[b"FLUSHALL"]);
        let mut policies: PolicySet = policy.clone().into();
        if scenario.ends_with("banned") {
            let numbers = [0, 2, HOUR, 9 * HOUR, 2 * HOUR, 3 * HOUR];
            policies = policies.with_ban(BanRule::new(1, &numbers).unwrap());
        }
        let names = KeyNames::new("recorded", &policies);
        let script = Script::limiter().with_clock("local now = tonumber(ARGV[3])\n");
        Self { server, policies, names, script }
    }

    fn execute(&mut self, operation: Operation, now: u64) -> Decision {
        let mut batch = CallBatch::new();
        let key = Key::new("a").unwrap();
        batch.push_operation(&self.names, &[Some(key)], None, operation);
        let more = [String::new(), now.to_string()];
        let executed = self.server.execute(&self.script, &self.policies, &batch, &more).remove(0);
        executed.unwrap().response.decision
    }

    /// The decision of a call and of a peek, a second after the start.
    fn told(&mut self) -> String {
        let now = START + SECOND;
        let peeked = in_words(self.execute(Operation::Peek { cost: 1.into() }, now));
        let taken = in_words(self.execute(Operation::Take { cost: 2.into() }, now));
        format!("{peeked}; {taken}")
    }

    /// The commands that write all keys with their values.
    fn commands(&mut self) -> Vec<String> {
        let mut names: Vec<Vec<u8>> = self.server.run(&[b"KEYS", b"*"]);
        names.sort();
        names.iter().map(|name| self.command(name)).collect()
    }

    fn command(&mut self, name: &[u8]) -> String {
        let kind: String = self.server.run(&[b"TYPE", name]);
        let (command, words): (_, Vec<Vec<u8>>) = match &*kind {
            "string" => ("SET", vec![self.server.run(&[b"GET", name])]),
            "list" => ("RPUSH", self.server.run(&[b"LRANGE", name, b"0", b"-1"])),
            "hash" => {
                let fields: BTreeMap<Vec<u8>, Vec<u8>> = self.server.run(&[b"HGETALL", name]);
                ("HSET", fields.into_iter().flat_map(|(field, value)| [field, value]).collect())
            }
            "zset" => {
                let pairs: Vec<Vec<u8>> =
                    self.server.run(&[b"ZRANGE", name, b"0", b"-1", b"WITHSCORES"]);
                let pairs = pairs.as_chunks().0.iter();
                (
                    "ZADD",
                    pairs.flat_map(|[member, score]| [score.clone(), member.clone()]).collect(),
                )
            }
            other => panic!("unexpected type {other}"),
        };
        let words = words.iter().map(|word| hex(word));
        let name = String::from_utf8(name.to_vec()).unwrap();
        [command.to_owned(), name].into_iter().chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Runs such a command.
    fn write(&mut self, command: &str) {
        let mut words = command.split(' ');
        let mut own = vec![words.next().unwrap().as_bytes().to_vec()];
        own.push(words.next().unwrap().as_bytes().to_vec());
        own.extend(words.map(bytes));
        let words: Vec<&[u8]> = own.iter().map(Vec::as_slice).collect();
        let _: redis::Value = self.server.run(&words);
    }
}

fn hex(word: &[u8]) -> String {
    word.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().as_chunks().0.iter();
    digits
        .map(|[high, low]| {
            let text = [*high, *low];
            u8::from_str_radix(str::from_utf8(&text).unwrap(), 16).unwrap()
        })
        .collect()
}

fn in_words(decision: Decision) -> String {
    let Decision { status, capacity, remaining, retry_after_ms, reset_after_ms, .. } = decision;
    let status = match status {
        Status::Allowed => "allowed",
        Status::AllowedLast => "allowed-last",
        Status::Refused => "refused",
        Status::Blocked => "blocked",
        Status::Impossible => "impossible",
    };
    // An allowed decision has the mark of its key in the place of the retry time.
    let retry = match decision.status {
        Status::Allowed | Status::AllowedLast => format!("mark {retry_after_ms}"),
        _ => format!("retry {retry_after_ms} ms"),
    };
    format!("{status}, {remaining} of {capacity}, {retry}, reset {reset_after_ms} ms")
}

/// Writes the record of all scenarios.
fn record(server: &mut Server) -> Records {
    let mut records = Records::new();
    for kind in 0..KINDS {
        let (policy, other) = (policy(kind, 10), policy(kind, 15));
        for (name, operations) in scenarios(&policy, &other) {
            let mut key = Recorder::new(server, &policy, name);
            for (operation, step) in operations.into_iter().zip(0..) {
                key.execute(operation, START + step * 100 * MILLI);
            }
            let commands = key.commands();
            let told = key.told();
            records.insert(format!("{kind:02} {name}"), (commands, told));
        }
    }
    records
}

/// A scenario has a line with its name, a line for each key, and a line with the decisions.
fn text_of(records: &Records) -> String {
    records.iter().fold(String::new(), |mut text, (name, (commands, told))| {
        writeln!(text, "# {name}\n{}\n= {told}\n", commands.join("\n")).unwrap();
        text
    })
}

fn records_in(text: &str) -> Records {
    let scenarios = text.split("# ").skip(1).map(|scenario| {
        let (name, rest) = scenario.split_once('\n').unwrap();
        let (commands, told) = rest.split_once("\n= ").unwrap();
        let commands = commands.lines().map(str::to_owned).collect();
        (name.to_owned(), (commands, told.trim().to_owned()))
    });
    scenarios.collect()
}

#[test]
fn what_is_stored_is_what_was_recorded() {
    let records = record(&mut Server::start());
    if std::env::var_os("TOLLGATE_RECORD").is_some() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/redis/recorded.txt");
        std::fs::write(file, text_of(&records)).unwrap();
        return;
    }
    let recorded = records_in(RECORDED);
    assert_eq!(records.keys().collect::<Vec<_>>(), recorded.keys().collect::<Vec<_>>());
    for (name, (commands, _)) in records {
        assert_eq!(commands, recorded[&name].0, "{name}");
    }
}

#[test]
fn what_was_recorded_is_read_as_it_was() {
    let mut server = Server::start();
    let recorded = records_in(RECORDED);
    for (name, (commands, told)) in &recorded {
        let kind: usize = name[..2].parse().unwrap();
        let mut key = Recorder::new(&mut server, &policy(kind, 10), name);
        for command in commands {
            key.write(command);
        }
        assert_eq!(&key.told(), told, "{name}");
    }
    assert!(!recorded.is_empty());
}
