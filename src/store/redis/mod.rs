//! What goes to Redis and what comes back: key names, scripts, batches and their answers.
//!
//! A batch holds calls of one limiter. It goes as one script, which decides them in order, each on
//! the state that the one before left, and then writes each key once. Nothing here speaks to a
//! server: whoever does hands over the words of a command and the values of its reply.

mod batch;
mod name;
mod script;
mod wire;

pub use batch::{Batch, CallError};
pub use name::Names;
pub use script::{CLOCK, Script};
pub use wire::{MalformedReply, Value};
