//! The names of keys in Redis.

use std::num::NonZeroU16;

use super::slot::crc16;
use crate::key::Key;
use crate::policy::policy_set::Policies;

/// Names a limiter's keys.
///
/// A name carries the prefix, the policy's name and the tag of its algorithm and layout, never its
/// numbers; then the user's key as the hash tag, so that the keys of one user fall on one slot:
/// `api:default:gcra:{user:42}`. Where the call has a hash tag of its own the user's key follows on
/// it: `api:default:gcra:{tenant:7}user:42`.
///
/// [With so many tags](Self::with_tags) it follows on one of those instead:
/// `api:default:gcra:{%~17}user:42`. No call's own tag is written so, because its `%` is escaped.
#[derive(Debug, Clone)]
pub struct Names {
    heads: Box<[Head]>,
    /// How the names of the keys that keep holds begin. No policy's name can begin so.
    holds: Box<str>,
    subjects: usize,
    tags: Option<NonZeroU16>,
}

/// How the names of one policy's keys begin.
#[derive(Debug, Clone)]
struct Head {
    text: Box<str>,
    subject: usize,
}

impl Names {
    /// The names of the keys of a limiter's policies.
    #[must_use]
    pub fn new(prefix: &str, policies: &Policies) -> Self {
        let head = |named: &crate::policy::policy_set::NamedPolicy| Head {
            text: format!("{prefix}:{}:{}:{{", named.name, named.policy.tag()).into(),
            subject: named.subject,
        };
        let heads = policies.named().iter().map(head).collect();
        let holds = holds_head(prefix).into();
        Self { heads, holds, subjects: policies.subjects(), tags: None }
    }

    /// The same names, but that keys without a call's own tag share so many hash tags, so that calls on
    /// many keys of a Redis Cluster fall on few slots, and go together.
    ///
    /// A key's tag is the CRC16 (XMODEM) of its UTF-8, modulo `tags`: it is the same in all processes
    /// and versions. With another number of tags a key has another name, and begins anew.
    #[must_use]
    pub fn with_tags(self, tags: Option<NonZeroU16>) -> Self {
        Self { tags, ..self }
    }

    /// The kinds of keys that a call may name.
    pub(crate) fn subjects(&self) -> usize {
        self.subjects
    }

    /// By policy: the number of the subject that it counts by.
    pub(crate) fn subjects_of_policies(&self) -> impl Iterator<Item = usize> {
        self.heads.iter().map(|head| head.subject)
    }

    /// Appends the name of a policy's key, with the call's own hash tag if it has one.
    pub(crate) fn write(&self, policy: usize, key: Key<'_>, tag: Option<&str>, name: &mut Vec<u8>) {
        self.push(&self.heads[policy].text, key, tag, name);
    }

    /// Appends the name of the key that keeps the holds of a key of the first subject.
    pub(crate) fn write_holds(&self, key: Key<'_>, tag: Option<&str>, name: &mut Vec<u8>) {
        self.push(&self.holds, key, tag, name);
    }

    /// The name of a key under the first policy: UTF-8, as the key is.
    #[must_use]
    pub fn of(&self, key: Key<'_>) -> Vec<u8> {
        let mut name = Vec::new();
        self.write(0, key, None, &mut name);
        name
    }

    /// The name of the key that keeps a key's holds.
    #[must_use]
    pub fn of_holds(&self, key: Key<'_>) -> Vec<u8> {
        let mut name = Vec::new();
        self.write_holds(key, None, &mut name);
        name
    }

    fn push(&self, head: &str, key: Key<'_>, tag: Option<&str>, name: &mut Vec<u8>) {
        push_name(head, key.as_str(), tag, self.tags, name);
    }
}

/// How the names of the keys that keep holds begin.
pub(crate) fn holds_head(prefix: &str) -> String {
    format!("{prefix}:~holds:{{")
}

/// Appends a name: its head, which ends where the hash tag begins, and the user's key.
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
    // It does not end with a brace, as every name without a tag does.
    name.push(b'}');
    push_escaped(key, name);
}

/// Appends a text. A hash tag ends at the first `}`, so braces are escaped, and `%` with them.
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

    fn names() -> Names {
        Names::new("api", &Policies::one(gcra()))
    }

    fn name(key: &str) -> String {
        String::from_utf8(names().of(Key::new(key).unwrap())).unwrap()
    }

    #[test]
    fn the_user_key_is_the_hash_tag() {
        assert_eq!(name("user:42"), "api:default:gcra:{user:42}");
    }

    #[test]
    fn holds_have_a_name_that_no_policys_key_has() {
        let key = Key::new("user{42}").unwrap();
        assert_eq!(names().of_holds(key), b"api:~holds:{user%7B42%7D}");
        let mut name = Vec::new();
        names().write_holds(key, Some("tenant:7"), &mut name);
        assert_eq!(name, b"api:~holds:{tenant:7}user%7B42%7D");
    }

    #[test]
    fn a_tag_of_the_calls_own_takes_its_place() {
        let mut name = Vec::new();
        names().write(0, Key::new("user:42").unwrap(), Some("tenant{7}"), &mut name);
        assert_eq!(name, b"api:default:gcra:{tenant%7B7%7D}user:42");
    }

    /// Counts in Redis hang on it: it is never to change.
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
        let holds =
            names().with_tags(NonZeroU16::new(100)).of_holds(Key::new("123456789").unwrap());
        assert_eq!(holds, b"api:~holds:{%~39}123456789");
    }

    #[test]
    fn names_never_meet() {
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
    fn each_policy_has_a_name_for_the_key_of_its_subject() {
        let named =
            |name: &str, subject| NamedPolicy { name: name.into(), policy: gcra(), subject };
        let policies =
            Policies::several(vec![named("ip", 0), named("user", 1), named("slow", 0)]).unwrap();
        let names = Names::new("api", &policies);
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
        assert_eq!(names.subjects_of_policies().collect::<Vec<_>>(), [0, 1, 0]);
    }
}
