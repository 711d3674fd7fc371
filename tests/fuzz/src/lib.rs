//! The fuzz targets of the engine: see `README.md`. `targets/` has a binary for each.

pub mod differential;
pub mod key_name;
pub mod policies;
pub mod resp;
pub mod script_reply;
pub mod server;
pub mod stored_value;
pub mod wasm_boundary;

mod calls;
mod module;
