//! A script call, and its result.

use std::fmt;
use std::sync::Arc;

use crate::redis::codec::reply::ReplyValue;
use crate::redis::script::Script;
use crate::redis::script_keys::ScriptKeys;

/// A script to run, with its keys and arguments.
#[derive(Debug, Clone)]
pub struct ScriptCall {
    /// The script.
    pub script: &'static Script,
    /// The keys that it declares.
    pub keys: ScriptKeys,
    /// Its arguments.
    pub arguments: Vec<Vec<u8>>,
}

impl ScriptCall {
    /// A call of the script that decides limiter calls, with no keys and one empty argument.
    pub(crate) fn deciding() -> Self {
        Self { script: Script::limiter(), keys: ScriptKeys::default(), arguments: vec![Vec::new()] }
    }
}

/// The text for keys that one server must have, and that may be on several.
const CROSS_SLOT: &str = "the keys that are decided together do not share a slot of Redis (a hash tag); \
                          set a tag on the limiter or on the call";

/// The reason why a script call has no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptFailure {
    /// Until the deadline there was no connection, or the server could not run scripts. Nothing was
    /// charged.
    Unavailable(Arc<str>),
    /// The connection broke before the reply came. Whether the script ran is unknown.
    Broken(Arc<str>),
    /// The reply did not come before the deadline. Whether the script ran is unknown.
    TimedOut,
    /// The server refused the script before it ran. Nothing was charged.
    Refused(Arc<str>),
    /// The keys of the script call do not share a slot. Nothing was charged.
    CrossSlot,
    /// The server, or a proxy before it, reported an error. Whether the script ran is unknown.
    Failed(Arc<str>),
    /// The connection has been closed.
    Closed,
}

impl fmt::Display for ScriptFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) => write!(f, "Redis is not available: {why}"),
            Self::Broken(why) => write!(f, "the connection to Redis broke: {why}"),
            Self::TimedOut => f.write_str("Redis did not answer in time"),
            Self::Refused(why) => write!(f, "Redis refused the script: {why}"),
            Self::CrossSlot => f.write_str(CROSS_SLOT),
            Self::Failed(why) => write!(f, "Redis reported an error: {why}"),
            Self::Closed => f.write_str("the connection has been closed"),
        }
    }
}

/// The script's reply, or the reason why there is none.
pub type ScriptResult = Result<Vec<ReplyValue>, ScriptFailure>;
