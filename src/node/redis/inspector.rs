//! Reads what limiters store in Redis, for the command line: one request at a time, each answered
//! by its number.

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
    Address, Credentials, CredentialsProvider, HoldSummary, Inspector, KeyOwner, KeyPage,
    KeySummary, POLICY_KINDS, StoredName,
};

type InspectorArguments = FnArgs<(u32, NativeInspectorReply)>;
/// Passes replies to JavaScript. It does not keep the process alive; waiting callers do.
type InspectorCallback =
    ThreadsafeFunction<(u32, NativeInspectorReply), (), InspectorArguments, Status, false, true>;

/// A stored key. Times are in epoch microseconds, durations in microseconds. Unknown values are
/// undefined.
#[napi(object)]
pub struct NativeStoredKey {
    pub policy: String,
    /// The tag of the algorithm and of its state's layout.
    pub tag: String,
    pub key: String,
    pub own_tag: Option<String>,
    /// Whether its hash tag is one of the limiter's shared tags.
    pub shares_tag: bool,
    /// Whether a limiter wrote its value. If not, the values below are unknown.
    pub is_readable: bool,
    pub used: f64,
    /// The maximum of charged units.
    pub limit: Option<f64>,
    pub units: Option<f64>,
    pub per_us: Option<f64>,
    pub window_us: Option<f64>,
    pub ends_at_us: Option<f64>,
    pub reset_at_us: Option<f64>,
    pub entries: Option<f64>,
    pub oldest_at_us: Option<f64>,
    pub newest_at_us: Option<f64>,
    pub scheduled_until_us: Option<f64>,
    pub blocked_until_us: f64,
    pub override_until_us: f64,
    /// The parameters of the key's override, in the order of its algorithm's parameters.
    pub override_numbers: Vec<f64>,
    /// The strikes, and the end of the window in which they count.
    pub strikes: f64,
    pub strikes_end_at_us: f64,
    /// The number of the latest ban's length, its end, and the time from which it no longer counts.
    pub ban_step: f64,
    pub banned_until_us: f64,
    pub ban_forgotten_at_us: f64,
    /// The units that the key owes, and the time at which idle time has paid them.
    pub owed: f64,
    pub owed_until_us: f64,
}

/// The number of keys under a prefix, the name of a policy and the tag of its algorithm.
#[napi(object)]
pub struct NativeKeyOwner {
    pub prefix: String,
    pub policy: String,
    pub tag: String,
    pub keys: u32,
}

/// A key with open holds or remembered calls.
#[napi(object)]
pub struct NativeHeldKey {
    pub key: String,
    /// The call's own hash tag.
    pub own_tag: Option<String>,
    pub holds: f64,
    /// The end of the last open hold, in epoch microseconds.
    pub holds_until_us: f64,
    /// The number of calls that are remembered by an identifier.
    pub calls: f64,
    /// The time until which the last of these calls is remembered, in epoch microseconds.
    pub calls_until_us: f64,
}

/// The reply to a request.
#[napi(object)]
#[derive(Default)]
pub struct NativeInspectorReply {
    /// The reason why the request failed.
    pub failed: Option<String>,
    /// The addresses of the cluster's masters, or of the server.
    pub masters: Vec<String>,
    pub is_cluster: bool,
    /// For each master: the number of its keys, or -1 if it does not report it.
    pub sizes: Vec<f64>,
    /// The server's time, in epoch microseconds.
    pub now_us: f64,
    pub found: Vec<NativeStoredKey>,
    /// The number of keys scanned, including those that no limiter wrote.
    pub scanned: f64,
    /// The number of scanned keys that limiters wrote, by prefix, policy and algorithm.
    pub owners: Vec<NativeKeyOwner>,
    /// The requested keys with open holds or remembered calls.
    pub held: Vec<NativeHeldKey>,
    /// The cursor of the next page; `'0'` at the end.
    pub cursor: String,
    /// The policy texts that limiters have registered for the prefix and use, or the last one.
    pub registered_policies: Vec<String>,
}

/// The keys of a user under some policies.
#[napi(object)]
pub struct NativeKeyQuery {
    pub prefix: String,
    /// The names of the policies.
    pub policies: Vec<String>,
    pub key: String,
    /// The call's own hash tag.
    pub own_tag: Option<String>,
    /// The number of hash tags shared by keys without their own tag.
    pub tags: Option<u16>,
}

/// A page of a master's keys.
#[napi(object)]
pub struct NativePageQuery {
    pub prefix: String,
    /// The index of the master.
    pub master: u32,
    pub cursor: String,
    /// The pattern of the keys' names, as in `SCAN`.
    pub pattern: String,
    /// The approximate number of keys to scan.
    pub count: u32,
    /// The keys whose holds to read.
    pub held_keys: Vec<String>,
}

/// Reads what limiters store in Redis. It writes nothing.
#[napi]
pub struct NativeInspector {
    state: Arc<Mutex<InspectorState>>,
    callback: Arc<InspectorCallback>,
    runtime: Handle,
}

struct InspectorState {
    inspector: Option<Inspector>,
    masters: Vec<Address>,
}

#[napi]
impl NativeInspector {
    /// Connects on the first request. `callback` receives the reply to each request, with the
    /// request's number. Throws if the certificates are invalid.
    #[napi(constructor, catch_unwind)]
    pub fn new(
        target: RedisTarget,
        #[napi(ts_arg_type = "(request: number, reply: NativeInspectorReply) => void")]
        callback: Function<'_, InspectorArguments, ()>,
    ) -> Result<Self> {
        let runtime = runtime()?;
        let inspector = target.inspector(NoCredentials)?;
        let callback =
            callback.build_threadsafe_function::<(u32, NativeInspectorReply)>().weak::<true>();
        let callback = callback.build_callback(|context| Ok(FnArgs::from(context.value)))?;
        let state = InspectorState { inspector: Some(inspector), masters: Vec::new() };
        Ok(Self { state: Arc::new(Mutex::new(state)), callback: Arc::new(callback), runtime })
    }

    /// Requests the masters.
    #[napi(catch_unwind)]
    pub fn masters(&self, request: u32) {
        self.send(request, move |state| {
            async move {
                let inspector = state.inspector.as_mut().ok_or(CLOSED)?;
                let (masters, is_cluster) = inspector.masters().await.map_err(text)?;
                let mut sizes = Vec::new();
                for master in &masters {
                    let size = inspector.size(master).await.map_err(text)?;
                    sizes.push(size.map_or(-1.0, double));
                }
                let names = masters.iter().map(ToString::to_string).collect();
                state.masters = masters;
                Ok(NativeInspectorReply {
                    masters: names,
                    is_cluster,
                    sizes,
                    ..NativeInspectorReply::default()
                })
            }
            .boxed()
        });
    }

    /// Requests the keys of a user, under any algorithm.
    #[napi(catch_unwind)]
    pub fn find(&self, request: u32, query: NativeKeyQuery) {
        self.send(request, move |state| {
            async move {
                let inspector = state.inspector.as_mut().ok_or(CLOSED)?;
                let NativeKeyQuery { prefix, policies, key, own_tag, tags } = query;
                let tags = tags.and_then(NonZeroU16::new);
                let named = |policy: &String, tag: &str| StoredName {
                    policy: policy.clone(),
                    tag: tag.to_owned(),
                    key: key.clone(),
                    own_tag: own_tag.clone(),
                    shares_tag: tags.is_some() && own_tag.is_none(),
                };
                let all = policies
                    .iter()
                    .flat_map(|policy| POLICY_KINDS.map(|(tag, _)| named(policy, tag)));
                let names = all.map(|name| name.write(&prefix, tags)).collect();
                let found = inspector.find(&prefix, names).await.map_err(text)?;
                let holder = named(&String::new(), "");
                let holds = holder.write_holds(&prefix, tags);
                let holds = inspector.holds(&holds, found.now).await.map_err(text)?;
                let registered =
                    inspector.registered_policies(&prefix, found.now).await.map_err(text)?;
                let reply = to_reply(found);
                Ok(NativeInspectorReply {
                    registered_policies: registered,
                    held: holds.map(|holds| to_held_key((holder, holds))).into_iter().collect(),
                    ..reply
                })
            }
            .boxed()
        });
    }

    /// Requests a page of the keys of a prefix.
    #[napi(catch_unwind)]
    pub fn page(&self, request: u32, page: NativePageQuery) {
        self.send(request, move |state| {
            async move {
                let InspectorState { inspector, masters } = state;
                let inspector = inspector.as_mut().ok_or(CLOSED)?;
                let NativePageQuery { prefix, master, cursor, pattern, count, held_keys } = page;
                let master = masters.get(master as usize).ok_or("there is no such master")?;
                let cursor = cursor.parse().map_err(|_| "the cursor is invalid")?;
                let from = (cursor, count as usize);
                let read = inspector.page(master, &prefix, from, &pattern, &held_keys).await;
                read.map(to_reply).map_err(text)
            }
            .boxed()
        });
    }

    /// Drops the connections.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        let state = Arc::clone(&self.state);
        self.runtime.spawn(async move { drop(state.lock().await.inspector.take()) });
    }

    fn send(
        &self,
        request: u32,
        read: impl for<'o> FnOnce(
            &'o mut InspectorState,
        )
            -> BoxFuture<'o, std::result::Result<NativeInspectorReply, String>>
        + Send
        + 'static,
    ) {
        let (state, callback) = (Arc::clone(&self.state), Arc::clone(&self.callback));
        self.runtime.spawn(async move {
            let reply = read(&mut *state.lock().await).await;
            let reply = reply.unwrap_or_else(|why| NativeInspectorReply {
                failed: Some(why),
                ..NativeInspectorReply::default()
            });
            // The call fails only if the isolate has ended.
            callback.call((request, reply), ThreadsafeFunctionCallMode::NonBlocking);
        });
    }
}

const CLOSED: &str = "the connection has been closed";

fn text(why: Arc<str>) -> String {
    why.to_string()
}

fn to_reply(page: KeyPage) -> NativeInspectorReply {
    let KeyPage { now, found, scanned, owners, held, cursor } = page;
    NativeInspectorReply {
        now_us: double(now),
        found: found.into_iter().map(to_stored_key).collect(),
        scanned: double(scanned as u64),
        owners: owners.into_iter().map(to_key_owner).collect(),
        held: held.into_iter().map(to_held_key).collect(),
        cursor: cursor.to_string(),
        ..NativeInspectorReply::default()
    }
}

fn to_key_owner(([prefix, policy, tag], keys): (KeyOwner, u32)) -> NativeKeyOwner {
    NativeKeyOwner { prefix, policy, tag, keys }
}

fn to_held_key((name, holds): (StoredName, HoldSummary)) -> NativeHeldKey {
    let StoredName { key, own_tag, .. } = name;
    let HoldSummary { holds, holds_until, calls, calls_until } = holds;
    NativeHeldKey {
        key,
        own_tag,
        holds: double(holds),
        holds_until_us: double(holds_until),
        calls: double(calls),
        calls_until_us: double(calls_until),
    }
}

fn to_stored_key((name, summary): (StoredName, Option<KeySummary>)) -> NativeStoredKey {
    let StoredName { policy, tag, key, own_tag, shares_tag } = name;
    let is_readable = summary.is_some();
    let KeySummary {
        used,
        max_used,
        rate,
        window,
        ends_at,
        reset_at,
        entries,
        oldest_at,
        newest_at,
        scheduled_until,
        metadata,
    } = summary.unwrap_or_default();
    NativeStoredKey {
        policy,
        tag,
        key,
        own_tag,
        shares_tag,
        is_readable,
        used: double(used),
        limit: max_used.map(double),
        units: rate.map(|(units, _)| double(units)),
        per_us: rate.map(|(_, micros)| double(micros)),
        window_us: window.map(double),
        ends_at_us: ends_at.map(double),
        reset_at_us: reset_at.map(double),
        entries: entries.map(double),
        oldest_at_us: oldest_at.map(double),
        newest_at_us: newest_at.map(double),
        scheduled_until_us: scheduled_until.map(double),
        blocked_until_us: double(metadata.blocked_until),
        override_until_us: double(metadata.override_until),
        override_numbers: metadata.override_numbers.into_iter().map(double).collect(),
        strikes: double(metadata.bans.strikes),
        strikes_end_at_us: double(metadata.bans.window_end),
        ban_step: double(metadata.bans.step),
        banned_until_us: double(metadata.bans.banned_until),
        ban_forgotten_at_us: double(metadata.bans.forget_at),
        owed: double(metadata.owed.units),
        owed_until_us: double(metadata.owed.end()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "stored numbers are below 2^53")]
fn double(number: u64) -> f64 {
    number as f64
}

/// Provides no logins: the command line passes the login in the target.
struct NoCredentials;

impl CredentialsProvider for NoCredentials {
    fn credentials(&self) -> BoxFuture<'static, std::result::Result<Credentials, String>> {
        async { Err("no login was provided".to_owned()) }.boxed()
    }
}
