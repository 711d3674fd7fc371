//! Typed arrays in JavaScript's own memory.

#![allow(unsafe_code, reason = "napi's C interface")]

use std::ptr;

use napi::bindgen_prelude::{Result, ToNapiValue};
use napi::{check_status, sys};

/// Numbers that JavaScript receives as a typed array.
///
/// They are copied into its memory. Node does not free an array in Rust's memory if it terminates
/// the worker that has received it.
#[derive(Debug)]
pub struct CopiedArray<T>(pub(crate) Vec<T>);

/// A type of numbers, and that of its typed array.
pub(crate) trait Element: Copy {
    const ARRAY_TYPE: sys::napi_typedarray_type;
}

impl Element for f64 {
    const ARRAY_TYPE: sys::napi_typedarray_type = sys::TypedarrayType::float64_array;
}

impl Element for u32 {
    const ARRAY_TYPE: sys::napi_typedarray_type = sys::TypedarrayType::uint32_array;
}

impl<T: Element> ToNapiValue for CopiedArray<T> {
    unsafe fn to_napi_value(env: sys::napi_env, Self(numbers): Self) -> Result<sys::napi_value> {
        let (mut data, mut buffer, mut array) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        // SAFETY: `env` is that of the running callback. The new buffer is as long as the numbers.
        unsafe {
            let bytes = size_of_val(numbers.as_slice());
            check_status!(sys::napi_create_arraybuffer(
                env,
                bytes,
                &raw mut data,
                &raw mut buffer
            ))?;
            if bytes > 0 {
                ptr::copy_nonoverlapping(numbers.as_ptr(), data.cast(), numbers.len());
            }
            check_status!(sys::napi_create_typedarray(
                env,
                T::ARRAY_TYPE,
                numbers.len(),
                buffer,
                0,
                &raw mut array
            ))?;
        }
        Ok(array)
    }
}
