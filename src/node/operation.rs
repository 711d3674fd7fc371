//! Operations as JavaScript asks for them, and how they are performed on the embedded store.

#![allow(unsafe_code, reason = "napi's C interface")]

use std::ptr::{self, NonNull};
use std::sync::Arc;

use napi::bindgen_prelude::{Array, ClassInstance, Env, Float64Array, JsValue, Result, Unknown};
use napi::sys;

use super::hot::{self, Answered, TimeOf};
use super::key::{KeyBuffer, element, number};
use super::policy::Policy;
use super::response::Failure;
use super::whole;
use crate::key::Key;
use crate::memory::Ledger;
use crate::policy::operation::Operation;
use crate::policy::policy_set::MOST_POLICIES;

#[cfg(feature = "redis")]
pub(crate) use crate::abi::operation::reserve;
pub(crate) use crate::abi::operation::{operation, refund, settle};

/// Gives keys numbers of their own, by policy, for so many microseconds.
pub(crate) fn override_numbers(
    policies: Vec<Option<ClassInstance<'_, Policy>>>,
    lasting_us: f64,
) -> Operation {
    let numbers = |policy: Option<ClassInstance<'_, Policy>>| policy.map(|of| Arc::new(of.inner()));
    let policies = policies.into_iter().map(numbers).collect();
    Operation::Override { policies, lasting: whole(lasting_us) }
}

/// The keys of one call, by subject; those that it leaves out are undefined.
pub(crate) struct KeyBuffers([KeyBuffer; MOST_POLICIES]);

/// See [`KeyBuffers`].
type Keys<'a> = [Option<Key<'a>>; MOST_POLICIES];

impl KeyBuffers {
    pub(crate) const fn new() -> Self {
        Self([const { KeyBuffer::new() }; MOST_POLICIES])
    }

    /// Reads the keys that the values are.
    ///
    /// # Safety
    /// `env` and the values are those of the callback that is running.
    unsafe fn read(
        &mut self,
        env: sys::napi_env,
        values: impl Iterator<Item = sys::napi_value>,
    ) -> Answered<Keys<'_>> {
        let mut keys = [None; MOST_POLICIES];
        for ((key, buffer), value) in keys.iter_mut().zip(&mut self.0).zip(values) {
            // SAFETY: the caller vouches for `env` and the values.
            *key = unsafe {
                if is_undefined(env, value) { None } else { Some(buffer.read(env, value)?) }
            };
        }
        // A call that names none has an undefined key.
        if keys.iter().any(Option::is_some) { Ok(keys) } else { Err(Failure::NotAString) }
    }

    /// Reads the keys that the elements of an array are.
    ///
    /// # Safety
    /// `env` and the array are those of the callback that is running.
    pub(crate) unsafe fn read_array(&mut self, env: Env, array: &Array<'_>) -> Answered<Keys<'_>> {
        let (env, value) = (env.raw(), array.value().value);
        // SAFETY: the caller vouches for `env` and the array.
        unsafe { self.read(env, (0..array.len()).map(|index| element(env, value, index))) }
    }
}

/// # Safety
/// `env` and `value` are those of the callback that is running.
unsafe fn is_undefined(env: sys::napi_env, value: sys::napi_value) -> bool {
    let mut kind = sys::ValueType::napi_undefined;
    // SAFETY: the caller vouches for `env` and `value`.
    let status = unsafe { sys::napi_typeof(env, value, &raw mut kind) };
    status != sys::Status::napi_ok || kind == sys::ValueType::napi_undefined
}

/// Performs an operation, and answers into `place`; a panic becomes an answer too.
pub(crate) fn perform(
    place: &mut [f64],
    ledger: &Ledger,
    keys: Answered<Keys<'_>>,
    operation: Option<&Operation>,
    time: &TimeOf,
) {
    hot::answer(place, || {
        let (keys, operation) = (keys?, operation.ok_or(Failure::Panicked)?);
        let keys = &keys[..ledger.policies().subjects()];
        ledger.execute(keys, operation, time).map_err(Failure::from)
    });
}

/// What a bound function carries.
struct Bound {
    ledger: Arc<Ledger>,
    /// In the front of `_array`, which keeps it in place.
    answer: NonNull<[f64]>,
    /// Keeps the answer's memory alive. TypeScript never transfers its buffer.
    _array: Float64Array,
}

/// The callback: `(operation, amount, epochMs, ...keys)`, answering into the array.
unsafe extern "C" fn call(env: sys::napi_env, info: sys::napi_callback_info) -> sys::napi_value {
    let mut arguments = [ptr::null_mut(); 3 + MOST_POLICIES];
    let mut count = arguments.len();
    let mut data = ptr::null_mut();
    // SAFETY: `arguments` has room for `count` values; Node fills what is missing with undefined.
    unsafe {
        sys::napi_get_cb_info(
            env,
            info,
            &raw mut count,
            arguments.as_mut_ptr(),
            ptr::null_mut(),
            &raw mut data,
        );
    }
    let [code, amount, time, keys @ ..] = arguments;
    // SAFETY: `data` is the `Bound` given to this function in `bind`, alive while the function is. A
    // callback runs on its isolate's thread, and `perform` calls no JavaScript, so nothing else reads
    // or writes the answer meanwhile.
    unsafe {
        let bound = data.cast::<Bound>().as_mut().unwrap_unchecked();
        let operation = operation(whole(number(env, code)), whole(number(env, amount)));
        let time = TimeOf::call(number(env, time));
        let mut buffers = KeyBuffers::new();
        let keys = buffers.read(env, keys.into_iter());
        perform(bound.answer.as_mut(), &bound.ledger, keys, operation.as_ref(), &time);
    }
    ptr::null_mut()
}

/// The JavaScript function that performs operations and answers into `array`.
pub(crate) fn function(
    env: Env,
    ledger: Arc<Ledger>,
    mut array: Float64Array,
) -> Result<Unknown<'static>> {
    let answer = hot::place_in::<[f64]>(&mut array)?;
    hot::bind(env, Bound { ledger, answer, _array: array }, call)
}
