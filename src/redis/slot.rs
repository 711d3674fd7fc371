//! The slots of a Redis Cluster.

use crc16::{State, XMODEM};

/// The number of slots.
pub const SLOTS: u16 = 16_384;

pub(crate) fn crc16(bytes: &[u8]) -> u16 {
    State::<XMODEM>::calculate(bytes)
}

/// The slot of a key. It depends on the text between the first `{` of the name and the next `}`; if
/// that text is missing or empty, on the whole name.
#[must_use]
pub fn slot_of(name: &[u8]) -> u16 {
    crc16(hash_tag(name).unwrap_or(name)) % SLOTS
}

/// The text of a name that decides its slot; `None` if that is the whole name.
pub(crate) fn hash_tag(name: &[u8]) -> Option<&[u8]> {
    let start = name.iter().position(|byte| *byte == b'{')? + 1;
    let length = name[start..].iter().position(|byte| *byte == b'}')?;
    (length > 0).then(|| &name[start..start + length])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slots that `CLUSTER KEYSLOT` returns.
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
