//! Where texts and numbers are laid, and answers are found: one place for all calls, as there is one thread.

use std::cell::RefCell;

use wasm_bindgen::prelude::wasm_bindgen;

use super::response::{Failure, length_of};
use crate::algorithm::{BOOKING_LENGTH, MOST_LIMITS};
use crate::key::{Key, MAX_KEY_BYTES};
use crate::policy::policy_set::MOST_POLICIES;

/// Doubles of the longest answer.
const ANSWER: usize = length_of(MOST_POLICIES * MOST_LIMITS) + MOST_POLICIES * BOOKING_LENGTH;

/// Doubles of the longest question: what was booked, with room for a few more.
const QUESTION: usize = MOST_POLICIES * BOOKING_LENGTH + 8;

/// What one call passes, and what it is answered.
pub(crate) struct Desk {
    texts: Texts,
    /// The texts' lengths in bytes; that of a key that a call leaves out is negative.
    lengths: [i32; MOST_POLICIES],
    question: [f64; QUESTION],
    answer: [f64; ANSWER],
}

/// Places for texts. A call's keys lie here in the order of the limiter's subjects.
type Texts = [[u8; MAX_KEY_BYTES]; MOST_POLICIES];

/// Keys by subject, without those that a call leaves out.
pub(crate) type Keys<'a> = [Option<Key<'a>>; MOST_POLICIES];

thread_local! {
    static DESK: RefCell<Desk> = const {
        RefCell::new(Desk {
            texts: [[0; MAX_KEY_BYTES]; MOST_POLICIES],
            lengths: [0; MOST_POLICIES],
            question: [0.0; QUESTION],
            answer: [0.0; ANSWER],
        })
    };
}

/// Uses the desk.
pub(crate) fn at_desk<T>(work: impl FnOnce(&mut Desk) -> T) -> T {
    DESK.with_borrow_mut(work)
}

impl Desk {
    /// The first key, and the answer's place.
    pub(crate) fn key(&mut self, length: usize) -> (Result<Key<'_>, Failure>, &mut [f64]) {
        (key_in(&self.texts[0], length), &mut self.answer)
    }

    /// All keys, and the answer's place.
    pub(crate) fn keys(&mut self) -> (Result<Keys<'_>, Failure>, &mut [f64]) {
        let Self { texts, lengths, answer, .. } = self;
        (keys_in(texts, lengths), answer)
    }

    /// What is asked, in so many numbers.
    pub(crate) fn question(&self, count: usize) -> &[f64] {
        &self.question[..count]
    }

    /// A text that JavaScript has laid in this place.
    pub(crate) fn text(&self, place: usize) -> &str {
        let length = usize::try_from(self.lengths[place]).unwrap_or(0);
        text_in(&self.texts[place], length).unwrap_or_default()
    }

    /// Lays parts of a text of the engine's in the first place. (To format them would take some kilobytes.)
    pub(crate) fn say(&mut self, parts: &[&str]) {
        let mut length = 0;
        for byte in parts.iter().flat_map(|part| part.bytes()) {
            self.texts[0][length] = byte;
            length += 1;
        }
        self.lengths[0] = i32::try_from(length).unwrap_or(0);
    }
}

fn keys_in<'a>(texts: &'a Texts, lengths: &[i32]) -> Result<Keys<'a>, Failure> {
    let mut keys = [None; MOST_POLICIES];
    for ((key, text), &length) in keys.iter_mut().zip(texts).zip(lengths) {
        if let Ok(length) = usize::try_from(length) {
            *key = Some(key_in(text, length)?);
        }
    }
    // A call that names none has an undefined key.
    if keys.iter().any(Option::is_some) { Ok(keys) } else { Err(Failure::NotAString) }
}

/// JavaScript has seen that the text is well-formed, and no longer than its place.
fn key_in(text: &[u8], length: usize) -> Result<Key<'_>, Failure> {
    Ok(Key::new(text_in(text, length).ok_or(Failure::IllFormedKey)?)?)
}

fn text_in(text: &[u8], length: usize) -> Option<&str> {
    str::from_utf8(text.get(..length)?).ok()
}

/// Where texts are: eight places of 1024 bytes.
#[wasm_bindgen]
pub fn texts() -> *const u8 {
    at_desk(|desk| desk.texts.as_flattened().as_ptr())
}

/// Where their lengths are.
#[wasm_bindgen]
pub fn lengths() -> *const i32 {
    at_desk(|desk| desk.lengths.as_ptr())
}

/// Where the numbers of a question are.
#[wasm_bindgen]
pub fn question() -> *const f64 {
    at_desk(|desk| desk.question.as_ptr())
}

/// Where answers are.
#[wasm_bindgen]
pub fn answer() -> *const f64 {
    at_desk(|desk| desk.answer.as_ptr())
}
