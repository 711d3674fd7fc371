//! The names of keys in Redis.

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

    /// The name of a key. A hash tag ends at the first `}`, so braces are escaped, and `%` with them.
    #[must_use]
    pub fn of(&self, key: Key<'_>) -> String {
        let key = key.as_str();
        let mut name = String::with_capacity(self.head.len() + key.len() + 1);
        name.push_str(&self.head);
        if key.contains(['%', '{', '}']) {
            for character in key.chars() {
                match character {
                    '%' => name.push_str("%25"),
                    '{' => name.push_str("%7B"),
                    '}' => name.push_str("%7D"),
                    _ => name.push(character),
                }
            }
        } else {
            name.push_str(key);
        }
        name.push('}');
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Gcra;

    fn name(key: &str) -> String {
        let policy = Policy::Gcra(Gcra::new(1, 1, 1).unwrap());
        Names::new("api", "default", &policy).of(Key::new(key).unwrap())
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
