//! The slots of a Redis Cluster.

use crc16::{State, XMODEM};

/// How many slots there are.
pub const SLOTS: u16 = 16_384;

/// Why keys of several slots are not decided together.
#[cfg(feature = "redis")]
pub(crate) const CROSS_SLOT: &str = "the keys that are decided together do not share a slot of the Redis Cluster; \
                                     a tag, of the limiter or of the call, puts them into one";

/// The sum that spreads keys over slots.
pub(crate) fn crc16(bytes: &[u8]) -> u16 {
    State::<XMODEM>::calculate(bytes)
}

/// The slot of a key by its name: by what is between its first `{` and the first `}` behind that, if
/// that is anything, and otherwise by all of it.
#[must_use]
pub fn slot_of(name: &[u8]) -> u16 {
    crc16(hash_tag(name).unwrap_or(name)) % SLOTS
}

fn hash_tag(name: &[u8]) -> Option<&[u8]> {
    let start = name.iter().position(|byte| *byte == b'{')? + 1;
    let length = name[start..].iter().position(|byte| *byte == b'}')?;
    (length > 0).then(|| &name[start..start + length])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `CLUSTER KEYSLOT` says.
    #[test]
    fn slots_are_those_of_the_specification() {
        for (name, slot) in [
            ("", 0),
            ("123456789", 12_739),
            ("foo", 12_182),
            ("{user1000}.following", slot_of(b"user1000")),
            ("{user1000}.followers", slot_of(b"user1000")),
            ("foo{}{bar}", crc16(b"foo{}{bar}") % SLOTS),
            ("foo{{bar}}zap", slot_of(b"{bar")),
            ("foo{bar}{zap}", slot_of(b"bar")),
            ("foo{bar", crc16(b"foo{bar") % SLOTS),
            ("foo}bar{a}", slot_of(b"a")),
        ] {
            assert_eq!(slot_of(name.as_bytes()), slot, "{name}");
        }
    }
}
