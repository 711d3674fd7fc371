//! Replies of servers, from bytes to what the package makes of them.

use redis::parse_redis_value;

/// Parses bytes as a reply, and decodes it as the answer to each command.
///
/// # Panics
/// If a result depends on more than the bytes, or an error text is huge.
pub fn run(data: &[u8]) {
    let Ok(reply) = parse_redis_value(data) else { return };
    let address = String::from_utf8_lossy(data);
    let decode = || tollgate::fuzzing::redis::decode_reply(&reply, &address);
    let results = decode();
    assert_eq!(results, decode());
}
