//! A part of a Redis server in this process: its keys, the commands that the scripts use, and the
//! scripts in the Lua of Redis.

pub mod keyspace;
pub mod lua;
pub mod resp;
