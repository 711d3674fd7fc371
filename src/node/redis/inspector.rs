//! Reading what is in Redis, for the command line: one question after the other, each answered by its number.

#![allow(clippy::needless_pass_by_value, reason = "napi hands strings over by value")]

use std::num::NonZeroU16;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use napi::Status;
use napi::bindgen_prelude::{FnArgs, Function, Result};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::node::redis::store::runtime;
use crate::node::redis::target::RedisTarget;
use crate::redis::{
    Address, Credentials, CredentialsProvider, Facts, Read, Reader, StoredName, TAGS,
};

type ToldArguments = FnArgs<(u32, RedisRead)>;
/// Tells JavaScript what was read. It does not keep the process alive: who waits does.
type Tell = ThreadsafeFunction<(u32, RedisRead), (), ToldArguments, Status, false, true>;

/// What was read; or why it could not be.
#[napi(object)]
#[derive(Default)]
pub struct RedisRead {
    pub failed: Option<String>,
    /// The masters of a cluster, or the one server.
    pub masters: Vec<String>,
    pub is_cluster: bool,
    /// By master: how many keys it has, or -1 if it does not tell.
    pub sizes: Vec<f64>,
    /// The server's time, in epoch microseconds.
    pub now_us: f64,
    pub found: Vec<RedisStored>,
    /// The keys that were looked at, whosever they are.
    pub scanned: f64,
    /// The prefixes of those of them that limiters have written.
    pub prefixes: Vec<String>,
    /// Where to go on; `'0'` at the end.
    pub cursor: String,
    /// The open holds of the key, and when the last of them ends.
    pub holds: f64,
    pub holds_until_us: f64,
}

/// A key that is there. Times are in epoch microseconds, lengths of time in microseconds; what is not known is left out.
#[napi(object)]
pub struct RedisStored {
    pub policy: String,
    /// The algorithm and the layout of its state.
    pub tag: String,
    pub key: String,
    pub own_tag: Option<String>,
    /// Whether its hash tag is one of those that keys share.
    pub shares_tag: bool,
    /// Whether it is what limiters write; otherwise nothing more is known.
    pub is_readable: bool,
    pub used: f64,
    pub most: Option<f64>,
    pub units: Option<f64>,
    pub per_us: Option<f64>,
    pub window_us: Option<f64>,
    pub ends_at_us: Option<f64>,
    pub settles_at_us: Option<f64>,
    pub entries: Option<f64>,
    pub oldest_at_us: Option<f64>,
    pub newest_at_us: Option<f64>,
    pub booked_until_us: Option<f64>,
    pub blocked_until_us: f64,
    pub own_until_us: f64,
    /// Numbers of the key's own, as its algorithm's words begin.
    pub own_numbers: Vec<f64>,
}

/// The keys of a caller.
#[napi(object)]
pub struct RedisWanted {
    pub prefix: String,
    /// The names of the policies.
    pub policies: Vec<String>,
    pub key: String,
    /// The call's own hash tag.
    pub own_tag: Option<String>,
    /// How many hash tags are shared by keys without one.
    pub tags: Option<u16>,
}

/// A page of a master's keys.
#[napi(object)]
pub struct RedisPage {
    pub prefix: String,
    /// The number of the master.
    pub master: u32,
    pub cursor: String,
    /// What the keys' names match.
    pub pattern: String,
    /// About how many keys to look at.
    pub count: u32,
}

/// A reader of what limiters keep in Redis. It writes nothing.
#[napi]
pub struct RedisReader {
    open: Arc<Mutex<Open>>,
    tell: Arc<Tell>,
    runtime: Handle,
}

struct Open {
    reader: Option<Reader>,
    masters: Vec<Address>,
}

#[napi]
impl RedisReader {
    /// Connects when it is first asked. `told` hears the answer to each question, by its number. Throws if the
    /// certificates are none.
    #[napi(constructor, catch_unwind)]
    pub fn new(
        target: RedisTarget,
        #[napi(ts_arg_type = "(question: number, read: RedisRead) => void")] told: Function<
            '_,
            ToldArguments,
            (),
        >,
    ) -> Result<Self> {
        let runtime = runtime()?;
        let reader = target.reader(Nobody)?;
        let tell = told.build_threadsafe_function::<(u32, RedisRead)>().weak::<true>();
        let tell = tell.build_callback(|context| Ok(FnArgs::from(context.value)))?;
        let open = Open { reader: Some(reader), masters: Vec::new() };
        Ok(Self { open: Arc::new(Mutex::new(open)), tell: Arc::new(tell), runtime })
    }

    /// Asks for the masters.
    #[napi(catch_unwind)]
    pub fn masters(&self, question: u32) {
        self.ask(question, move |open| {
            async move {
                let reader = open.reader.as_mut().ok_or(CLOSED)?;
                let (masters, is_cluster) = reader.masters().await.map_err(text)?;
                let mut sizes = Vec::new();
                for master in &masters {
                    let size = reader.size(master).await.map_err(text)?;
                    sizes.push(size.map_or(-1.0, double));
                }
                let names = masters.iter().map(ToString::to_string).collect();
                open.masters = masters;
                Ok(RedisRead { masters: names, is_cluster, sizes, ..RedisRead::default() })
            }
            .boxed()
        });
    }

    /// Asks for what is there of a caller's keys, under any algorithm.
    #[napi(catch_unwind)]
    pub fn find(&self, question: u32, wanted: RedisWanted) {
        self.ask(question, move |open| {
            async move {
                let reader = open.reader.as_mut().ok_or(CLOSED)?;
                let RedisWanted { prefix, policies, key, own_tag, tags } = wanted;
                let tags = tags.and_then(NonZeroU16::new);
                let named = |policy: &String, tag: &str| StoredName {
                    policy: policy.clone(),
                    tag: tag.to_owned(),
                    key: key.clone(),
                    own_tag: own_tag.clone(),
                    shares_tag: tags.is_some() && own_tag.is_none(),
                };
                let all =
                    policies.iter().flat_map(|policy| TAGS.map(|(tag, _)| named(policy, tag)));
                let names = all.map(|name| name.write(&prefix, tags)).collect();
                let read = reader.find(&prefix, names).await.map_err(text)?;
                let holds = named(&String::new(), "").write_holds(&prefix, tags);
                let (holds, until) = reader.holds(&holds, read.now).await.map_err(text)?;
                let read = told(read);
                Ok(RedisRead { holds: double(holds), holds_until_us: double(until), ..read })
            }
            .boxed()
        });
    }

    /// Asks for a page of the keys of a prefix.
    #[napi(catch_unwind)]
    pub fn page(&self, question: u32, page: RedisPage) {
        self.ask(question, move |open| {
            async move {
                let Open { reader, masters } = open;
                let reader = reader.as_mut().ok_or(CLOSED)?;
                let RedisPage { prefix, master, cursor, pattern, count } = page;
                let master = masters.get(master as usize).ok_or("there is no such master")?;
                let cursor = cursor.parse().map_err(|_| "the cursor is none")?;
                let from = (cursor, count as usize);
                reader.page(master, &prefix, from, &pattern).await.map(told).map_err(text)
            }
            .boxed()
        });
    }

    /// Drops the connections.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        let open = Arc::clone(&self.open);
        self.runtime.spawn(async move { drop(open.lock().await.reader.take()) });
    }

    fn ask(
        &self,
        question: u32,
        read: impl for<'o> FnOnce(&'o mut Open) -> BoxFuture<'o, std::result::Result<RedisRead, String>>
        + Send
        + 'static,
    ) {
        let (open, tell) = (Arc::clone(&self.open), Arc::clone(&self.tell));
        self.runtime.spawn(async move {
            let read = read(&mut *open.lock().await).await;
            let read =
                read.unwrap_or_else(|why| RedisRead { failed: Some(why), ..RedisRead::default() });
            // If nobody hears it, its isolate has ended.
            tell.call((question, read), ThreadsafeFunctionCallMode::NonBlocking);
        });
    }
}

const CLOSED: &str = "the connection has been closed";

fn text(why: Arc<str>) -> String {
    why.to_string()
}

fn told(read: Read) -> RedisRead {
    let Read { now, found, scanned, prefixes, cursor } = read;
    RedisRead {
        now_us: double(now),
        found: found.into_iter().map(stored).collect(),
        scanned: double(scanned as u64),
        prefixes: prefixes.into_iter().collect(),
        cursor: cursor.to_string(),
        ..RedisRead::default()
    }
}

fn stored((name, facts): (StoredName, Option<Facts>)) -> RedisStored {
    let StoredName { policy, tag, key, own_tag, shares_tag } = name;
    let is_readable = facts.is_some();
    let Facts {
        used,
        most,
        rate,
        window,
        ends_at,
        settles_at,
        entries,
        oldest_at,
        newest_at,
        booked_until,
        extras,
    } = facts.unwrap_or_default();
    RedisStored {
        policy,
        tag,
        key,
        own_tag,
        shares_tag,
        is_readable,
        used: double(used),
        most: most.map(double),
        units: rate.map(|(units, _)| double(units)),
        per_us: rate.map(|(_, micros)| double(micros)),
        window_us: window.map(double),
        ends_at_us: ends_at.map(double),
        settles_at_us: settles_at.map(double),
        entries: entries.map(double),
        oldest_at_us: oldest_at.map(double),
        newest_at_us: newest_at.map(double),
        booked_until_us: booked_until.map(double),
        blocked_until_us: double(extras.blocked_until),
        own_until_us: double(extras.numbers_until),
        own_numbers: extras.numbers.into_iter().map(double).collect(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers that are stored are below 2^53")]
fn double(number: u64) -> f64 {
    number as f64
}

/// Asks nobody who comes: the command line knows.
struct Nobody;

impl CredentialsProvider for Nobody {
    fn credentials(&self) -> BoxFuture<'static, std::result::Result<Credentials, String>> {
        async { Err("nobody tells the login".to_owned()) }.boxed()
    }
}
