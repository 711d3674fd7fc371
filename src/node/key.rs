//! Reads a key from a JavaScript string, without an allocation.

#![allow(unsafe_code, reason = "napi's C interface")]

use std::mem::MaybeUninit;
use std::{ptr, slice};

use napi::sys;

use super::response::FailureCode;
use crate::key::{Key, MAX_KEY_BYTES};

/// The UTF-16 units to request: one more than the longest key has, and the NUL that Node appends.
/// So a longer string is recognized as too long.
const UNITS: usize = MAX_KEY_BYTES + 2;

/// The bytes of the longest key, and of the character that makes it too long.
const BYTES: usize = MAX_KEY_BYTES + 8;

/// A buffer on the stack for a key's bytes.
pub(crate) struct KeyBuffer([MaybeUninit<u8>; BYTES]);

impl KeyBuffer {
    pub(crate) const fn new() -> Self {
        Self([MaybeUninit::uninit(); BYTES])
    }

    /// Reads a key from `value`.
    ///
    /// It reads UTF-16, which V8 copies as a block: encoding UTF-8 character by character takes
    /// twice as long. And it recognizes a lone surrogate.
    ///
    /// # Safety
    /// `env` and `value` are those of the running callback.
    #[inline]
    pub(crate) unsafe fn read(
        &mut self,
        env: sys::napi_env,
        value: sys::napi_value,
    ) -> Result<Key<'_>, FailureCode> {
        let mut units = [const { MaybeUninit::<u16>::uninit() }; UNITS];
        let (buffer, mut length) = (units.as_mut_ptr().cast(), 0);
        // SAFETY: the caller guarantees `env` and `value`; the buffer has `UNITS` units.
        let status =
            unsafe { sys::napi_get_value_string_utf16(env, value, buffer, UNITS, &raw mut length) };
        if status != sys::Status::napi_ok {
            return Err(FailureCode::NotAString);
        }
        // SAFETY: Node has written `length` units.
        self.key_of(unsafe { slice::from_raw_parts(units.as_ptr().cast::<u16>(), length) })
    }

    /// The key of UTF-16 units.
    #[inline]
    fn key_of(&mut self, units: &[u16]) -> Result<Key<'_>, FailureCode> {
        if units.len() > MAX_KEY_BYTES {
            return Err(FailureCode::KeyTooLong);
        }
        let length = if self.narrow(units) { units.len() } else { self.encode(units)? };
        // SAFETY: `length` bytes were written. They are ASCII, or UTF-8 of whole characters.
        let text = unsafe {
            str::from_utf8_unchecked(slice::from_raw_parts(self.0.as_ptr().cast(), length))
        };
        Ok(Key::new(text)?)
    }

    /// Writes a byte for each unit, and returns whether all units are ASCII. If not, the bytes are
    /// meaningless.
    ///
    /// It writes eight bytes at a time, as the hash function reads them: a processor that has just
    /// written single bytes must wait before it reads them as one word.
    #[inline]
    fn narrow(&mut self, units: &[u16]) -> bool {
        let mut seen = 0;
        for (place, units) in self.0.as_chunks_mut().0.iter_mut().zip(units.chunks(8)) {
            let mut word = 0;
            for &unit in units.iter().rev() {
                word = word << 8 | u64::from(unit);
                seen |= unit;
            }
            *place = word.to_le_bytes().map(MaybeUninit::new);
        }
        seen < 0x80
    }

    /// Writes the UTF-8 of units that are not all ASCII, and returns its length.
    #[cold]
    fn encode(&mut self, units: &[u16]) -> Result<usize, FailureCode> {
        let (mut length, mut is_well_formed) = (0, true);
        for character in char::decode_utf16(units.iter().copied()) {
            is_well_formed &= character.is_ok();
            let mut utf8 = [0; 4];
            let utf8 = character.unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut utf8);
            for (place, &byte) in self.0[length..].iter_mut().zip(utf8.as_bytes()) {
                place.write(byte);
            }
            length += utf8.len();
            if length > MAX_KEY_BYTES {
                return Err(FailureCode::KeyTooLong);
            }
        }
        if is_well_formed { Ok(length) } else { Err(FailureCode::IllFormedKey) }
    }
}

/// Reads a number; any other value becomes NaN.
///
/// # Safety
/// `env` and `value` are those of the running callback.
pub(crate) unsafe fn number(env: sys::napi_env, value: sys::napi_value) -> f64 {
    let mut number = f64::NAN;
    // SAFETY: the caller guarantees `env` and `value`.
    let status = unsafe { sys::napi_get_value_double(env, value, &raw mut number) };
    if status == sys::Status::napi_ok { number } else { f64::NAN }
}

/// The element of an array, or null.
///
/// # Safety
/// `env` and `array` are those of the running callback.
pub(crate) unsafe fn element(
    env: sys::napi_env,
    array: sys::napi_value,
    index: u32,
) -> sys::napi_value {
    let mut value = ptr::null_mut();
    // SAFETY: the caller guarantees `env` and `array`.
    let status = unsafe { sys::napi_get_element(env, array, index, &raw mut value) };
    if status == sys::Status::napi_ok { value } else { ptr::null_mut() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, FailureCode> {
        let units: Vec<_> = text.encode_utf16().collect();
        KeyBuffer::new().key_of(&units).map(|key| key.as_str().to_owned())
    }

    #[test]
    fn every_text_is_read_as_it_is() {
        for length in 1..=64 {
            let ascii: String = ('!'..='~').cycle().take(length).collect();
            assert_eq!(read(&ascii), Ok(ascii.clone()));
            // Each of these would be an ASCII character if the upper part of its unit were dropped.
            for last in ["\u{80}", "é", "Ł", "\u{ffff}", "👩", "\u{fffd}\u{7f}"] {
                let text = ascii.clone() + last;
                assert_eq!(read(&text), Ok(text.clone()));
                let text = last.to_owned() + &ascii;
                assert_eq!(read(&text), Ok(text.clone()));
            }
        }
    }

    #[test]
    fn bytes_are_counted_and_not_units() {
        for (character, bytes) in [("x", 1), ("é", 2), ("€", 3), ("👩", 4)] {
            let most = character.repeat(MAX_KEY_BYTES / bytes);
            assert_eq!(read(&most), Ok(most.clone()));
            assert_eq!(read(&(most + "xx")), Err(FailureCode::KeyTooLong), "{character}");
        }
        assert_eq!(read(""), Err(FailureCode::EmptyKey));
    }

    #[test]
    fn a_lone_surrogate_is_no_character_wherever_it_stands() {
        let [high, low, x] = [0xd800, 0xdc00, u16::from(b'x')];
        for units in
            [&[high][..], &[low], &[low, high], &[x, high], &[high, x], &[x, high, high, low]]
        {
            let failed = KeyBuffer::new().key_of(units).unwrap_err();
            assert_eq!(failed, FailureCode::IllFormedKey, "{units:?}");
        }
        let too_long = [high; MAX_KEY_BYTES / 3 + 1];
        assert_eq!(KeyBuffer::new().key_of(&too_long).unwrap_err(), FailureCode::KeyTooLong);
    }
}
