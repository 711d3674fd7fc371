//! The scratch memory: JavaScript writes the texts and numbers of a call to it, and reads the
//! response from it. One is enough, because there is one thread.

use std::cell::RefCell;

use wasm_bindgen::prelude::wasm_bindgen;

use super::response::{FailureCode, length_of};
use crate::algorithm::{MAX_LIMITS, SCHEDULED_RESERVATION_LENGTH};
use crate::key::{Key, MAX_KEY_BYTES};
use crate::policy::policy_set::MAX_POLICIES;

/// The doubles of the longest response.
pub(crate) const RESPONSE: usize =
    length_of(MAX_POLICIES * MAX_LIMITS) + MAX_POLICIES * SCHEDULED_RESERVATION_LENGTH;

/// The most arguments in doubles: a settlement of 16 charges by eight policies has 554.
pub(crate) const ARGUMENTS: usize = 560;

/// The arguments and the response of one call.
pub(crate) struct Scratch {
    texts: TextBuffers,
    /// The lengths of the texts in bytes; negative for a key that the call omits.
    lengths: [i32; MAX_POLICIES],
    arguments: [f64; ARGUMENTS],
    response: [f64; RESPONSE],
}

/// Buffers for texts. The keys of a call are in the order of the limiter's key dimensions.
type TextBuffers = [[u8; MAX_KEY_BYTES]; MAX_POLICIES];

/// The keys of a call, by key dimension; `None` for a key that the call omits.
pub(crate) type ScratchKeys<'a> = [Option<Key<'a>>; MAX_POLICIES];

thread_local! {
    static SCRATCH: RefCell<Scratch> = const {
        RefCell::new(Scratch {
            texts: [[0; MAX_KEY_BYTES]; MAX_POLICIES],
            lengths: [0; MAX_POLICIES],
            arguments: [0.0; ARGUMENTS],
            response: [0.0; RESPONSE],
        })
    };
}

/// Writes the reason of a refusal. Not inlined, to keep the download small.
#[inline(never)]
pub(crate) fn write_reason(reason: &str) {
    with_scratch(|scratch| scratch.write_text(&[reason]));
}

/// Calls `work` with the scratch memory.
pub(crate) fn with_scratch<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    SCRATCH.with_borrow_mut(work)
}

impl Scratch {
    /// The first key, and the response buffer.
    pub(crate) fn key(&mut self, length: usize) -> (Result<Key<'_>, FailureCode>, &mut [f64]) {
        (key_in(&self.texts[0], length), &mut self.response)
    }

    /// All keys, and the response buffer.
    pub(crate) fn keys(&mut self) -> (Result<ScratchKeys<'_>, FailureCode>, &mut [f64]) {
        let Self { texts, lengths, response, .. } = self;
        (keys_in(texts, lengths), response)
    }

    /// The first `count` arguments.
    pub(crate) fn arguments(&self, count: usize) -> &[f64] {
        &self.arguments[..count]
    }

    /// The text that JavaScript wrote to this buffer.
    pub(crate) fn text(&self, index: usize) -> &str {
        let length = usize::try_from(self.lengths[index]).unwrap_or(0);
        text_in(&self.texts[index], length).unwrap_or_default()
    }

    /// Writes bytes to a buffer, with any length.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn write_raw(&mut self, index: usize, bytes: &[u8], length: i32) {
        self.texts[index][..bytes.len()].copy_from_slice(bytes);
        self.lengths[index] = length;
    }

    #[cfg(feature = "fuzzing")]
    pub(crate) fn arguments_mut(&mut self) -> &mut [f64] {
        &mut self.arguments
    }

    /// Writes the parts of a text to the first buffer. (Formatting code would take some kilobytes.)
    pub(crate) fn write_text(&mut self, parts: &[&str]) {
        let mut length = 0;
        for byte in parts.iter().flat_map(|part| part.bytes()) {
            self.texts[0][length] = byte;
            length += 1;
        }
        self.lengths[0] = i32::try_from(length).unwrap_or(0);
    }
}

fn keys_in<'a>(texts: &'a TextBuffers, lengths: &[i32]) -> Result<ScratchKeys<'a>, FailureCode> {
    let mut keys = [None; MAX_POLICIES];
    for ((key, text), &length) in keys.iter_mut().zip(texts).zip(lengths) {
        if let Ok(length) = usize::try_from(length) {
            *key = Some(key_in(text, length)?);
        }
    }
    // A call without any key has an undefined key.
    if keys.iter().any(Option::is_some) { Ok(keys) } else { Err(FailureCode::NotAString) }
}

/// JavaScript has checked that the text is well-formed and fits its buffer.
fn key_in(text: &[u8], length: usize) -> Result<Key<'_>, FailureCode> {
    Ok(Key::new(text_in(text, length).ok_or(FailureCode::IllFormedKey)?)?)
}

fn text_in(text: &[u8], length: usize) -> Option<&str> {
    str::from_utf8(text.get(..length)?).ok()
}

/// The address of the text buffers: eight of 1024 bytes.
#[wasm_bindgen]
pub fn texts() -> *const u8 {
    with_scratch(|scratch| scratch.texts.as_flattened().as_ptr())
}

/// The address of the texts' lengths.
#[wasm_bindgen]
pub fn lengths() -> *const i32 {
    with_scratch(|scratch| scratch.lengths.as_ptr())
}

/// The address of the arguments.
#[wasm_bindgen(js_name = operands)]
pub fn arguments() -> *const f64 {
    with_scratch(|scratch| scratch.arguments.as_ptr())
}

/// The address of the response.
#[wasm_bindgen(js_name = response)]
pub fn response() -> *const f64 {
    with_scratch(|scratch| scratch.response.as_ptr())
}
