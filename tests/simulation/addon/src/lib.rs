//! The keys of a simulated server, for JavaScript.

#![allow(unsafe_code, reason = "napi generates it")]
#![allow(clippy::needless_pass_by_value, reason = "napi hands strings over by value")]

use napi::bindgen_prelude::{Either, Result};
use napi_derive::napi;
use tollgate_simulated_redis::keyspace::Keyspace;
use tollgate_simulated_redis::lua::{self, ScriptContext};
use tollgate_simulated_redis::resp::Reply;

/// The reply to a script, and the keys that it changed.
#[napi(object)]
pub struct ScriptRun {
    pub reply: Either<String, Vec<String>>,
    pub changed: Vec<String>,
}

/// The keys of a server.
#[napi]
#[derive(Default)]
pub struct ServerKeys(Keyspace);

/// Compiles a script, unless it is known.
#[napi]
pub fn load_script(digest: String, source: String) {
    lua::load(digest.as_bytes(), source.as_bytes());
}

#[napi]
impl ServerKeys {
    #[napi(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    #[napi]
    pub fn copy(&self) -> Self {
        Self(self.0.clone())
    }

    /// Runs a script at a time in microseconds since the epoch. Throws the server's error.
    ///
    /// `refuses_writes` is the code of the error with which the server refuses to write.
    #[napi]
    pub fn run(
        &mut self,
        digest: String,
        keys: Vec<String>,
        arguments: Vec<String>,
        epoch_us: i64,
        refuses_writes: Option<String>,
    ) -> Result<ScriptRun> {
        let [keys, arguments] = [keys, arguments]
            .map(|texts| texts.into_iter().map(String::into_bytes).collect::<Vec<_>>());
        let context = ScriptContext {
            keys: std::mem::take(&mut self.0),
            now: epoch_us.cast_unsigned(),
            written: Vec::new(),
            may_use: Box::new(|_, _| true),
            refuses_writes: refuses_writes.map(|code| match &code[..] {
                "READONLY" => lua::READONLY,
                _ => lua::OOM,
            }),
        };
        let (reply, context) = lua::run(digest.as_bytes(), &keys, &arguments, context);
        self.0 = context.keys;
        let written = context.written.iter();
        let changed = written.filter(|(key, before)| self.0.entry(key) != before.as_ref());
        let changed = changed.map(|(key, _)| text(key)).collect();
        let reply = match reply {
            Reply::Error(error) => return Err(napi::Error::from_reason(error)),
            Reply::Text(bytes) => Either::A(text(&bytes)),
            Reply::Array(replies) => Either::B(replies.iter().map(text_of).collect()),
            other => Either::A(text_of(&other)),
        };
        Ok(ScriptRun { reply, changed })
    }
}

fn text_of(reply: &Reply) -> String {
    match reply {
        Reply::Text(bytes) => text(bytes),
        Reply::Status(text) => (*text).to_owned(),
        Reply::Number(number) => number.to_string(),
        other => panic!("no script of the package replies {other:?}"),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
