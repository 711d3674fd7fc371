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
        Self::with_rest(policy, tag, rest)
    }

    /// Parses a hold key's name, which has no policy and no tag; `None` for any other name.
    #[must_use]
    pub fn read_holds(prefix: &str, name: &[u8]) -> Option<Self> {
        let rest = str::from_utf8(name).ok()?.strip_prefix(holds_head(prefix).as_str())?;
        Self::with_rest("", "", rest)
    }

    /// Parses the rest of a name, which follows the brace that opens the hash tag.
    fn with_rest(policy: &str, tag: &str, rest: &str) -> Option<Self> {
        let (hash_tag, after) = rest.split_once('}')?;
        let (key, own_tag, shares_tag) = match (hash_tag, after) {
            (key, "") => (key, None, false),
            (shared, key) if shared.starts_with("%~") => (key, None, true),
            (own, key) => (key, Some(unescaped(own)?), false),
        };
        let key = unescaped(key).filter(|key| !key.is_empty())?;
        Some(Self { policy: policy.to_owned(), tag: tag.to_owned(), key, own_tag, shares_tag })
    }

    /// The prefix, the policy's name and the algorithm's tag; `None` for any other name.
    #[must_use]
    pub fn owner(name: &[u8]) -> Option<(&str, &str, &str)> {
        parts(name).map(|(prefix, policy, tag, _)| (prefix, policy, tag))
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
/// brace. A prefix may have colons, but no brace; a policy's name and a tag have neither. So the
/// head ends at the first brace, and its parts are split from its end.
fn parts(name: &[u8]) -> Option<(&str, &str, &str, &str)> {
    let (head, rest) = str::from_utf8(name).ok()?.split_once('{')?;
    let (head, tag) = head.strip_suffix(':')?.rsplit_once(':')?;
    let (prefix, policy) = head.rsplit_once(':')?;
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
    use crate::algorithm::{FixedWindow, Gcra};
    use crate::key::Key;
    use crate::policy::Policy;
    use crate::policy::policy_set::{NamedPolicy, PolicySet};
    use crate::redis::{KeyNames, policy_registry_key};

    #[test]
    fn written_names_are_parsed() {
        let text = "[%~{}2aö:0-9]{1,6}";
        let tags = prop_oneof![Just(None), (1_u16..=3).prop_map(NonZeroU16::new)];
        let policies = PolicySet::single(Policy::Gcra(Gcra::new(1, 1, 1).unwrap()));
        let prefixes = "[a-c:.-]{1,64}";
        proptest!(|(
            prefix in prefixes,
            key in text,
            own_tag in prop::option::of(text),
            tags in tags,
        )| {
            let mut name = Vec::new();
            let names = KeyNames::new(&prefix, &policies).with_tags(tags);
            names.write(0, Key::new(&key).unwrap(), own_tag.as_deref(), &mut name);
            let mut holds = Vec::new();
            names.write_holds(Key::new(&key).unwrap(), own_tag.as_deref(), &mut holds);
            let (policy, tag) = ("default".to_owned(), "gcra".to_owned());
            let shares_tag = tags.is_some() && own_tag.is_none();
            let read = StoredName { policy, tag, key, own_tag, shares_tag };
            prop_assert_eq!(StoredName::read(&prefix[1..], &name), None);
            prop_assert_eq!(StoredName::read(&prefix, &name), Some(read.clone()));
            prop_assert_eq!(StoredName::owner(&name), Some((&*prefix, "default", "gcra")));
            prop_assert_eq!(StoredName::owner(&holds), None);
            prop_assert_eq!(&read.write(&prefix, tags), &name);
            prop_assert_eq!(&read.write_holds(&prefix, tags), &holds);
            let held = StoredName { policy: String::new(), tag: String::new(), ..read };
            prop_assert_eq!(StoredName::read_holds(&prefix, &holds), Some(held));
            prop_assert_eq!(StoredName::read_holds(&prefix, &name), None);
            prop_assert_eq!(StoredName::read_holds(&prefix[1..], &holds), None);
        });
    }

    /// A prefix can end like the name of a policy or the tag of an algorithm.
    fn head() -> impl Strategy<Value = (String, String, Policy)> + Clone {
        let word = prop_oneof![Just("a"), Just("default"), Just("gcra"), Just("fixed-window")];
        let part = prop_oneof![word.prop_map(str::to_owned), "[A-Za-z0-9_.-]{0,3}"];
        let prefix = prop::collection::vec(part, 0..5).prop_map(|parts| parts.join(":"));
        let policy = prop_oneof![Just("default"), Just("gcra"), Just("a"), Just("b.c")];
        let algorithm = prop_oneof![
            Just(Policy::Gcra(Gcra::new(1, 1, 1).unwrap())),
            Just(Policy::FixedWindow(FixedWindow::new(1, 1_000_000).unwrap())),
        ];
        (prefix.prop_map(|rest| format!("a{rest}")), policy.prop_map(str::to_owned), algorithm)
    }

    #[test]
    fn names_under_prefixes_with_colons_are_unique_and_parsed() {
        let text = "[%~{}:aö]{1,4}|a:default:gcra:\\{a\\}|x:~policies|:~holds:\\{";
        let one = (head(), text, prop::option::of(text));
        let tags = prop_oneof![Just(None), (1_u16..=3).prop_map(NonZeroU16::new)];
        proptest!(|(tags in tags, (a, b) in (one.clone(), one))| {
            let [first, second] = [&a, &b].map(|((prefix, policy, algorithm), key, own_tag)| {
                let (key, own_tag) = (Key::new(key).unwrap(), own_tag.as_deref());
                let named = NamedPolicy {
                    name: policy.as_str().into(),
                    policy: algorithm.clone(),
                    key_dimension: 0,
                };
                let policies = PolicySet::multi(vec![named]).unwrap();
                let names = KeyNames::new(prefix, &policies).with_tags(tags);
                let (mut name, mut holds) = (Vec::new(), Vec::new());
                names.write(0, key, own_tag, &mut name);
                names.write_holds(key, own_tag, &mut holds);
                (name, holds, policy_registry_key(prefix).into_bytes())
            });
            let ((prefix, policy, algorithm), key, own_tag) = a.clone();
            let read = StoredName {
                policy,
                tag: algorithm.tag().to_owned(),
                key,
                shares_tag: tags.is_some() && own_tag.is_none(),
                own_tag,
            };
            prop_assert_eq!(StoredName::owner(&first.0).map(|owner| owner.0), Some(prefix.as_str()));
            prop_assert_eq!(StoredName::read(&prefix, &first.0), Some(read));
            prop_assert_eq!(StoredName::read(&b.0.0, &first.0).is_some(), prefix == b.0.0);
            prop_assert_eq!(first.0 == second.0, a == b);
            let same_holds = prefix == b.0.0 && (&a.1, &a.2) == (&b.1, &b.2);
            prop_assert_eq!(first.1 == second.1, same_holds);
            prop_assert_eq!(first.2 == second.2, prefix == b.0.0);
            for other in [&second.1, &second.2] {
                prop_assert_ne!(&first.0, other);
                prop_assert_eq!(StoredName::owner(other), None);
            }
            prop_assert_ne!(first.1, second.2);
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
            "api:default:gcra",
            "default:gcra:{a}",
            "api:v2:default:gcra:{a}",
            "v2:api:default:gcra:{a}",
            "{x:api:default:gcra:{a}",
        ] {
            assert_eq!(StoredName::read("api", name.as_bytes()), None, "{name}");
        }
        assert_eq!(StoredName::read("api", b"api:default:gcra:{\xff}"), None);
    }
}
