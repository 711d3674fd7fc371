//! What a connection is given, and what it answers.

use std::fmt;
use std::sync::Arc;

use super::keys::Keys;
use super::name::Names;
use super::reply::Value;
use super::request::{self, Call};
use super::script::Script;
use super::wire::wire;
use crate::key::Key;
use crate::policy::Policy;
use crate::time::Micros;

/// A script to run.
#[derive(Debug)]
pub struct Job {
    /// The script.
    pub script: &'static Script,
    /// The keys that it declares.
    pub keys: Keys,
    /// Its arguments.
    pub arguments: Vec<Vec<u8>>,
}

impl Job {
    /// A job that decides calls, to which keys and what is asked are still to be added.
    pub(super) fn deciding() -> Self {
        Self { script: Script::deciding(), keys: Keys::default(), arguments: vec![Vec::new()] }
    }

    /// The job that looks how one key stands, and what would become of a call of `cost` units, around the
    /// server's time `about`.
    #[must_use]
    pub fn peek(policy: &Policy, keys: Keys, cost: u64, about: Micros) -> Self {
        let mut job = Self::deciding();
        job.keys = keys;
        // What becomes of the cost is seen from the state, unless that is not sent.
        let cost = if wire(policy).tells() { cost } else { 0 };
        request::push_calls(&mut job.arguments[0], policy, about, 1, &[Call { key: 1, cost }]);
        job.arguments.push(b"peek".to_vec());
        job
    }

    /// The job that makes one key as if never used.
    #[must_use]
    pub fn reset(names: &Names, key: Key<'_>) -> Self {
        Self { script: Script::reset(), keys: names.key(key), arguments: Vec::new() }
    }
}

/// Why a job has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// There was no connection before the deadline, or the server could not run scripts until
    /// then. Nothing was charged.
    Unavailable(Arc<str>),
    /// The connection broke before the answer came. Whether the script ran is unknown.
    Broken(Arc<str>),
    /// The answer did not come before the deadline. Whether the script ran is unknown.
    TimedOut,
    /// The server refused the script. Nothing was charged.
    Refused(Arc<str>),
    /// The connection has been closed.
    Closed,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) => write!(f, "Redis is not available: {why}"),
            Self::Broken(why) => write!(f, "the connection to Redis broke: {why}"),
            Self::TimedOut => f.write_str("Redis did not answer in time"),
            Self::Refused(why) => write!(f, "Redis refused the script: {why}"),
            Self::Closed => f.write_str("the connection has been closed"),
        }
    }
}

impl std::error::Error for Failure {}

/// What became of a job: the script's answer, or why there is none.
pub type Answer = Result<Vec<Value>, Failure>;
