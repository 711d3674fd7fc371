//! Parses the names of keys.

use std::num::NonZeroU16;

use crate::redis::codec::layout_of;
use crate::redis::key_name::{holds_head, push_name};

/// The parts of a key's name, which [`KeyNames`](crate::redis::KeyNames) writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredName {
    /// The policy's name.
    pub policy: String,
    /// The tag of the algorithm and of its state's layout.
    pub tag: String,
    /// The user's key.
    pub key: String,
    /// The call's own hash tag, if it had one.
    pub own_tag: Option<String>,
    /// Whether its hash tag is one of the limiter's shared tags.
    pub shares_tag: bool,
}

impl StoredName {
    /// Parses the name of a policy's key under a prefix; `None` for any other name.
    #[must_use]
    pub fn read(prefix: &str, name: &[u8]) -> Option<Self> {
        let (_, policy, tag, rest) = parts(name).filter(|(own, ..)| *own == prefix)?;
        let (hash_tag, after) = rest.split_once('}')?;
        let (key, own_tag, shares_tag) = match (hash_tag, after) {
            (key, "") => (key, None, false),
            (shared, key) if shared.starts_with("%~") => (key, None, true),
            (own, key) => (key, Some(unescaped(own)?), false),
        };
        let key = unescaped(key).filter(|key| !key.is_empty())?;
        Some(Self { policy: policy.to_owned(), tag: tag.to_owned(), key, own_tag, shares_tag })
    }

    /// The prefix of a policy's key; `None` for any other name.
    #[must_use]
    pub fn prefix(name: &[u8]) -> Option<&str> {
        parts(name).map(|(prefix, ..)| prefix)
    }

    /// Writes the name under a prefix with `tags` shared hash tags, as
    /// [`KeyNames`](crate::redis::KeyNames) does.
    #[must_use]
    pub fn write(&self, prefix: &str, tags: Option<NonZeroU16>) -> Vec<u8> {
        let mut name = Vec::new();
        let head = format!("{prefix}:{}:{}:{{", self.policy, self.tag);
        push_name(&head, &self.key, self.own_tag.as_deref(), tags, &mut name);
        name
    }

    /// Writes the name of the key that stores the holds of this key.
    #[must_use]
    pub fn write_holds(&self, prefix: &str, tags: Option<NonZeroU16>) -> Vec<u8> {
        let mut name = Vec::new();
        push_name(&holds_head(prefix), &self.key, self.own_tag.as_deref(), tags, &mut name);
        name
    }
}

/// Splits a name into the prefix, the policy's name, the algorithm's tag, and the text after the
/// brace. No prefix has a colon.
fn parts(name: &[u8]) -> Option<(&str, &str, &str, &str)> {
    let (prefix, rest) = str::from_utf8(name).ok()?.split_once(':')?;
    let (policy, rest) = rest.split_once(':')?;
    let (tag, rest) = rest.split_once(":{")?;
    layout_of(tag)?;
    Some((prefix, policy, tag, rest))
}

/// Reverses `push_escaped`; `None` if the text is not its output.
fn unescaped(text: &str) -> Option<String> {
    if !text.contains(['%', '{', '}']) {
        return Some(text.to_owned());
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['%', '{', '}']) {
        plain.push_str(&rest[..at]);
        plain.push(match rest.get(at..at + 3)? {
            "%25" => '%',
            "%7B" => '{',
            "%7D" => '}',
            _ => return None,
        });
        rest = &rest[at + 3..];
    }
    plain.push_str(rest);
    Some(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::Gcra;
    use crate::key::Key;
    use crate::policy::Policy;
    use crate::policy::policy_set::PolicySet;
    use crate::redis::KeyNames;

    #[test]
    fn written_names_are_parsed() {
        let text = "[%~{}2aö:0-9]{1,6}";
        let tags = prop_oneof![Just(None), (1_u16..=3).prop_map(NonZeroU16::new)];
        let names =
            KeyNames::new("api", &PolicySet::single(Policy::Gcra(Gcra::new(1, 1, 1).unwrap())));
        proptest!(|(key in text, own_tag in prop::option::of(text), tags in tags)| {
            let mut name = Vec::new();
            let names = names.clone().with_tags(tags);
            names.write(0, Key::new(&key).unwrap(), own_tag.as_deref(), &mut name);
            let mut holds = Vec::new();
            names.write_holds(Key::new(&key).unwrap(), own_tag.as_deref(), &mut holds);
            let (policy, tag) = ("default".to_owned(), "gcra".to_owned());
            let shares_tag = tags.is_some() && own_tag.is_none();
            let read = StoredName { policy, tag, key, own_tag, shares_tag };
            prop_assert_eq!(StoredName::read("ap", &name), None);
            prop_assert_eq!(StoredName::read("api", &name), Some(read.clone()));
            prop_assert_eq!(StoredName::prefix(&name), Some("api"));
            prop_assert_eq!(StoredName::prefix(&holds), None);
            prop_assert_eq!(read.write("api", tags), name);
            prop_assert_eq!(read.write_holds("api", tags), holds);
        });
    }

    #[test]
    fn other_names_are_rejected() {
        for name in [
            "api:default:gcra:user:42",
            "api:default:gcra:{user:42",
            "api:default:gcra:{}",
            "api:default:gcra:{a{b}",
            "api:default:gcra:{a%7}",
            "api:default:gcra:{é%é}",
            "api:default:other:{a}",
            "api:~holds:{a}",
            "other:default:gcra:{a}",
            "api",
        ] {
            assert_eq!(StoredName::read("api", name.as_bytes()), None, "{name}");
        }
        assert_eq!(StoredName::read("api", b"api:default:gcra:{\xff}"), None);
    }
}
