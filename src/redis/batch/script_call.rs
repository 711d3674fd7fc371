//! What a connection is given, and what it answers.

use std::fmt;
use std::sync::Arc;

use crate::redis::codec::reply::Value;
use crate::redis::script::Script;
use crate::redis::script_keys::Keys;

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
    pub(crate) fn deciding() -> Self {
        Self { script: Script::limiter(), keys: Keys::default(), arguments: vec![Vec::new()] }
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
