//! What a Redis store says of itself to JavaScript, and what it asks.

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

/// JavaScript's function that hears notices: a kind, and words. It does not keep the process alive.
type Hear = ThreadsafeFunction<Notice, (), NoticeArguments, Status, false, true>;
pub(crate) type NoticeArguments = FnArgs<(String, Vec<String>)>;

/// Something to be said.
struct Notice {
    kind: &'static str,
    words: Vec<String>,
}

/// Says things to JavaScript, and waits for logins that it asks for.
#[derive(Clone)]
pub(crate) struct Notices {
    hear: Arc<Hear>,
    asked: Arc<Mutex<Asked>>,
}

/// The logins that are asked for, by number.
#[derive(Default)]
struct Asked {
    next: u32,
    waiting: HashMap<u32, oneshot::Sender<std::result::Result<Credentials, String>>>,
}

impl Notices {
    pub(crate) fn new(hear: &Function<'_, NoticeArguments, ()>) -> Result<Self> {
        let hear = hear.build_threadsafe_function::<Notice>().weak::<true>();
        let hear = hear.build_callback(|context| {
            let Notice { kind, words } = context.value;
            Ok(FnArgs::from((kind.to_owned(), words)))
        })?;
        Ok(Self { hear: Arc::new(hear), asked: Arc::default() })
    }

    fn say(&self, kind: &'static str, words: Vec<String>) {
        // If nobody hears it, its isolate has ended.
        self.hear.call(Notice { kind, words }, ThreadsafeFunctionCallMode::NonBlocking);
    }

    /// Says whenever the store's health changes, until there is no store any more.
    pub(crate) async fn follow(self, mut health: watch::Receiver<Health>) {
        while health.changed().await.is_ok() {
            let now = health.borrow_and_update().clone();
            match now {
                Health::Connecting => {}
                Health::Up(about) => {
                    self.say("up", vec![about.address.clone(), about.version.clone()]);
                }
                Health::Down(why) => self.say("down", vec![why.to_string()]),
            }
        }
    }

    /// Says what should not remain as it is.
    pub(crate) fn warn(&self, warning: StoreWarning) {
        match warning {
            StoreWarning::Evicting(policy) => self.say("evicting", vec![policy]),
        }
    }

    /// Says which policies of a prefix are noted in Redis.
    pub(crate) fn noted(&self, prefix: String, texts: Vec<String>) {
        self.say("policies", std::iter::once(prefix).chain(texts).collect());
    }

    /// Takes a login that was asked for, or why there is none.
    pub(crate) fn answer(&self, number: u32, login: std::result::Result<Credentials, String>) {
        if let Some(waiting) = locked(&self.asked).waiting.remove(&number) {
            // Whoever asked has given up.
            let _unheard = waiting.send(login);
        }
    }
}

impl CredentialsProvider for Notices {
    fn credentials(&self) -> BoxFuture<'static, std::result::Result<Credentials, String>> {
        let (answer, answered) = oneshot::channel();
        let number = {
            let mut asked = locked(&self.asked);
            asked.waiting.retain(|_, waiting| !waiting.is_closed());
            asked.next = asked.next.wrapping_add(1);
            let number = asked.next;
            asked.waiting.insert(number, answer);
            number
        };
        self.say("login", vec![number.to_string()]);
        answered.map(|login| login.unwrap_or_else(|_| Err("nobody tells the login".into()))).boxed()
    }
}
