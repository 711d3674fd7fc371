//! Replies to script calls, under any policies, calls and versions of the policies.

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use tollgate::key::Key;
use tollgate::redis::{CallBatch, CallFailure, Flush, KeyNames, ReplyValue, text};

use crate::calls;
use crate::policies::SetNumbers;

/// Decodes the bytes as policies, calls and replies.
pub fn run(data: &[u8]) {
    // An input that is too short is no case.
    let _case = case(&mut Unstructured::new(data));
}

fn case(input: &mut Unstructured<'_>) -> Result<()> {
    let is_text = input.ratio(1, 4)?;
    let (mut flush, mut calls) = (Flush::default(), 0);
    for limiter in ["a", "b"].into_iter().take(input.int_in_range(1..=2)?) {
        let Some(own) = SetNumbers::any(input)? else { return Ok(()) };
        let names = KeyNames::new(limiter, &own.set);
        let mut batch = CallBatch::new();
        for _ in 0..input.int_in_range(1..=4)? {
            let operation = calls::any_operation(input, &own)?;
            let key = ["x", "y"][input.choose_index(2)?];
            let keys = vec![Key::new(key).ok(); own.set.key_dimensions()];
            batch.push_operation(&names, &keys, None, operation);
            calls += 1;
        }
        flush.push(Arc::new(own.set), batch);
    }
    let mut flush = flush.deduplicate();
    let mut results = Vec::new();
    for _attempt in 0..3 {
        for _call in flush.script_calls() {
            let size: usize = input.int_in_range(0..=200)?;
            let bytes = input.bytes(size.min(input.len()))?;
            results.push(Ok(if is_text { text_values(bytes) } else { values(bytes)? }));
        }
        if flush.retry_stale(&results).is_none() {
            break;
        }
    }
    let mut completed = 0;
    flush.complete(&results, |result| {
        completed += 1;
        if let Err(CallFailure::Script(failure)) = result {
            panic!("a reply cannot fail the script: {failure:?}");
        }
    });
    assert_eq!(completed, calls, "each call completes once");
    Ok(())
}

/// The reply of a client that carries only text.
fn text_values(bytes: &[u8]) -> Vec<ReplyValue> {
    text::values_of(&text::text_of(bytes)).unwrap_or_default()
}

/// A reply: the time and a few strings, mostly the four that the script sends.
fn values(bytes: &[u8]) -> Result<Vec<ReplyValue>> {
    let input = &mut Unstructured::new(bytes);
    let mut values = Vec::new();
    for index in 0..input.int_in_range(3..=6)? {
        values.push(if index == 0 || input.ratio(1, 32)? {
            ReplyValue::Number(input.arbitrary()?)
        } else {
            let size = input.int_in_range(0..=12)? * if index == 2 { 1 } else { 8 };
            let bytes = input.bytes(size.min(input.len()))?.to_vec();
            // Doubles of small numbers are rare among random bytes.
            ReplyValue::Bytes(if index != 2 && input.ratio(3, 4)? {
                doubles(&bytes)
            } else {
                bytes
            })
        });
    }
    Ok(values)
}

/// Whole numbers as the script packs them.
fn doubles(bytes: &[u8]) -> Vec<u8> {
    let number = |chunk: &[u8]| {
        let whole = chunk.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        (whole >> [56, 48, 40, 20, 11, 0, 32, 56][chunk[0] as usize % 8].min(60)) as f64
    };
    bytes.chunks_exact(8).flat_map(|chunk| number(chunk).to_be_bytes()).collect()
}
