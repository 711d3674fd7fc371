//! A Redis server for one test: a child process with a socket in its own folder.

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use redis::{Client, Connection, Value as RedisReply};
use tokio::runtime::Runtime;
use tollgate::clock::{Clock as _, SystemClock};
use tollgate::policy::Policy;
use tollgate::policy::decision::Decision;
use tollgate::policy::execute::Execution;
use tollgate::policy::multi_policy::Response;
use tollgate::policy::policy_set::PolicySet;
use tollgate::redis::{
    Address, CallBatch, CallError, Connection as StoreConnection, Connector, Credentials,
    CredentialsSource, Endpoint, HealthOptions, ReplyReader, ReplyValue, Script,
};

/// Redis 6.2 has no PEXPIRETIME, and does not freeze the time in scripts. There, the time and the
/// TTL belong to one millisecond if the times before and after are equal.
const EXPIRY: &str = "
    local expiry = redis.pcall('PEXPIRETIME', KEYS[1])
    if type(expiry) == 'number' then return expiry end
    local function now()
        local time = redis.call('TIME')
        return time[1] * 1000 + math.floor(time[2] / 1000)
    end
    while true do
        local before, left = now(), redis.call('PTTL', KEYS[1])
        if left < 0 then return left end
        if before == now() then return before + left end
    end";

static STARTED: AtomicU32 = AtomicU32::new(0);

/// A server. Dropping it ends the process.
pub(crate) struct Server {
    child: Child,
    folder: Folder,
    pub(crate) connection: Connection,
}

/// A folder with the server's socket. It may exist before the server, and after it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("tollgate-{}-{number}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn client(&self) -> Client {
        Client::open(format!("redis+unix://{}", self.socket().display())).unwrap()
    }

    /// The address of the server.
    pub(crate) fn route(&self) -> Endpoint {
        let credentials = CredentialsSource::Fixed(Credentials::default());
        let timeout = Duration::from_secs(1);
        let access = Connector { credentials, tls: None, database: 0, timeout };
        Endpoint::direct(Address::Unix(self.socket()), access)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    fn socket(&self) -> PathBuf {
        self.0.join("redis.sock")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The process may have ended already.
        let _removed = fs::remove_dir_all(&self.0);
    }
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_in(Folder::new())
    }

    /// A cluster of one node, which has all slots.
    pub(crate) fn start_cluster() -> Self {
        // A cluster node has a port, and another port 10,000 above it.
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let port = (20_000 + free % 20_000).to_string();
        let words = ["--cluster-enabled", "yes", "--port", &port, "--bind", "127.0.0.1"];
        let mut server = Self::start_with(Folder::new(), &words);
        // One by one, because ranges of slots need Redis 7.0.
        let slots: Vec<String> = (0..16_384).map(|slot| slot.to_string()).collect();
        let mut words: Vec<&[u8]> = vec![b"CLUSTER", b"ADDSLOTS"];
        words.extend(slots.iter().map(String::as_bytes));
        let _: () = server.run(&words);
        let deadline = Instant::now() + Duration::from_secs(60);
        while !server.run::<String>(&[b"CLUSTER", b"INFO"]).contains("cluster_state:ok") {
            assert!(Instant::now() < deadline, "the cluster did not start");
            thread::sleep(Duration::from_millis(10));
        }
        server
    }

    pub(crate) fn start_in(folder: Folder) -> Self {
        Self::start_with(folder, &["--port", "0"])
    }

    fn start_with(folder: Folder, words: &[&str]) -> Self {
        let child = Command::new(program())
            .args(words)
            .args(["--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(folder.socket())
            .current_dir(&folder.0)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server must be installed (Debian: apt-get install redis-server)");
        let client = folder.client();
        let deadline = Instant::now() + Duration::from_secs(60);
        let connection = loop {
            match client.get_connection() {
                Ok(connection) => break connection,
                Err(error) => {
                    assert!(Instant::now() < deadline, "the server did not start: {error}");
                }
            }
            thread::sleep(Duration::from_millis(5));
        };
        Self { child, folder, connection }
    }

    pub(crate) fn client(&self) -> Client {
        self.folder.client()
    }

    /// A connection of the store to the server.
    pub(crate) fn opened(&self, runtime: &Runtime) -> StoreConnection {
        opened(self.folder.route(), runtime)
    }

    /// Kills the server immediately, and keeps its folder.
    pub(crate) fn kill(mut self) -> Folder {
        self.end();
        std::mem::replace(&mut self.folder, Folder(PathBuf::new()))
    }

    /// Sends the process a signal, given by name.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    fn end(&mut self) {
        // It may have ended already.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }

    /// Runs one command.
    pub(crate) fn run<T: redis::FromRedisValue>(&mut self, words: &[&[u8]]) -> T {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(*word);
        }
        command.query(&mut self.connection).unwrap()
    }

    /// The expiry of a key, in milliseconds since the epoch; -1 for a key without a TTL, -2 for a
    /// missing key.
    pub(crate) fn expiry(&mut self, name: &[u8]) -> i64 {
        self.run(&[b"EVAL", EXPIRY.as_bytes(), b"1", name])
    }

    /// The server's time, in milliseconds.
    pub(crate) fn now_ms(&mut self) -> i64 {
        let (seconds, micros): (i64, i64) = self.run(&[b"TIME"]);
        seconds * 1_000 + micros / 1_000
    }

    /// Runs a batch with a script and further arguments.
    pub(crate) fn decide(
        &mut self,
        script: &Script,
        policy: &Policy,
        batch: &CallBatch,
        more: &[String],
    ) -> Vec<Result<Decision, CallError>> {
        let told = self.tell(script, policy, batch, more).into_iter();
        told.map(|told| told.map(|told| told.decision)).collect()
    }

    /// [`decide`](Self::decide), with the report of each limit if limits have names.
    pub(crate) fn tell(
        &mut self,
        script: &Script,
        policy: &Policy,
        batch: &CallBatch,
        more: &[String],
    ) -> Vec<Result<Response, CallError>> {
        let executed = self.execute(script, &policy.clone().into(), batch, more).into_iter();
        executed.map(|one| one.map(|one| one.response)).collect()
    }

    /// The results of a batch's calls, with a script and further arguments.
    pub(crate) fn execute(
        &mut self,
        script: &Script,
        policies: &PolicySet,
        batch: &CallBatch,
        more: &[String],
    ) -> Vec<Result<Execution, CallError>> {
        let (mut batch, mut request) = (batch.clone(), Vec::new());
        batch.set_time(more.get(1).map_or_else(|| SystemClock.now(), |now| now.parse().unwrap()));
        batch.write(policies, &mut request);
        let mut command = redis::cmd("EVAL");
        command.arg(script.source()).arg(batch.keys().len());
        for name in batch.keys().iter() {
            command.arg(name);
        }
        command.arg(request).arg(more);
        let RedisReply::Array(values) = command.query(&mut self.connection).unwrap() else {
            panic!("a script returns a list");
        };
        let values: Vec<ReplyValue> = values.into_iter().map(value).collect();
        batch.executions(policies, &mut ReplyReader::new(&values)).collect()
    }
}

pub(crate) fn value(reply: RedisReply) -> ReplyValue {
    match reply {
        RedisReply::Int(number) => ReplyValue::Number(number),
        RedisReply::BulkString(bytes) => ReplyValue::Bytes(bytes),
        other => panic!("a script returns numbers and strings, not {other:?}"),
    }
}

/// The server program. `npm run test:servers` sets one version after another.
pub(crate) fn program() -> OsString {
    env::var_os("TOLLGATE_REDIS_SERVER").unwrap_or_else(|| "redis-server".into())
}

/// A connection of the store, which considers a server down after half a second.
pub(crate) fn opened(route: Endpoint, runtime: &Runtime) -> StoreConnection {
    let health = HealthOptions { down_after: PATIENCE, idle_interval: Duration::from_secs(15) };
    StoreConnection::open(route, health, runtime.handle(), |_| {})
}

const PATIENCE: Duration = Duration::from_millis(500);

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}
