//! The scripts, run in this process as a Redis server would. The lines of the scripts count as
//! coverage, so that libFuzzer keeps inputs that reach new ones.

use std::sync::atomic::{AtomicU8, Ordering};

use tollgate::redis::{ReplyValue, ScriptCall, ScriptFailure, ScriptResult};
use tollgate_simulated_redis::keyspace::Keyspace;
use tollgate_simulated_redis::lua::{self, ScriptContext};
use tollgate_simulated_redis::resp::Reply;

/// The counters of the scripts' lines. libFuzzer reads all counters of this section.
#[allow(unsafe_code, reason = "libFuzzer finds the counters by the name of their section")]
#[unsafe(link_section = "__libfuzzer_extra_counters")]
static LINES: [AtomicU8; LINE_COUNTERS] = [const { AtomicU8::new(0) }; LINE_COUNTERS];

const LINE_COUNTERS: usize = 1 << 13;

thread_local! {
    /// The interpreter of this thread counts lines from the first use of this on.
    static HAS_HOOK: () = lua::on_line(count_line);
}

fn count_line(line: usize) {
    let counter = &LINES[line % LINE_COUNTERS];
    counter.store(counter.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
}

/// The keys of the server.
#[derive(Default)]
pub struct Server {
    pub keys: Keyspace,
}

impl Server {
    /// Runs a script call at a time in microseconds since the epoch. `source` may replace its script.
    ///
    /// # Panics
    /// If the script fails: the errors of commands are part of its reply.
    pub fn run(
        &mut self,
        call: &ScriptCall,
        source: &str,
        more: &[Vec<u8>],
        now: u64,
    ) -> ScriptResult {
        let keys: Vec<_> = call.keys.iter().map(<[u8]>::to_vec).collect();
        let arguments: Vec<_> = call.arguments.iter().chain(more).cloned().collect();
        let context = ScriptContext {
            keys: std::mem::take(&mut self.keys),
            now,
            written: Vec::new(),
            may_use: Box::new(|_, _| true),
            refuses_writes: None,
        };
        HAS_HOOK.with(|_| ());
        lua::load(source.as_bytes(), source.as_bytes());
        let (reply, context) = lua::run(source.as_bytes(), &keys, &arguments, context);
        self.keys = context.keys;
        match reply {
            Reply::Error(text) => Err(ScriptFailure::Refused(text.into())),
            Reply::Array(values) => Ok(values.into_iter().map(value).collect()),
            other => Ok(vec![value(other)]),
        }
    }
}

fn value(reply: Reply) -> ReplyValue {
    match reply {
        Reply::Number(number) => ReplyValue::Number(number),
        Reply::Text(bytes) => ReplyValue::Bytes(bytes),
        other => ReplyValue::Bytes(format!("{other:?}").into_bytes()),
    }
}
