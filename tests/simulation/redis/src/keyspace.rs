//! The keys of a server, and the commands that the scripts use.

use std::collections::HashMap;

use crate::resp::Reply;

/// A stored value. The collections are lists: the scripts keep them short.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Text(Vec<u8>),
    Hash(Hash),
    List(Vec<Vec<u8>>),
    /// Sorted by score, then by member.
    Sorted(Vec<(f64, Vec<u8>)>),
}

/// Fields and their values, in the order of their insertion.
type Hash = Vec<(Vec<u8>, Vec<u8>)>;

/// The value of a key, and its expiry.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    value: Value,
    /// In milliseconds since the epoch.
    expires_at: Option<u64>,
}

/// The keys of a server.
#[derive(Debug, Clone, Default)]
pub struct Keyspace {
    entries: HashMap<Vec<u8>, Entry>,
    /// Whether keys stay after their expiry, for tests whose clock steps back.
    pub keeps_expired: bool,
}

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const NOT_A_NUMBER: &str = "ERR value is not an integer or out of range";
const SYNTAX: &str = "ERR syntax error";

type Answer = Result<Reply, String>;

impl Keyspace {
    /// Whether a command writes.
    pub fn is_write(command: &str) -> bool {
        matches!(
            command,
            "SET"
                | "SETRANGE"
                | "INCR"
                | "INCRBY"
                | "DECR"
                | "DEL"
                | "UNLINK"
                | "PEXPIRE"
                | "HSET"
                | "HDEL"
                | "RPUSH"
                | "LSET"
                | "LTRIM"
                | "ZADD"
                | "ZREM"
                | "ZREMRANGEBYRANK"
                | "ZREMRANGEBYSCORE"
        )
    }

    /// Executes a command at a time in milliseconds since the epoch.
    pub fn execute(&mut self, command: &str, words: &[Vec<u8>], now: u64) -> Reply {
        for key in words.iter().filter(|_| !self.keeps_expired) {
            if self.entries.get(key).and_then(|entry| entry.expires_at).is_some_and(|at| at <= now)
            {
                self.entries.remove(key);
            }
        }
        self.answer(command, words, now).unwrap_or_else(Reply::Error)
    }

    fn answer(&mut self, command: &str, words: &[Vec<u8>], now: u64) -> Answer {
        let key = words.first().ok_or("ERR wrong number of arguments")?;
        let rest = &words[1..];
        match (command, rest) {
            ("GET", []) => Ok(text_or_nil(self.text(key)?)),
            ("MGET", _) => Ok(Reply::Array(
                words.iter().map(|key| text_or_nil(self.text(key).ok().flatten())).collect(),
            )),
            ("SET", [value, options @ ..]) => self.set(key, value, options, now),
            ("SETRANGE", [offset, bytes]) => {
                let offset = usize::try_from(integer(offset)?).map_err(|_| SYNTAX)?;
                let text = self.text_mut(key)?;
                text.resize(text.len().max(offset + bytes.len()), 0);
                text[offset..offset + bytes.len()].copy_from_slice(bytes);
                Ok(number(text.len()))
            }
            ("INCR", []) => self.increment(key, 1),
            ("DECR", []) => self.increment(key, -1),
            ("INCRBY", [by]) => self.increment(key, integer(by)?),
            ("DEL" | "UNLINK", _) => {
                Ok(number(words.iter().filter(|key| self.entries.remove(*key).is_some()).count()))
            }
            ("PEXPIRE", [ttl]) => {
                let ttl = integer(ttl)?;
                let Some(entry) = self.entries.get_mut(key) else { return Ok(Reply::Number(0)) };
                entry.expires_at = Some(now.saturating_add_signed(ttl));
                if ttl <= 0 {
                    self.entries.remove(key);
                }
                Ok(Reply::Number(1))
            }
            ("PTTL", []) => {
                Ok(Reply::Number(match self.entries.get(key).map(|entry| entry.expires_at) {
                    None => -2,
                    Some(None) => -1,
                    Some(Some(at)) => at.cast_signed() - now.cast_signed(),
                }))
            }
            ("LINDEX", [index]) => {
                let list = self.list(key)?;
                let index = position(integer(index)?, list.len());
                Ok(text_or_nil(index.and_then(|index| list.get(index))))
            }
            ("LRANGE", [from, to]) => {
                let list = self.list(key)?;
                let range = ranks(integer(from)?, integer(to)?, list.len());
                Ok(Reply::Array(list[range].iter().map(|text| Reply::text(text.clone())).collect()))
            }
            ("LSET", [index, value]) => {
                let index = position(integer(index)?, self.list(key)?.len());
                if !self.entries.contains_key(key) {
                    return Err("ERR no such key".into());
                }
                let own = index.and_then(|index| self.list_mut(key).ok()?.get_mut(index));
                own.ok_or("ERR index out of range")?.clone_from(value);
                Ok(Reply::Status("OK"))
            }
            ("LTRIM", [from, to]) => {
                if !self.list(key)?.is_empty() {
                    let list = self.list_mut(key)?;
                    let range = ranks(integer(from)?, integer(to)?, list.len());
                    *list = list[range].to_vec();
                    if list.is_empty() {
                        self.entries.remove(key);
                    }
                }
                Ok(Reply::Status("OK"))
            }
            ("RPUSH", values) if !values.is_empty() => {
                let list = self.list_mut(key)?;
                list.extend_from_slice(values);
                Ok(number(list.len()))
            }
            ("ZCARD", []) => Ok(number(self.sorted(key)?.len())),
            ("HGET", [field]) => {
                let hash = self.hash(key)?;
                Ok(text_or_nil(hash.and_then(|hash| found(hash, field))))
            }
            ("HGETALL", []) => {
                let pairs = self.hash(key)?.into_iter().flatten();
                let texts = pairs.flat_map(|(field, value)| [field, value]);
                Ok(Reply::Array(texts.map(|text| Reply::text(text.clone())).collect()))
            }
            ("HSET", pairs) if pairs.len().is_multiple_of(2) && !pairs.is_empty() => {
                let hash = self.hash_mut(key)?;
                let mut added = 0;
                for [field, value] in pairs.as_chunks().0 {
                    match hash.iter_mut().find(|(other, _)| other == field) {
                        Some((_, own)) => own.clone_from(value),
                        None => {
                            hash.push((field.clone(), value.clone()));
                            added += 1;
                        }
                    }
                }
                Ok(number(added))
            }
            ("HDEL", fields) => {
                if self.hash(key)?.is_none() {
                    return Ok(Reply::Number(0));
                }
                let hash = self.hash_mut(key)?;
                let before = hash.len();
                hash.retain(|(field, _)| !fields.contains(field));
                let removed = before - hash.len();
                if hash.is_empty() {
                    self.entries.remove(key);
                }
                Ok(number(removed))
            }
            ("ZADD", pairs) if pairs.len().is_multiple_of(2) && !pairs.is_empty() => {
                let mut added = 0;
                for [score, member] in pairs.as_chunks().0 {
                    let score = float(score)?;
                    let set = self.sorted_mut(key)?;
                    let before = set.len();
                    set.retain(|(_, other)| other != member);
                    added += usize::from(set.len() == before);
                    set.push((score, member.clone()));
                    set.sort_by(|one, other| {
                        one.0.total_cmp(&other.0).then_with(|| one.1.cmp(&other.1))
                    });
                }
                Ok(number(added))
            }
            ("ZCOUNT", [from, to]) => {
                let (from, to) = (Bound::parse(from)?, Bound::parse(to)?);
                let set = self.sorted(key)?;
                Ok(number(
                    set.iter().filter(|(score, _)| from.below(*score) && to.above(*score)).count(),
                ))
            }
            ("ZRANGEBYSCORE", [from, to, options @ ..]) => {
                let (from, to) = (Bound::parse(from)?, Bound::parse(to)?);
                let (with_scores, options) = match options {
                    [word, rest @ ..] if word == b"WITHSCORES" => (true, rest),
                    _ => (false, options),
                };
                let (skipped, most) = match options {
                    [] => (0, i64::MAX),
                    [word, skipped, most] if word == b"LIMIT" => {
                        (integer(skipped)?, integer(most)?)
                    }
                    _ => return Err(SYNTAX.into()),
                };
                let own = self.sorted(key)?.iter();
                let own = own.filter(|(score, _)| from.below(*score) && to.above(*score));
                let own = own.skip(size(skipped)?).take(size(most)?);
                Ok(members(own, with_scores))
            }
            ("ZRANK", [member]) => {
                let rank = self.sorted(key)?.iter().position(|(_, other)| other == member);
                Ok(rank.map_or(Reply::Nil, number))
            }
            ("ZRANGE" | "ZREVRANGE", [from, to, options @ ..]) => {
                let mut set = self.sorted(key)?.to_vec();
                if command == "ZREVRANGE" {
                    set.reverse();
                }
                let range = ranks(integer(from)?, integer(to)?, set.len());
                let with_scores = match options {
                    [] => false,
                    [word] if word.eq_ignore_ascii_case(b"WITHSCORES") => true,
                    _ => return Err(SYNTAX.into()),
                };
                Ok(members(set[range].iter(), with_scores))
            }
            ("ZREM", members) => self.remove_members(key, |_, _, member| members.contains(member)),
            ("ZREMRANGEBYRANK", [from, to]) => {
                let range = ranks(integer(from)?, integer(to)?, self.sorted(key)?.len());
                self.remove_members(key, |rank, _, _| range.contains(&rank))
            }
            ("ZREMRANGEBYSCORE", [from, to]) => {
                let (from, to) = (Bound::parse(from)?, Bound::parse(to)?);
                self.remove_members(key, |_, score, _| from.below(score) && to.above(score))
            }
            _ => Err(format!(
                "ERR the simulated server does not know {command} with {} words",
                words.len()
            )),
        }
    }

    fn set(&mut self, key: &[u8], value: &[u8], options: &[Vec<u8>], now: u64) -> Answer {
        let (mut expires_at, mut keeps, mut only_new) = (None, false, false);
        let mut options = options.iter();
        while let Some(option) = options.next() {
            match &option.to_ascii_uppercase()[..] {
                b"KEEPTTL" => keeps = true,
                b"NX" => only_new = true,
                b"PX" => {
                    let ttl = integer(options.next().ok_or(SYNTAX)?)?;
                    if ttl <= 0 {
                        return Err("ERR invalid expire time in 'set' command".into());
                    }
                    expires_at = Some(now.saturating_add_signed(ttl));
                }
                _ => return Err(SYNTAX.into()),
            }
        }
        let old = self.entries.get(key);
        if only_new && old.is_some() {
            return Ok(Reply::Nil);
        }
        if keeps {
            expires_at = old.and_then(|old| old.expires_at);
        }
        self.entries.insert(key.to_vec(), Entry { value: Value::Text(value.to_vec()), expires_at });
        Ok(Reply::Status("OK"))
    }

    fn increment(&mut self, key: &[u8], by: i64) -> Answer {
        let text = self.text_mut(key)?;
        let old = if text.is_empty() { 0 } else { integer(text)? };
        let new = old.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
        *text = new.to_string().into_bytes();
        Ok(Reply::Number(new))
    }

    fn remove_members(
        &mut self,
        key: &[u8],
        is_removed: impl Fn(usize, f64, &Vec<u8>) -> bool,
    ) -> Answer {
        if self.sorted(key)?.is_empty() {
            return Ok(Reply::Number(0));
        }
        let set = self.sorted_mut(key)?;
        let before = set.len();
        let mut rank = 0;
        set.retain(|(score, member)| {
            rank += 1;
            !is_removed(rank - 1, *score, member)
        });
        let removed = before - set.len();
        if set.is_empty() {
            self.entries.remove(key);
        }
        Ok(number(removed))
    }

    fn text(&self, key: &[u8]) -> Result<Option<&Vec<u8>>, String> {
        match self.entries.get(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(WRONG_TYPE.into()),
        }
    }

    fn hash(&self, key: &[u8]) -> Result<Option<&Hash>, String> {
        match self.entries.get(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::Hash(hash)) => Ok(Some(hash)),
            Some(_) => Err(WRONG_TYPE.into()),
        }
    }

    fn list(&self, key: &[u8]) -> Result<&[Vec<u8>], String> {
        match self.entries.get(key).map(|entry| &entry.value) {
            None => Ok(&[]),
            Some(Value::List(list)) => Ok(list),
            Some(_) => Err(WRONG_TYPE.into()),
        }
    }

    fn list_mut(&mut self, key: &[u8]) -> Result<&mut Vec<Vec<u8>>, String> {
        match self.value_mut(key, Value::List(Vec::new())) {
            Value::List(list) => Ok(list),
            _ => Err(WRONG_TYPE.into()),
        }
    }

    fn sorted(&self, key: &[u8]) -> Result<&[(f64, Vec<u8>)], String> {
        match self.entries.get(key).map(|entry| &entry.value) {
            None => Ok(&[]),
            Some(Value::Sorted(set)) => Ok(set),
            Some(_) => Err(WRONG_TYPE.into()),
        }
    }

    fn text_mut(&mut self, key: &[u8]) -> Result<&mut Vec<u8>, String> {
        match self.value_mut(key, Value::Text(Vec::new())) {
            Value::Text(text) => Ok(text),
            _ => Err(WRONG_TYPE.into()),
        }
    }

    fn hash_mut(&mut self, key: &[u8]) -> Result<&mut Hash, String> {
        match self.value_mut(key, Value::Hash(Vec::new())) {
            Value::Hash(hash) => Ok(hash),
            _ => Err(WRONG_TYPE.into()),
        }
    }

    fn sorted_mut(&mut self, key: &[u8]) -> Result<&mut Vec<(f64, Vec<u8>)>, String> {
        match self.value_mut(key, Value::Sorted(Vec::new())) {
            Value::Sorted(set) => Ok(set),
            _ => Err(WRONG_TYPE.into()),
        }
    }

    fn value_mut(&mut self, key: &[u8], empty: Value) -> &mut Value {
        let entry = self.entries.entry(key.to_vec());
        &mut entry.or_insert(Entry { value: empty, expires_at: None }).value
    }

    /// The value of a key, expired or not.
    pub fn entry(&self, key: &[u8]) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Whether a key exists now.
    pub fn has(&self, key: &[u8], now: u64) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.expires_at.is_none_or(|at| at > now))
    }

    /// Moves the keys for which `moves` is true, and which have not expired, to another server.
    pub fn move_keys(&mut self, to: &mut Self, now: u64, moves: impl Fn(&[u8]) -> bool) {
        self.entries.retain(|_, entry| entry.expires_at.is_none_or(|at| at > now));
        to.entries.extend(self.entries.extract_if(|key, _| moves(key)));
    }
}

/// A bound of a range of scores.
struct Bound {
    score: f64,
    is_open: bool,
}

impl Bound {
    fn parse(text: &[u8]) -> Result<Self, String> {
        let (is_open, text) = match text.strip_prefix(b"(") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        Ok(Self { score: float(text)?, is_open })
    }

    fn below(&self, score: f64) -> bool {
        self.score < score || (self.score == score && !self.is_open)
    }

    fn above(&self, score: f64) -> bool {
        self.score > score || (self.score == score && !self.is_open)
    }
}

fn members<'a>(entries: impl Iterator<Item = &'a (f64, Vec<u8>)>, with_scores: bool) -> Reply {
    let mut texts = Vec::new();
    for (score, member) in entries {
        texts.push(Reply::text(member.clone()));
        if with_scores {
            texts.push(Reply::text(crate::lua::number_text(*score)));
        }
    }
    Reply::Array(texts)
}

fn size(number: i64) -> Result<usize, String> {
    usize::try_from(number).map_err(|_| SYNTAX.into())
}

/// The index that a position stands for. A negative one counts from the end.
fn position(position: i64, len: usize) -> Option<usize> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    usize::try_from(if position < 0 { position + len } else { position }).ok()
}

fn ranks(from: i64, to: i64, len: usize) -> std::ops::Range<usize> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let from_end = |rank: i64| if rank < 0 { rank + len } else { rank };
    let (from, to) = (from_end(from).max(0), (from_end(to) + 1).min(len));
    if from >= to { 0..0 } else { from.unsigned_abs() as usize..to.unsigned_abs() as usize }
}

fn found<'a>(hash: &'a [(Vec<u8>, Vec<u8>)], field: &[u8]) -> Option<&'a Vec<u8>> {
    hash.iter().find(|(other, _)| other == field).map(|(_, value)| value)
}

fn text_or_nil(text: Option<&Vec<u8>>) -> Reply {
    text.map_or(Reply::Nil, |text| Reply::Text(text.clone()))
}

fn number(number: usize) -> Reply {
    Reply::Number(i64::try_from(number).unwrap_or(i64::MAX))
}

fn integer(text: &[u8]) -> Result<i64, String> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| NOT_A_NUMBER.into())
}

fn float(text: &[u8]) -> Result<f64, String> {
    match text {
        b"-inf" => Ok(f64::NEG_INFINITY),
        b"+inf" | b"inf" => Ok(f64::INFINITY),
        _ => {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            number.ok_or_else(|| "ERR value is not a valid float".into())
        }
    }
}
