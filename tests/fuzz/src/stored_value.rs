//! Stored values of any bytes: what the command line shows of them, and what the scripts do with
//! them.

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use tollgate::key::Key;
use tollgate::redis::{
    CallBatch, CallError, CallFailure, Flush, KeyNames, POLICY_KINDS, RawValue, Script,
};
use tollgate::time::{MAX_SAFE, MAX_TIME};

use crate::calls;
use crate::policies::{SetNumbers, length};
use crate::server::Server;

const NOW: u64 = 1_790_000_000_000_000;

/// Decodes the bytes as a value, with and without a script.
pub fn run(data: &[u8]) {
    // An input that is too short is no case.
    let _case = case(&mut Unstructured::new(data));
}

fn case(input: &mut Unstructured<'_>) -> Result<()> {
    // A microsecond later, the end of the longest window would be 2^53, which the reply refuses.
    let now = [NOW, 0, MAX_TIME - 1][input.choose_index(3)?];
    let Some(set) = SetNumbers::any(input)? else { return Ok(()) };
    let operations = [calls::any_operation(input, &set)?, calls::any_operation(input, &set)?];
    let mut items = Vec::new();
    for _ in 0..input.int_in_range(1..=6)? {
        items.push(item(input, now)?);
    }
    for (_, layout) in POLICY_KINDS {
        for value in [RawValue::Text(items.concat()), RawValue::Items(items.clone())] {
            let Some(summary) = value.summary(layout, now) else { continue };
            let numbers =
                [summary.used, summary.metadata.blocked_until, summary.metadata.override_until];
            assert!(numbers.iter().all(|number| *number <= MAX_SAFE), "{summary:?}");
        }
    }
    run_scripts(&set, &operations, &items, input.arbitrary()?, now.max(NOW));
    Ok(())
}

/// A part of a value: bytes, or numbers as the scripts write them.
fn item(input: &mut Unstructured<'_>, now: u64) -> Result<Vec<u8>> {
    let near = |input: &mut Unstructured<'_>| -> Result<u64> {
        Ok(match input.int_in_range(0..=7)? {
            0..=2 => input.int_in_range(0..=20)?,
            3 => now.saturating_add(length(input)?).min(MAX_SAFE),
            4 => now.saturating_sub(length(input)?),
            5 => now / 1_000 + input.int_in_range(0..=2_000)?,
            6 => length(input)?,
            _ => input.int_in_range(0..=MAX_SAFE)?,
        })
    };
    Ok(match input.int_in_range(0..=4)? {
        0 => {
            let size = input.int_in_range(0..=70)?;
            input.bytes(size.min(input.len()))?.to_vec()
        }
        1 => near(input)?.to_string().into_bytes(),
        2 => [&b"settles"[..], b"l", b"b", b"X", b"state"][input.choose_index(5)?].to_vec(),
        3 => metadata(
            &[near(input)?, near(input)?, 1, near(input)?, 1, near(input)?, near(input)?],
            &[],
        ),
        _ => {
            let mut doubles = Vec::new();
            for _ in 0..input.int_in_range(1..=6)? {
                doubles.extend((near(input)? as f64).to_be_bytes());
            }
            doubles
        }
    })
}

/// Metadata as `lua/executor/key_metadata.lua` encodes it.
fn metadata(numbers: &[u64], own: &[u64]) -> Vec<u8> {
    let doubles = |numbers: &[u64]| {
        numbers.iter().flat_map(|number| (*number as f64).to_be_bytes()).collect::<Vec<_>>()
    };
    let mut text = [&b"X"[..], &doubles(numbers), &[own.len() as u8], &doubles(own)].concat();
    let size = u16::try_from(text.len() + 3).expect("few numbers");
    text.extend(size.to_be_bytes());
    text.push(b'X');
    text
}

/// Runs operations on a key with this value. Each call has a decision, or an error that says that
/// nothing was charged.
fn run_scripts(
    set: &SetNumbers,
    operations: &[tollgate::policy::operation::Operation],
    items: &[Vec<u8>],
    is_lua_type: u8,
    now: u64,
) {
    let names = KeyNames::new("api", &set.set);
    let keys = vec![Key::new("a").ok(); set.set.key_dimensions()];
    let mut server = Server::default();
    let mut probe = CallBatch::new();
    probe.push_operation(&names, &keys, None, operations[0].clone());
    let stored = probe.keys();
    for name in stored.iter() {
        let name = name.to_vec();
        let (command, mut arguments) = match is_lua_type % 4 {
            0 => ("SET", vec![name, items.concat()]),
            1 => ("RPUSH", [&[name][..], items].concat()),
            2 => {
                let fields = items.iter().cycle().take(items.len().next_multiple_of(2));
                ("HSET", [vec![name], fields.cloned().collect()].concat())
            }
            _ => {
                let scored = items.iter().enumerate().flat_map(|(index, item)| {
                    [(now / 1_000 * 1_000 + index as u64).to_string().into_bytes(), item.clone()]
                });
                ("ZADD", [vec![name], scored.collect()].concat())
            }
        };
        arguments.retain(|word| !word.is_empty() || command == "SET");
        server.keys.execute(command, &arguments, now / 1_000);
    }
    for operation in operations {
        let is_peek = matches!(operation, tollgate::policy::operation::Operation::Peek { .. });
        let mut flush = if is_peek { Flush::peeking() } else { Flush::default() };
        let mut batch = CallBatch::new();
        batch.push_operation(&names, &keys, None, operation.clone());
        flush.push(Arc::new(set.set.clone()), batch);
        flush.set_time(now);
        let results: Vec<_> = flush
            .script_calls()
            .iter()
            .map(|call| server.run(call, Script::limiter().source(), &[], now))
            .collect();
        flush.complete(&results, |result| match result {
            Ok(_) | Err(CallFailure::Call(CallError::Unreadable | CallError::Unwritten(_))) => {}
            other => panic!("{operation:?} under {:?}: {other:?} with {items:?}", set.policies),
        });
    }
}
