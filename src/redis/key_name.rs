//! The names of keys in Redis.

use std::num::NonZeroU16;

use super::slot::crc16;
use crate::key::Key;
use crate::policy::policy_set::PolicySet;

/// Writes the names of a limiter's keys.
///
/// A name has the prefix, the policy's name and the tag of its algorithm and layout, but none of
/// the policy's parameters. The user's key is the hash tag, so that all keys of one user are in one
/// slot: `api:default:gcra:{user:42}`. If the call has its own hash tag, the user's key follows
/// that tag: `api:default:gcra:{tenant:7}user:42`.
///
/// With [shared tags](Self::with_tags) the user's key follows one of those instead:
/// `api:default:gcra:{%~17}user:42`. A call's own tag cannot collide with it, because its `%` is
/// escaped.
///
/// A prefix may have colons: `shop:api:default:gcra:{user:42}`. Names stay unambiguous, because
/// prefixes, policy names and tags have no braces, and policy names and tags have no colons.
#[derive(Debug, Clone)]
pub struct KeyNames {
    /// For each policy: the beginning of the names of its keys up to the hash tag, and its key
    /// dimension.
    prefixes: Box<[(Box<str>, usize)]>,
    /// The beginning of hold key names. No policy's name can begin with `~`.
    holds: Box<str>,
    pub(crate) dimensions: usize,
    tags: Option<NonZeroU16>,
}

impl KeyNames {
    /// Names the keys of a limiter's policies.
    #[must_use]
    pub fn new(prefix: &str, policies: &PolicySet) -> Self {
        let prefixes = policies.named().iter().map(|named| {
            let text = format!("{prefix}:{}:{}:{{", named.name, named.policy.tag());
            (text.into(), named.key_dimension)
        });
        let prefixes = prefixes.collect();
        let holds = holds_head(prefix).into();
        Self { prefixes, holds, dimensions: policies.key_dimensions(), tags: None }
    }

    /// Lets keys share `tags` hash tags, except in calls with their own tag. Calls on many keys of
    /// a Redis Cluster then need few slots, and so few script calls.
    ///
    /// A key's tag is the CRC16 (XMODEM) of its UTF-8, modulo `tags`: the same in all processes and
    /// versions. A different number of tags renames all keys, so that their states start fresh.
    #[must_use]
    pub fn with_tags(self, tags: Option<NonZeroU16>) -> Self {
        Self { tags, ..self }
    }

    pub(crate) fn dimensions_of_policies(&self) -> impl Iterator<Item = usize> {
        self.prefixes.iter().map(|(_, dimension)| *dimension)
    }

    /// Appends the name of a policy's key, with the call's own hash tag if it has one.
    pub(crate) fn write(&self, policy: usize, key: Key<'_>, tag: Option<&str>, name: &mut Vec<u8>) {
        push_name(&self.prefixes[policy].0, key.as_str(), tag, self.tags, name);
    }

    /// Appends the name of the key that stores the holds of a key of the first dimension.
    pub(crate) fn write_holds(&self, key: Key<'_>, tag: Option<&str>, name: &mut Vec<u8>) {
        push_name(&self.holds, key.as_str(), tag, self.tags, name);
    }

    /// The name of a key under the first policy, in UTF-8.
    #[must_use]
    pub fn of(&self, key: Key<'_>) -> Vec<u8> {
        let mut name = Vec::new();
        self.write(0, key, None, &mut name);
        name
    }
}

pub(crate) fn holds_head(prefix: &str) -> String {
    format!("{prefix}:~holds:{{")
}

/// Appends a name: the head up to the hash tag, the hash tag, and the user's key.
pub(crate) fn push_name(
    head: &str,
    key: &str,
    tag: Option<&str>,
    tags: Option<NonZeroU16>,
    name: &mut Vec<u8>,
) {
    name.extend_from_slice(head.as_bytes());
    match (tag, tags) {
        (None, None) => {
            push_escaped(key, name);
            name.push(b'}');
            return;
        }
        (Some(tag), _) => push_escaped(tag, name),
        (None, Some(tags)) => {
            let number = crc16(key.as_bytes()) % tags;
            name.extend_from_slice(format!("%~{number}").as_bytes());
        }
    }
    // Names without a tag end with a brace. Those with a tag never do: keys escape braces.
    name.push(b'}');
    push_escaped(key, name);
}

/// Appends a text with escaped braces, because a hash tag ends at the first `}`, and escaped `%`.
fn push_escaped(text: &str, name: &mut Vec<u8>) {
    let text = text.as_bytes();
    if text.iter().any(|byte| matches!(byte, b'%' | b'{' | b'}')) {
        for byte in text {
            match byte {
                b'%' => name.extend_from_slice(b"%25"),
                b'{' => name.extend_from_slice(b"%7B"),
                b'}' => name.extend_from_slice(b"%7D"),
                byte => name.push(*byte),
            }
        }
    } else {
        name.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::Gcra;
    use crate::policy::Policy;
    use crate::policy::policy_set::NamedPolicy;

    fn gcra() -> Policy {
        Policy::Gcra(Gcra::new(1, 1, 1).unwrap())
    }

    fn names() -> KeyNames {
        KeyNames::new("api", &PolicySet::single(gcra()))
    }

    fn name(key: &str) -> String {
        String::from_utf8(names().of(Key::new(key).unwrap())).unwrap()
    }

    #[test]
    fn the_user_key_is_the_hash_tag() {
        assert_eq!(name("user:42"), "api:default:gcra:{user:42}");
    }

    #[test]
    fn hold_key_names_differ_from_those_of_policies() {
        let key = Key::new("user{42}").unwrap();
        let mut name = Vec::new();
        names().write_holds(key, None, &mut name);
        names().write_holds(key, Some("tenant:7"), &mut name);
        assert_eq!(name, b"api:~holds:{user%7B42%7D}api:~holds:{tenant:7}user%7B42%7D");
    }

    #[test]
    fn a_calls_own_tag_replaces_the_key_as_hash_tag() {
        let mut name = Vec::new();
        names().write(0, Key::new("user:42").unwrap(), Some("tenant{7}"), &mut name);
        assert_eq!(name, b"api:default:gcra:{tenant%7B7%7D}user:42");
    }

    /// Counts in Redis depend on the tags: they must never change.
    #[test]
    fn tags_are_the_same_in_all_versions() {
        let name = |tags, key| {
            let names = names().with_tags(NonZeroU16::new(tags));
            String::from_utf8(names.of(Key::new(key).unwrap())).unwrap()
        };
        // CRC16 (XMODEM) of "123456789" is 0x31C3.
        assert_eq!(name(16_384, "123456789"), "api:default:gcra:{%~12739}123456789");
        assert_eq!(name(100, "123456789"), "api:default:gcra:{%~39}123456789");
        assert_eq!(name(1, "user{42}"), "api:default:gcra:{%~0}user%7B42%7D");
        assert_eq!(name(64, "größe"), "api:default:gcra:{%~17}größe");
        let (key, mut holds) = (Key::new("123456789").unwrap(), Vec::new());
        names().with_tags(NonZeroU16::new(100)).write_holds(key, None, &mut holds);
        assert_eq!(holds, b"api:~holds:{%~39}123456789");
    }

    #[test]
    fn names_are_unique() {
        let text = "[%~{}2aö0-9]{1,6}";
        let tag = prop::option::of(text);
        let tags = prop_oneof![Just(None), (1_u16..=3).prop_map(NonZeroU16::new)];
        let one = (text, tag);
        proptest!(|(tags in tags, (a, b) in (one.clone(), one))| {
            let names = names().with_tags(tags);
            let [first, second] = [&a, &b].map(|(key, tag)| {
                let mut name = Vec::new();
                names.write(0, Key::new(key).unwrap(), tag.as_deref(), &mut name);
                name
            });
            prop_assert_eq!(first == second, a == b);
            let spread = names.clone().with_tags(NonZeroU16::new(2));
            let without = names.with_tags(None);
            prop_assert_ne!(spread.of(Key::new(&a.0).unwrap()), without.of(Key::new(&b.0).unwrap()));
        });
    }

    #[test]
    fn braces_and_percent_are_escaped_and_nothing_else() {
        assert_eq!(name("{a}b"), "api:default:gcra:{%7Ba%7Db}");
        assert_eq!(name("%7B"), "api:default:gcra:{%257B}");
        assert_eq!(name("\0 é\n"), "api:default:gcra:{\0 é\n}");
        assert_ne!(name("{"), name("%7B"));
    }

    #[test]
    fn each_policy_has_a_name_for_the_key_of_its_dimension() {
        let named = |name: &str, key_dimension| NamedPolicy {
            name: name.into(),
            policy: gcra(),
            key_dimension,
        };
        let policies =
            PolicySet::multi(vec![named("ip", 0), named("user", 1), named("slow", 0)]).unwrap();
        let names = KeyNames::new("api", &policies);
        let key = Key::new("a").unwrap();
        let of = |policy| {
            let mut name = Vec::new();
            names.write(policy, key, None, &mut name);
            String::from_utf8(name).unwrap()
        };
        assert_eq!(
            [0, 1, 2].map(of),
            ["api:ip:gcra:{a}", "api:user:gcra:{a}", "api:slow:gcra:{a}"]
        );
        assert_eq!(names.dimensions_of_policies().collect::<Vec<_>>(), [0, 1, 0]);
    }
}
