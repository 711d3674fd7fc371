//! The events that a Redis store sends to JavaScript, and its requests for logins.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use napi::Status;
use napi::bindgen_prelude::{FnArgs, Function, Result};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use tokio::sync::{oneshot, watch};

use crate::node::redis::limiter::locked;
use crate::redis::{Credentials, CredentialsProvider, Health, StoreWarning};

/// JavaScript's event handler: the kind of event, and texts. It does not keep the process alive.
type EventCallback =
    ThreadsafeFunction<(String, Vec<String>), (), EventArguments, Status, false, true>;
pub(crate) type EventArguments = FnArgs<(String, Vec<String>)>;

/// Sends events to JavaScript, and waits for the logins that it requests.
#[derive(Clone)]
pub(crate) struct StoreEvents {
    callback: Arc<EventCallback>,
    logins: Arc<Mutex<LoginRequests>>,
}

/// The open requests for logins, by number.
#[derive(Default)]
struct LoginRequests {
    latest: u32,
    open: HashMap<u32, oneshot::Sender<std::result::Result<Credentials, String>>>,
}

impl StoreEvents {
    pub(crate) fn new(callback: &Function<'_, EventArguments, ()>) -> Result<Self> {
        let callback = callback.build_threadsafe_function::<(String, Vec<String>)>().weak::<true>();
        let callback = callback.build_callback(|context| Ok(FnArgs::from(context.value)))?;
        Ok(Self { callback: Arc::new(callback), logins: Arc::default() })
    }

    fn send(&self, kind: &'static str, words: Vec<String>) {
        // The call fails only if the isolate has ended.
        self.callback.call((kind.to_owned(), words), ThreadsafeFunctionCallMode::NonBlocking);
    }

    /// Sends an event for each change of the store's health, until the store is dropped.
    pub(crate) async fn follow(self, mut health: watch::Receiver<Health>) {
        while health.changed().await.is_ok() {
            let now = health.borrow_and_update().clone();
            match now {
                Health::Connecting => {}
                Health::Up(about) => {
                    self.send("up", vec![about.address.clone(), about.version.clone()]);
                }
                Health::Down(why) => self.send("down", vec![why.to_string()]),
            }
        }
    }

    pub(crate) fn warn(&self, warning: StoreWarning) {
        match warning {
            StoreWarning::Evicting(policy) => self.send("evicting", vec![policy]),
            StoreWarning::ClusterNode => self.send("cluster-node", Vec::new()),
        }
    }

    pub(crate) fn registered_policies(&self, prefix: String, texts: Vec<String>) {
        self.send("policies", std::iter::once(prefix).chain(texts).collect());
    }

    /// Passes on a requested login, or the reason why there is none.
    pub(crate) fn answer(&self, number: u32, login: std::result::Result<Credentials, String>) {
        if let Some(request) = locked(&self.logins).open.remove(&number) {
            // The receiver is gone if the attempt to connect has timed out.
            let _dropped = request.send(login);
        }
    }
}

impl CredentialsProvider for StoreEvents {
    fn credentials(&self) -> BoxFuture<'static, std::result::Result<Credentials, String>> {
        let (sender, receiver) = oneshot::channel();
        let number = {
            let mut logins = locked(&self.logins);
            logins.open.retain(|_, request| !request.is_closed());
            logins.latest = logins.latest.wrapping_add(1);
            let number = logins.latest;
            logins.open.insert(number, sender);
            number
        };
        self.send("login", vec![number.to_string()]);
        receiver.map(|login| login.unwrap_or_else(|_| Err("no login was provided".into()))).boxed()
    }
}
