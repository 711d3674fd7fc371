//! The names of keys in Redis.

use super::keys::Keys;
use crate::key::Key;
use crate::policy::Policy;

/// Names a limiter's keys.
///
/// A name carries the prefix, the policy's name and the tag of its algorithm and layout, never its
/// numbers; then the user's key as the hash tag, so that the keys of one user fall on one slot:
/// `api:default:gcra:{user:42}`.
#[derive(Debug, Clone)]
pub struct Names {
    head: Box<str>,
}

impl Names {
    /// The names of the keys of one policy of a limiter.
    #[must_use]
    pub fn new(prefix: &str, policy_name: &str, policy: &Policy) -> Self {
        let tag = policy.tag();
        Self { head: format!("{prefix}:{policy_name}:{tag}:{{").into() }
    }

    /// Appends the name of a key. A hash tag ends at the first `}`, so braces are escaped, and `%`
    /// with them.
    pub(super) fn write(&self, key: Key<'_>, name: &mut Vec<u8>) {
        let key = key.as_str().as_bytes();
        name.extend_from_slice(self.head.as_bytes());
        if key.iter().any(|byte| matches!(byte, b'%' | b'{' | b'}')) {
            for byte in key {
                match byte {
                    b'%' => name.extend_from_slice(b"%25"),
                    b'{' => name.extend_from_slice(b"%7B"),
                    b'}' => name.extend_from_slice(b"%7D"),
                    byte => name.push(*byte),
                }
            }
        } else {
            name.extend_from_slice(key);
        }
        name.push(b'}');
    }

    /// One key alone, as a script's.
    #[must_use]
    pub fn key(&self, key: Key<'_>) -> Keys {
        let mut keys = Keys::default();
        keys.push(|name| self.write(key, name));
        keys
    }

    /// The name of a key: UTF-8, as the key is.
    #[must_use]
    pub fn of(&self, key: Key<'_>) -> Vec<u8> {
        let mut name = Vec::new();
        self.write(key, &mut name);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Gcra;

    fn name(key: &str) -> String {
        let policy = Policy::Gcra(Gcra::new(1, 1, 1).unwrap());
        let name = Names::new("api", "default", &policy).of(Key::new(key).unwrap());
        String::from_utf8(name).unwrap()
    }

    #[test]
    fn the_user_key_is_the_hash_tag() {
        assert_eq!(name("user:42"), "api:default:gcra:{user:42}");
    }

    #[test]
    fn braces_and_percent_are_escaped_and_nothing_else() {
        assert_eq!(name("{a}b"), "api:default:gcra:{%7Ba%7Db}");
        assert_eq!(name("%7B"), "api:default:gcra:{%257B}");
        assert_eq!(name("\0 é\n"), "api:default:gcra:{\0 é\n}");
        assert_ne!(name("{"), name("%7B"));
    }
}
