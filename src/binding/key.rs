//! Reading a key out of a JavaScript string, without an allocation.

#![allow(unsafe_code, reason = "napi's C interface")]

use std::mem::MaybeUninit;
use std::{ptr, slice};

use napi::sys;

use super::answer::Failure;
use crate::key::{Key, MAX_KEY_BYTES};

/// A buffer that no key fills: room for one more character (of up to four bytes) than the longest
/// key has, and for the NUL that Node appends. A text that was cut off is thus seen to be too long.
const BUFFER: usize = MAX_KEY_BYTES + 4 + 1;

/// A place on the stack for a key's bytes.
pub(super) struct KeyBuffer([MaybeUninit<u8>; BUFFER]);

impl KeyBuffer {
    pub(super) const fn new() -> Self {
        Self([MaybeUninit::uninit(); BUFFER])
    }

    /// Reads the key that `value` is.
    ///
    /// # Safety
    /// `env` and `value` are those of the callback that is running.
    pub(super) unsafe fn read(
        &mut self,
        env: sys::napi_env,
        value: sys::napi_value,
    ) -> Result<Key<'_>, Failure> {
        let (buffer, mut length) = (self.0.as_mut_ptr().cast(), 0);
        // SAFETY: the caller vouches for `env` and `value`; the buffer has BUFFER bytes.
        let status =
            unsafe { sys::napi_get_value_string_utf8(env, value, buffer, BUFFER, &raw mut length) };
        if status != sys::Status::napi_ok {
            return Err(Failure::NotAString);
        }
        // SAFETY: Node has written `length` bytes.
        let bytes = unsafe { slice::from_raw_parts(self.0.as_ptr().cast::<u8>(), length) };
        if bytes.is_ascii() {
            // SAFETY: ASCII is UTF-8.
            return Ok(Key::new(unsafe { str::from_utf8_unchecked(bytes) })?);
        }
        let text = str::from_utf8(bytes).map_err(|_| Failure::IllFormedKey)?;
        let key = Key::new(text)?;
        // Node writes U+FFFD for a lone surrogate, but the key may also hold that character itself.
        // SAFETY: the caller vouches for `env` and `value`.
        if text.contains('\u{fffd}') && !unsafe { is_well_formed(env, value) } {
            return Err(Failure::IllFormedKey);
        }
        Ok(key)
    }
}

/// Whether a string has no lone surrogate.
///
/// # Safety
/// `env` and `value` are those of the callback that is running.
unsafe fn is_well_formed(env: sys::napi_env, value: sys::napi_value) -> bool {
    let mut units = [0_u16; BUFFER];
    let mut length = 0;
    // SAFETY: the caller vouches for `env` and `value`; the buffer has BUFFER units, more than a
    // text of at most MAX_KEY_BYTES bytes needs.
    let status = unsafe {
        sys::napi_get_value_string_utf16(env, value, units.as_mut_ptr(), BUFFER, &raw mut length)
    };
    status == sys::Status::napi_ok
        && char::decode_utf16(units[..length].iter().copied()).all(|unit| unit.is_ok())
}

/// Reads a number; what is none reads as NaN.
///
/// # Safety
/// `env` and `value` are those of the callback that is running.
pub(super) unsafe fn number(env: sys::napi_env, value: sys::napi_value) -> f64 {
    let mut number = f64::NAN;
    // SAFETY: the caller vouches for `env` and `value`.
    let status = unsafe { sys::napi_get_value_double(env, value, &raw mut number) };
    if status == sys::Status::napi_ok { number } else { f64::NAN }
}

/// The element of an array, or null.
///
/// # Safety
/// `env` and `array` are those of the callback that is running.
pub(super) unsafe fn element(
    env: sys::napi_env,
    array: sys::napi_value,
    index: u32,
) -> sys::napi_value {
    let mut value = ptr::null_mut();
    // SAFETY: the caller vouches for `env` and `array`.
    let status = unsafe { sys::napi_get_element(env, array, index, &raw mut value) };
    if status == sys::Status::napi_ok { value } else { ptr::null_mut() }
}
