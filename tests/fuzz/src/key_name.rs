//! The names of keys in Redis: parsed from bytes, and written from keys.

use std::num::NonZeroU16;

use arbitrary::{Result, Unstructured};
use tollgate::algorithm::Gcra;
use tollgate::key::Key;
use tollgate::policy::Policy;
use tollgate::policy::policy_set::PolicySet;
use tollgate::redis::{CallBatch, KeyNames, StoredName, slot_of};

/// Parses the bytes as a name, and writes names from them.
pub fn run(data: &[u8]) {
    parsed(data);
    // An input that is too short is no case.
    let _case = written(&mut Unstructured::new(data));
}

/// A name that is parsed is the name that its parts write.
fn parsed(name: &[u8]) {
    let Some((prefix, policy, tag)) = StoredName::owner(name) else { return };
    assert_eq!(StoredName::read(&format!("{prefix}x"), name), None);
    let Some(stored) = StoredName::read(prefix, name) else { return };
    assert_eq!((&*stored.policy, &*stored.tag), (policy, tag));
    assert!(!stored.key.is_empty());
    if !stored.shares_tag {
        assert_eq!(
            String::from_utf8_lossy(&stored.write(prefix, None)),
            String::from_utf8_lossy(name)
        );
    }
    assert_eq!(slot_of(&stored.write(prefix, None)), slot_of(&stored.write_holds(prefix, None)));
}

/// A name that is written is parsed to its parts.
fn written(input: &mut Unstructured<'_>) -> Result<()> {
    let tags = NonZeroU16::new(input.int_in_range(0..=3)?);
    let own_tag: Option<&str> = input.arbitrary()?;
    let (prefix, key): (&str, &str) = input.arbitrary()?;
    let Ok(key) = Key::new(key) else { return Ok(()) };
    // The API refuses braces and empty tags.
    if prefix.is_empty() || prefix.contains(['{', '}']) || own_tag == Some("") {
        return Ok(());
    }
    let policies = PolicySet::single(Policy::Gcra(Gcra::new(1, 1, 1).expect("small numbers")));
    let names = KeyNames::new(prefix, &policies).with_tags(tags);
    let mut batch = CallBatch::new();
    let take = tollgate::policy::operation::Operation::Take { cost: 1.into() };
    batch.push_operation(&names, &[Some(key)], own_tag, take);
    let keys = batch.keys();
    let name = keys.iter().next().expect("the key of the call");
    let stored = StoredName::read(prefix, name).expect("a written name is parsed");
    assert_eq!((&*stored.policy, &*stored.tag, &*stored.key), ("default", "gcra", key.as_str()));
    assert_eq!(stored.own_tag.as_deref(), own_tag);
    assert_eq!(stored.shares_tag, own_tag.is_none() && tags.is_some());
    assert_eq!(stored.write(prefix, tags), name);
    Ok(())
}
