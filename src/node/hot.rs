//! The calls that a program makes on every request, as plain C callbacks.
//!
//! A bound function stores its limiter and the response array. So a call passes only a key, a cost
//! and a time, and returns nothing. Measured per call, with a 14-byte key: 45 ns this way, 53 ns
//! with a handle to the limiter as an argument, 180 ns as a `#[napi]` function.

#![allow(unsafe_code, reason = "napi's C interface")]

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use napi::bindgen_prelude::{Env, Float64Array, FromNapiValue, Result, Unknown};
use napi::{check_status, sys};

use super::clock::FastSystemClock;
use super::key::{KeyBuffer, number};
use super::response::{DecisionBuffer, FailureCode, ResponseBuffer};
use super::{invalid, micros, whole};
use crate::clock::Clock;
use crate::key::Key;
use crate::memory::MemoryLimiter;
use crate::policy::decision::Decision;
use crate::policy::execute::Execution;
use crate::time::Micros;

/// The clock of a call: the caller's time, or the system's.
pub(crate) struct CallClock(Option<Micros>);

impl CallClock {
    /// The system's clock.
    pub(crate) const SYSTEM: Self = Self(None);

    /// The caller's time, or the system's clock if `epoch_ms` is below 0.
    pub(crate) fn call(epoch_ms: f64) -> Self {
        Self(micros(epoch_ms))
    }
}

impl Clock for CallClock {
    fn now(&self) -> Micros {
        self.0.map_or_else(|| FastSystemClock.now(), |given| given.now())
    }
}

/// A kind of call that a bound function makes.
pub(crate) trait LimiterCall {
    /// The limiter, or the registry of limiters.
    type Target: 'static;

    /// The buffer for the response.
    type Output: ResponseBuffer + ?Sized;

    /// Makes the call.
    fn call(
        target: &Self::Target,
        key: Key<'_>,
        cost: u64,
        clock: &impl Clock,
    ) -> CallResult<<Self::Output as ResponseBuffer>::Response>;
}

/// The result of a call, or a failure.
pub(crate) type CallResult<T> = core::result::Result<T, FailureCode>;

/// Takes units.
pub(crate) struct TakeCall;

impl LimiterCall for TakeCall {
    type Target = Arc<MemoryLimiter>;
    type Output = DecisionBuffer;

    #[inline]
    fn call(
        limiter: &Arc<MemoryLimiter>,
        key: Key<'_>,
        cost: u64,
        clock: &impl Clock,
    ) -> CallResult<Option<Decision>> {
        Ok(Some(limiter.take(key, cost, clock)))
    }
}

/// Takes units under policies whose limits have names.
pub(crate) struct NamedTakeCall;

impl LimiterCall for NamedTakeCall {
    type Target = Arc<MemoryLimiter>;
    type Output = [f64];

    fn call(
        limiter: &Arc<MemoryLimiter>,
        key: Key<'_>,
        cost: u64,
        clock: &impl Clock,
    ) -> CallResult<Execution> {
        Ok(Execution::new(limiter.take_with_report(key, cost, clock), 0))
    }
}

/// The data of a bound function.
struct BoundCall<T, B: ?Sized> {
    target: T,
    /// The start of `_array`, which keeps the memory in place.
    buffer: NonNull<B>,
    /// Keeps the response's memory alive. TypeScript never transfers its buffer.
    _array: Float64Array,
}

/// Makes a call, and writes its response into `buffer`. A panic becomes a failure response.
#[inline]
pub(crate) fn call_into<C: LimiterCall>(
    buffer: &mut C::Output,
    target: &C::Target,
    key: CallResult<Key<'_>>,
    cost: u64,
    time: &CallClock,
) {
    match key {
        Ok(key) => write_result(buffer, || C::call(target, key, cost, time)),
        Err(failure) => buffer.write(Err(failure)),
    }
}

/// Writes the result of `call` into `buffer`. A panic becomes a failure response.
#[inline]
pub(crate) fn write_result<B: ResponseBuffer + ?Sized>(
    buffer: &mut B,
    call: impl FnOnce() -> CallResult<B::Response>,
) {
    // The closure writes the response itself: as a return value, it would be copied in parts, which
    // takes 20 ns.
    let written = catch_unwind(AssertUnwindSafe(|| buffer.write(call())));
    // Unwind safe: a state is written as a whole, after its decision has been made.
    if written.is_err() {
        buffer.write(Err(FailureCode::Panicked));
    }
}

/// The arguments of a callback and their number, the target of the bound function, and the buffer
/// for its response. Missing arguments are undefined.
///
/// # Safety
/// `env` and `info` are those of the running callback, which [`bind`] bound to a `T` with a `B`. The
/// callback calls no JavaScript while it uses the buffer.
#[inline(always)]
pub(crate) unsafe fn arguments<'a, const N: usize, T, B: ?Sized>(
    env: sys::napi_env,
    info: sys::napi_callback_info,
) -> ([sys::napi_value; N], usize, &'a T, &'a mut B) {
    let (mut arguments, mut count, mut data) = ([ptr::null_mut(); N], N, ptr::null_mut());
    // SAFETY: `arguments` has room for `count` values. `data` is the `BoundCall` that `bind` gave to
    // the function, and lives as long as the function. A callback runs on its isolate's thread, so
    // nothing else reads or writes the response meanwhile.
    unsafe {
        sys::napi_get_cb_info(
            env,
            info,
            &raw mut count,
            arguments.as_mut_ptr(),
            ptr::null_mut(),
            &raw mut data,
        );
        let bound = data.cast::<BoundCall<T, B>>().as_mut().unwrap_unchecked();
        (arguments, count, &bound.target, bound.buffer.as_mut())
    }
}

/// The callback: `(key, cost = 1, epochMs = -1)`. It writes the response into the array. Omitted
/// arguments, by far the most frequent case, need no conversion.
unsafe extern "C" fn call<C: LimiterCall>(
    env: sys::napi_env,
    info: sys::napi_callback_info,
) -> sys::napi_value {
    // SAFETY: the environment, the information and the data are those of the running callback.
    unsafe {
        let ([key, cost, time], count, target, response) =
            arguments::<3, C::Target, C::Output>(env, info);
        let mut buffer = KeyBuffer::new();
        let key = buffer.read(env, key);
        let cost = if count > 1 { whole(number(env, cost)) } else { 1 };
        let time = if count > 2 { CallClock::call(number(env, time)) } else { CallClock::SYSTEM };
        call_into::<C>(response, target, key, cost, &time);
    }
    ptr::null_mut()
}

/// Frees the data of a bound function, once the function has been collected or its isolate has
/// ended.
unsafe extern "C" fn finalize<T>(_env: sys::napi_env, data: *mut c_void, _hint: *mut c_void) {
    // SAFETY: `data` is the box that `bind` made into a raw pointer; a finalizer runs once.
    drop(unsafe { Box::from_raw(data.cast::<T>()) });
}

/// A JavaScript function that calls `target` and writes responses into `array`.
pub(crate) fn function<C: LimiterCall>(
    env: Env,
    target: C::Target,
    array: Float64Array,
) -> Result<Unknown<'static>> {
    bind::<_, C::Output>(env, target, array, call::<C>)
}

/// A JavaScript function that runs `callback`, which gets `target` and the buffer at the start of
/// `array` by [`arguments`].
pub(crate) fn bind<T, B: ResponseBuffer + ?Sized>(
    env: Env,
    target: T,
    mut array: Float64Array,
    callback: unsafe extern "C" fn(sys::napi_env, sys::napi_callback_info) -> sys::napi_value,
) -> Result<Unknown<'static>> {
    // SAFETY: nothing else uses the array while this runs.
    let buffer = B::at_start_of(unsafe { array.as_mut() }).map(NonNull::from);
    let buffer = buffer.ok_or_else(|| invalid("the array is too short for a response"))?;
    let data = Box::into_raw(Box::new(BoundCall { target, buffer, _array: array })).cast();
    let mut function = ptr::null_mut();
    // SAFETY: `env` is that of the running callback. On failure the box is freed here, otherwise by
    // `finalize`.
    unsafe {
        let name = c"tollgate";
        let made = sys::napi_create_function(
            env.raw(),
            name.as_ptr(),
            name.count_bytes().cast_signed(),
            Some(callback),
            data,
            &raw mut function,
        );
        let made = check_status!(made).and_then(|()| {
            check_status!(sys::napi_add_finalizer(
                env.raw(),
                function,
                data,
                Some(finalize::<BoundCall<T, B>>),
                ptr::null_mut(),
                ptr::null_mut(),
            ))
        });
        if let Err(error) = made {
            drop(Box::from_raw(data.cast::<BoundCall<T, B>>()));
            return Err(error);
        }
        Unknown::from_napi_value(env.raw(), function)
    }
}
