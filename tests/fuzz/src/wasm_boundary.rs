//! The functions that JavaScript calls, with bytes and numbers that JavaScript may pass: any bytes
//! as texts, any doubles as numbers, any codes, and replies of any client.
//!
//! JavaScript passes as many arguments as the scratch memory has, and policies that it has checked
//! with `checkPolicy`. It never passes an index outside the buffers.

use arbitrary::{Result, Unstructured};
use tollgate::fuzzing::wasm::{
    MAX_POLICIES, WasmFlush, WasmMemoryLimiter, WasmMemoryStore, WasmRedisLimiter, WasmRedisStore,
    add_override, add_policy, check_policy, response, set_ban, start, write_arguments, write_text,
};

use crate::policies::{SetNumbers, length, units, zone_name};

/// Decodes the bytes as calls of the exported functions.
pub fn run(data: &[u8]) {
    // An input that is too short is no case.
    let _case = case(&mut Unstructured::new(data));
}

fn case(input: &mut Unstructured<'_>) -> Result<()> {
    for _ in 0..input.int_in_range(0..=2)? {
        let (kind, zone): (u32, u32) = (input.int_in_range(0..=14)?, input.arbitrary()?);
        texts(input)?;
        let count = arguments(input)?;
        let _is_valid = check_policy(kind, count, zone);
    }
    let Some(set) = SetNumbers::any(input)? else { return Ok(()) };
    if input.arbitrary()? { memory(input, &set) } else { redis(input, &set) }
}

/// Opens limiters with policies that JavaScript has checked.
fn build(set: &SetNumbers) {
    start();
    for ((own, name), dimension) in set.policies.iter().zip(&set.names).zip(&set.dimensions) {
        write(0, name);
        write(1, zone_name(own.zone));
        let numbers: Vec<_> = own.numbers.iter().map(|number| *number as f64).collect();
        add_policy(own.kind, write_arguments(&numbers), own.zone, *dimension);
    }
    if let Some((policies, numbers)) = &set.ban {
        let numbers: Vec<_> = numbers.iter().map(|number| *number as f64).collect();
        set_ban(*policies, write_arguments(&numbers));
    }
    write(0, "api");
}

fn write(slot: usize, text: &str) {
    write_text(slot, text.as_bytes(), i32::try_from(text.len()).expect("a short text"));
}

/// Writes texts of any bytes with any lengths.
fn texts(input: &mut Unstructured<'_>) -> Result<()> {
    for slot in 0..input.int_in_range(0..=MAX_POLICIES)? {
        let size = if input.ratio(1, 16)? { 1_024 } else { input.int_in_range(0..=24)? };
        let bytes = input.bytes(size.min(input.len()))?;
        let length = if input.ratio(1, 16)? { input.arbitrary()? } else { bytes.len() as i32 };
        write_text(slot, bytes, length);
    }
    Ok(())
}

/// The code of an operation, or of none; for some the code of units by policy.
fn code(input: &mut Unstructured<'_>) -> Result<u8> {
    let metered = if input.ratio(1, 3)? { 64 } else { 0 };
    Ok(metered + input.int_in_range(0..=24)?)
}

/// Writes any doubles, and returns their number.
fn arguments(input: &mut Unstructured<'_>) -> Result<usize> {
    let mut numbers = Vec::new();
    let most = if input.ratio(1, 16)? { 192 } else { 24 };
    for _ in 0..input.int_in_range(0..=most)? {
        numbers.push(number(input)?);
    }
    Ok(write_arguments(&numbers))
}

fn number(input: &mut Unstructured<'_>) -> Result<f64> {
    Ok(match input.int_in_range(0..=7)? {
        0..=2 => units(input)? as f64,
        3..=4 => length(input)? as f64,
        5 => [0.0, -0.0, -1.0, 0.5, f64::NAN, f64::INFINITY, f64::MAX, 1e308]
            [input.choose_index(8)?],
        6 => 1.79e15 + input.int_in_range(0..=1_000_000_000_u32)? as f64,
        _ => input.arbitrary()?,
    })
}

fn memory(input: &mut Unstructured<'_>, set: &SetNumbers) -> Result<()> {
    let store = WasmMemoryStore::new(number(input)?);
    build(set);
    let Some(limiter) = store.open(set.is_single) else { return Ok(()) };
    let mut limiters: Vec<WasmMemoryLimiter> = vec![limiter];
    while !input.is_empty() {
        let limiter = &limiters[input.choose_index(limiters.len())?];
        let epoch_ms = number(input)?;
        texts(input)?;
        match input.int_in_range(0..=7)? {
            0 => {
                if let Some(other) = set.renumbered(input)? {
                    build(&other);
                    let index = input.int_in_range(0..=3)?;
                    limiters.extend(limiter.open_variant(
                        other.is_single,
                        index,
                        input.arbitrary()?,
                    ));
                }
            }
            1 => limiter.take(input.int_in_range(0..=1_100)?, number(input)?, epoch_ms),
            2 => limiter.take(input.int_in_range(1..=3)?, 1.0, epoch_ms),
            _ => {
                overrides(input)?;
                let count = arguments(input)?;
                limiter.execute(code(input)?, count, epoch_ms);
            }
        }
        assert!(response().iter().all(|number| number.is_finite()), "{:?}", response());
    }
    let _keys = store.held_keys();
    Ok(())
}

/// Adds policies for an override, valid or not.
fn overrides(input: &mut Unstructured<'_>) -> Result<()> {
    if input.ratio(1, 4)? {
        start();
        for _ in 0..input.int_in_range(0..=3)? {
            let count = arguments(input)?;
            add_override(input.int_in_range(0..=14)?, count, input.arbitrary()?);
        }
    }
    Ok(())
}

fn redis(input: &mut Unstructured<'_>, set: &SetNumbers) -> Result<()> {
    let store = WasmRedisStore::new();
    build(set);
    let Some(limiter) = store.open(set.is_single) else { return Ok(()) };
    let mut limiters: Vec<WasmRedisLimiter> = vec![limiter];
    if let Some(other) = set.renumbered(input)? {
        build(&other);
        limiters.extend(limiters[0].open_variant(other.is_single, 1, false));
    }
    for _ in 0..input.int_in_range(1..=6)? {
        let limiter = &limiters[input.choose_index(limiters.len())?];
        texts(input)?;
        if input.ratio(1, 3)? && set.set.key_dimensions() == 1 {
            limiter.enqueue_take(input.int_in_range(0..=24)?, number(input)?);
        } else {
            overrides(input)?;
            let tag: Option<&str> =
                if input.ratio(1, 4)? { Some(input.arbitrary()?) } else { None };
            let count = arguments(input)?;
            limiter.enqueue(tag.map(str::to_owned), code(input)?, count);
        }
    }
    let mut flush = WasmFlush::new(input.arbitrary()?);
    flush.push(&limiters[0]);
    flush.start(number(input)?, input.arbitrary()?);
    for _ in 0..input.int_in_range(1..=8)? {
        for index in flush.unanswered() {
            let index = index as usize;
            let _sent = (flush.sends_source(index), flush.keys(index), flush.arguments(index));
            let text: &str = input.arbitrary()?;
            match input.int_in_range(0..=4)? {
                0 => flush.on_reply(index, text),
                1 => flush.on_reply(index, &format!("~1790000000000000:8:0:0;{text:.8}")),
                2 => flush.on_error(
                    index,
                    text,
                    ["", "ECONNREFUSED", "EPIPE"][input.choose_index(3)?],
                ),
                3 => {
                    let codes = [
                        "NOSCRIPT",
                        "BUSY",
                        "TRYAGAIN",
                        "MOVED",
                        "CROSSSLOT",
                        "ERR",
                        "ReplyError: LOADING",
                    ];
                    let code = codes[input.choose_index(codes.len())?];
                    flush.on_error(index, &format!("{code} {text}"), "");
                }
                _ => flush.on_timeout(index),
            }
        }
        if flush.is_answered() && !flush.retry_cross_slot() && flush.retry_stale() < 0.0 {
            break;
        }
    }
    flush.fail_unsent();
    if flush.is_answered() && flush.retry_stale() < 0.0 {
        let doubles = flush.complete();
        assert!(doubles.iter().all(|number| number.is_finite()), "{doubles:?}");
        let _texts = flush.texts();
    }
    Ok(())
}
