//! A Redis server of one's own: a child process on a socket in a folder of its own.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use redis::{Client, Connection, Value as Reply};
use tollgate::decision::Decision;
use tollgate::policy::Policy;
use tollgate::store::redis::{Batch, CallError, Script, Value};

static STARTED: AtomicU32 = AtomicU32::new(0);

/// A server that ends when it is dropped.
pub(super) struct Server {
    child: Child,
    folder: PathBuf,
    pub(super) connection: Connection,
}

impl Server {
    pub(super) fn start() -> Self {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("tollgate-{}-{number}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("redis.sock");
        let child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(&socket)
            .current_dir(&folder)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server must be installed (Debian: apt-get install redis-server)");
        let client = Client::open(format!("redis+unix://{}", socket.display())).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        let connection = loop {
            match client.get_connection() {
                Ok(connection) => break connection,
                Err(error) => assert!(Instant::now() < deadline, "no server: {error}"),
            }
            thread::sleep(Duration::from_millis(5));
        };
        Self { child, folder, connection }
    }

    /// Runs one command.
    pub(super) fn run<T: redis::FromRedisValue>(&mut self, words: &[&[u8]]) -> T {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(*word);
        }
        command.query(&mut self.connection).unwrap()
    }

    /// Runs a batch by a script, with what more arguments it takes.
    pub(super) fn decide(
        &mut self,
        script: &Script,
        policy: &Policy,
        batch: &Batch,
        more: &[String],
    ) -> Vec<Result<Decision, CallError>> {
        let mut command = redis::cmd("EVAL");
        command.arg(script.source()).arg(batch.keys().len()).arg(batch.keys());
        for argument in batch.arguments(policy) {
            command.arg(argument);
        }
        let Reply::Array(values) = command.arg(more).query(&mut self.connection).unwrap() else {
            panic!("a script answers with a list");
        };
        let values: Vec<Value> = values.into_iter().map(value).collect();
        batch.decisions(policy, &values).unwrap()
    }
}

fn value(reply: Reply) -> Value {
    match reply {
        Reply::Int(number) => Value::Number(number),
        Reply::BulkString(text) => Value::Text(String::from_utf8(text).unwrap()),
        other => panic!("a script answers with numbers and texts, not {other:?}"),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; the folder may be gone: neither is this test's concern.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
        let _removed = fs::remove_dir_all(&self.folder);
    }
}
