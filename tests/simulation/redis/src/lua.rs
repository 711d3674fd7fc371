//! Runs the scripts in Lua 5.1, the Lua of Redis, with the functions of Redis that they use.

use std::cell::RefCell;
use std::collections::HashMap;
use std::iter::{self, Peekable};
use std::str::Chars;

use mlua::{Function, HookTriggers, Lua, MultiValue, Table, Value, VmState};

use crate::keyspace::{Entry, Keyspace};
use crate::resp::Reply;

/// The errors of commands that write: of a replica, and of a server without memory.
pub const READONLY: &str = "READONLY You can't write against a read only replica.";
pub const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// Whether a server with these keys lets a script use a key.
pub type KeyPermission = Box<dyn Fn(&Keyspace, &[u8]) -> bool>;

/// The state of the server while it runs a script.
pub struct ScriptContext {
    pub keys: Keyspace,
    /// The time, in microseconds since the epoch. It stands still.
    pub now: u64,
    /// The keys that the script wrote, with their values before it.
    pub written: Vec<(Vec<u8>, Option<Entry>)>,
    pub may_use: KeyPermission,
    /// The server's error for commands that write, if it refuses them.
    pub refuses_writes: Option<&'static str>,
}

thread_local! {
    static INTERPRETER: Interpreter = Interpreter::new();
    static CONTEXT: RefCell<Option<ScriptContext>> = const { RefCell::new(None) };
}

/// The interpreter of this thread. All servers share it: a script leaves nothing in it.
struct Interpreter {
    lua: Lua,
    /// By name: the digest, or the source itself.
    scripts: RefCell<HashMap<Vec<u8>, Function>>,
}

/// Compiles a script, unless one of this name is known.
pub fn load(name: &[u8], source: &[u8]) {
    INTERPRETER.with(|Interpreter { lua, scripts }| {
        if !scripts.borrow().contains_key(name) {
            let script = lua.load(source).into_function().expect("the script is valid");
            scripts.borrow_mut().insert(name.to_vec(), script);
        }
    });
}

/// Runs a loaded script, and returns its reply and the server's state after it.
///
/// # Panics
/// If no script of this name was loaded.
pub fn run(
    name: &[u8],
    keys: &[Vec<u8>],
    arguments: &[Vec<u8>],
    context: ScriptContext,
) -> (Reply, ScriptContext) {
    CONTEXT.set(Some(context));
    let reply = INTERPRETER.with(|interpreter| interpreter.run(name, keys, arguments));
    let reply = reply.unwrap_or_else(|error| {
        let text = error.to_string().replace(['\r', '\n'], " ");
        Reply::error(format!("ERR {text}"))
    });
    let context = CONTEXT.take().expect("the script has left its context");
    (reply, context)
}

/// Calls a function with the number of each line of the scripts that this thread runs from now on.
pub fn on_line(each: fn(usize)) {
    INTERPRETER.with(|Interpreter { lua, .. }| {
        let hook = move |_: &Lua, debug: &mlua::Debug<'_>| {
            each(debug.current_line().unwrap_or_default());
            Ok(VmState::Continue)
        };
        lua.set_hook(HookTriggers::EVERY_LINE, hook).expect("Lua has memory for a hook");
    });
}

impl Interpreter {
    fn new() -> Self {
        let lua = Lua::new();
        let install = || -> mlua::Result<()> {
            let redis = lua.create_table()?;
            let call = |lua: &Lua, words: MultiValue| match execute(&words) {
                Reply::Error(text) => Err(mlua::Error::runtime(text)),
                reply => value(lua, &reply),
            };
            redis.set("call", lua.create_function(call)?)?;
            let pcall = |lua: &Lua, words: MultiValue| value(lua, &execute(&words));
            redis.set("pcall", lua.create_function(pcall)?)?;
            let structs = lua.create_table()?;
            structs.set("pack", lua.create_function(pack)?)?;
            structs.set("unpack", lua.create_function(unpack)?)?;
            lua.globals().set("redis", redis)?;
            lua.globals().set("struct", structs)
        };
        install().expect("Lua has memory for its functions");
        Self { lua, scripts: RefCell::default() }
    }

    fn run(&self, name: &[u8], keys: &[Vec<u8>], arguments: &[Vec<u8>]) -> mlua::Result<Reply> {
        let script = self.scripts.borrow().get(name).cloned().expect("the script was loaded");
        self.lua.globals().set("KEYS", self.texts(keys)?)?;
        self.lua.globals().set("ARGV", self.texts(arguments)?)?;
        Ok(reply(&script.call(())?))
    }

    fn texts(&self, texts: &[Vec<u8>]) -> mlua::Result<Table> {
        let texts = texts.iter().map(|text| self.lua.create_string(text));
        self.lua.create_sequence_from(texts.collect::<mlua::Result<Vec<_>>>()?)
    }
}

/// Executes a command of a script.
fn execute(words: &MultiValue) -> Reply {
    let words: Option<Vec<_>> = words.iter().map(word).collect();
    let Some(mut words) = words.filter(|words| !words.is_empty()) else {
        return Reply::error("ERR Lua redis lib command arguments must be strings or integers");
    };
    let command = String::from_utf8_lossy(&words.remove(0)).to_ascii_uppercase();
    CONTEXT.with_borrow_mut(|context| {
        let context = context.as_mut().expect("a script runs");
        if command == "TIME" {
            let (seconds, micros) = (context.now / 1_000_000, context.now % 1_000_000);
            return Reply::Array(
                [seconds, micros].map(|part| Reply::text(part.to_string())).into(),
            );
        }
        let keys = if matches!(&command[..], "MGET" | "DEL" | "UNLINK") { words.len() } else { 1 };
        if !words.iter().take(keys).all(|key| (context.may_use)(&context.keys, key)) {
            let text = "ERR Script attempted to access a non local key in a cluster node";
            return Reply::error(text);
        }
        if Keyspace::is_write(&command) {
            if let Some(error) = context.refuses_writes {
                return Reply::error(error);
            }
            for key in words.iter().take(keys) {
                if !context.written.iter().any(|(written, _)| written == key) {
                    context.written.push((key.clone(), context.keys.entry(key).cloned()));
                }
            }
        }
        context.keys.execute(&command, &words, context.now / 1_000)
    })
}

/// An argument of a command. Redis writes numbers with 17 digits.
fn word(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) => Some(number.to_string().into_bytes()),
        Value::Number(number) => Some(number_text(*number).into_bytes()),
        _ => None,
    }
}

/// A number as C's `%.17g` writes it.
pub fn number_text(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e17 {
        return format!("{number:.0}");
    }
    let text = format!("{number:.16e}");
    let (digits, exponent) = text.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    if (-5..17).contains(&exponent) {
        let places = usize::try_from(16 - exponent).unwrap_or_default();
        let plain = format!("{number:.places$}");
        return plain.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// A reply as a script sees it.
fn value(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    let table = |field: &str, text: &str| -> mlua::Result<Value> {
        let table = lua.create_table()?;
        table.set(field, text)?;
        Ok(Value::Table(table))
    };
    match reply {
        Reply::Status(text) => table("ok", text),
        Reply::Error(text) => table("err", text),
        #[allow(clippy::cast_precision_loss, reason = "Redis does the same")]
        Reply::Number(number) => Ok(Value::Number(*number as f64)),
        Reply::Text(bytes) => Ok(Value::String(lua.create_string(bytes)?)),
        Reply::Nil => Ok(Value::Boolean(false)),
        Reply::Array(replies) => {
            let values = replies.iter().map(|reply| value(lua, reply));
            let values = values.collect::<mlua::Result<Vec<_>>>()?;
            Ok(Value::Table(lua.create_sequence_from(values)?))
        }
    }
}

/// The reply of a script that returns this value.
fn reply(value: &Value) -> Reply {
    match value {
        Value::Integer(number) => Reply::Number(*number),
        #[allow(clippy::cast_possible_truncation, reason = "Redis does the same")]
        Value::Number(number) => Reply::Number(*number as i64),
        Value::String(text) => Reply::text(text.as_bytes().to_vec()),
        Value::Boolean(true) => Reply::Number(1),
        Value::Table(table) => {
            if let Ok(text) = table.get::<mlua::String>("err") {
                return Reply::error(text.to_string_lossy());
            }
            if table.contains_key("ok").unwrap_or_default() {
                return Reply::Status("OK");
            }
            let values = (1..).map_while(|index| match table.get::<Value>(index) {
                Ok(Value::Nil) | Err(_) => None,
                Ok(value) => Some(reply(&value)),
            });
            Reply::Array(values.collect())
        }
        _ => Reply::Nil,
    }
}

/// The fields of a format.
fn fields(format: &str) -> mlua::Result<Vec<Field>> {
    let unknown = || mlua::Error::runtime(format!("the simulation has no format {format:?}"));
    let mut letters = format.strip_prefix('>').ok_or_else(unknown)?.chars().peekable();
    let mut fields = Vec::new();
    while let Some(letter) = letters.next() {
        fields.push(match letter {
            'd' => Field::Double,
            'B' => Field::Whole(1),
            'I' => {
                let size = number(&mut letters).filter(|size| (1..=8).contains(size));
                Field::Whole(size.ok_or_else(unknown)?)
            }
            'c' => Field::Text(number(&mut letters).ok_or_else(unknown)?),
            _ => return Err(unknown()),
        });
    }
    Ok(fields)
}

/// Takes the digits at the front.
fn number(letters: &mut Peekable<Chars<'_>>) -> Option<usize> {
    let digits: String = iter::from_fn(|| letters.next_if(char::is_ascii_digit)).collect();
    digits.parse().ok()
}

#[derive(Clone, Copy)]
enum Field {
    Double,
    /// A number, and its length in bytes.
    Whole(usize),
    /// A string, and its length in bytes.
    Text(usize),
}

fn pack(lua: &Lua, (format, values): (String, mlua::Variadic<f64>)) -> mlua::Result<mlua::String> {
    let mut bytes = Vec::new();
    for (field, value) in fields(&format)?.into_iter().zip(values.iter()) {
        match field {
            Field::Double => bytes.extend(value.to_be_bytes()),
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "as in Redis"
            )]
            Field::Whole(size) => bytes.extend(&(*value as u64).to_be_bytes()[8 - size..]),
            Field::Text(_) => {
                return Err(mlua::Error::runtime("the simulation packs only numbers"));
            }
        }
    }
    lua.create_string(bytes)
}

fn unpack(
    lua: &Lua,
    (format, text, start): (String, mlua::String, Option<usize>),
) -> mlua::Result<MultiValue> {
    let text = text.as_bytes();
    let mut at = start.unwrap_or(1) - 1;
    let mut values = MultiValue::new();
    for field in fields(&format)? {
        let size = match field {
            Field::Double => 8,
            Field::Whole(size) | Field::Text(size) => size,
        };
        let bytes = text.get(at..at + size);
        let bytes = bytes.ok_or_else(|| mlua::Error::runtime("data string too short"))?;
        at += size;
        if let Field::Text(_) = field {
            values.push_back(Value::String(lua.create_string(bytes)?));
            continue;
        }
        let mut whole = [0; 8];
        whole[8 - size..].copy_from_slice(bytes);
        #[allow(clippy::cast_precision_loss, reason = "as in Redis")]
        values.push_back(Value::Number(match field {
            Field::Double => f64::from_be_bytes(whole),
            _ => u64::from_be_bytes(whole) as f64,
        }));
    }
    #[allow(clippy::cast_precision_loss, reason = "an index of a short string")]
    values.push_back(Value::Number((at + 1) as f64));
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::number_text;

    #[test]
    fn numbers_are_written_as_by_c() {
        for (number, text) in [
            (0.0, "0"),
            (-7.0, "-7"),
            (9_007_199_254_740_992.0, "9007199254740992"),
            (0.5, "0.5"),
            (0.1, "0.10000000000000001"),
            (1e300, "1.0000000000000001e+300"),
        ] {
            assert_eq!(number_text(number), text);
        }
    }
}
