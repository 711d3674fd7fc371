//! The calls that happen on every request, as plain C callbacks.
//!
//! A bound function carries whom it asks and the array it answers into, so a call passes only a key,
//! a cost and a time, and returns nothing. Measured per call, with a 14-byte key: 45 ns this way,
//! 53 ns with a handle to the ledger as an argument, 180 ns as a `#[napi]` function.

#![allow(unsafe_code, reason = "napi's C interface")]

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use napi::bindgen_prelude::{Env, Float64Array, FromNapiValue, Result, Unknown};
use napi::{Error, Status, check_status, sys};

use super::clock::BareSystemClock;
use super::key::{KeyBuffer, number};
use super::response::{Answer, Failure, Place};
use super::{micros, whole};
use crate::clock::Clock;
use crate::key::Key;
use crate::memory::Ledger;
use crate::policy::decision::Decision;
use crate::policy::execute::Execution;
use crate::time::Micros;

/// A time given by the caller, or the system's.
pub(crate) struct TimeOf(Option<Micros>);

impl TimeOf {
    /// The system's.
    pub(crate) const SYSTEM: Self = Self(None);

    /// `epoch_ms` below 0 asks for the system's clock.
    pub(crate) fn call(epoch_ms: f64) -> Self {
        Self(micros(epoch_ms))
    }
}

impl Clock for TimeOf {
    fn now(&self) -> Micros {
        self.0.map_or_else(|| BareSystemClock.now(), |given| given.now())
    }
}

/// What a bound function asks for.
pub(crate) trait Question {
    /// Whom it asks.
    type Asked: 'static;

    /// Where the answer goes.
    type Place: Place + ?Sized;

    /// Asks.
    fn ask(
        asked: &Self::Asked,
        key: Key<'_>,
        cost: u64,
        clock: &impl Clock,
    ) -> Answered<<Self::Place as Place>::Told>;
}

/// What is answered, or why nothing is.
pub(crate) type Answered<T> = core::result::Result<T, Failure>;

/// Asks for units.
pub(crate) struct Take;

impl Question for Take {
    type Asked = Arc<Ledger>;
    type Place = Answer;

    #[inline]
    fn ask(
        ledger: &Arc<Ledger>,
        key: Key<'_>,
        cost: u64,
        clock: &impl Clock,
    ) -> Answered<Option<Decision>> {
        Ok(Some(ledger.take(key, cost, clock)))
    }
}

/// Asks for units under policies whose limits have names.
pub(crate) struct TakeNamed;

impl Question for TakeNamed {
    type Asked = Arc<Ledger>;
    type Place = [f64];

    fn ask(
        ledger: &Arc<Ledger>,
        key: Key<'_>,
        cost: u64,
        clock: &impl Clock,
    ) -> Answered<Execution> {
        Ok(Execution::new(ledger.take_told(key, cost, clock), 0))
    }
}

/// What a bound function carries.
struct Bound<Q: Question> {
    asked: Q::Asked,
    /// In the front of `_array`, which keeps it in place.
    answer: NonNull<Q::Place>,
    /// Keeps the answer's memory alive. TypeScript never transfers its buffer.
    _array: Float64Array,
}

/// Asks, and answers into `place`; a panic becomes an answer too.
#[inline]
pub(crate) fn ask<Q: Question>(
    place: &mut Q::Place,
    asked: &Q::Asked,
    key: Answered<Key<'_>>,
    cost: u64,
    time: &TimeOf,
) {
    match key {
        Ok(key) => answer(place, || Q::ask(asked, key, cost, time)),
        Err(failure) => place.write(Err(failure)),
    }
}

/// Writes what is answered into `place`; a panic becomes a failure.
#[inline]
pub(crate) fn answer<P: Place + ?Sized>(place: &mut P, ask: impl FnOnce() -> Answered<P::Told>) {
    // Written before it leaves the closure: carried out of it, an answer is copied in parts, which
    // costs 20 ns.
    let told = catch_unwind(AssertUnwindSafe(|| place.write(ask())));
    // Unwind safe: a state is written whole, after its decision has been made.
    if told.is_err() {
        place.write(Err(Failure::Panicked));
    }
}

/// The callback: `(key, cost = 1, epochMs = -1)`, answering into the array. What is left out, by far
/// the most frequent call, need not be converted.
unsafe extern "C" fn call<Q: Question>(
    env: sys::napi_env,
    info: sys::napi_callback_info,
) -> sys::napi_value {
    let mut arguments = [ptr::null_mut(); 3];
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
    let [key, cost, time] = arguments;
    // SAFETY: `data` is the `Bound` given to this function in `bind`, alive while the function
    // is. A callback runs on its isolate's thread, and `ask` calls no JavaScript, so nothing else
    // reads or writes the answer meanwhile.
    unsafe {
        let bound = data.cast::<Bound<Q>>().as_mut().unwrap_unchecked();
        let mut buffer = KeyBuffer::new();
        let key = buffer.read(env, key);
        let cost = if count > 1 { whole(number(env, cost)) } else { 1 };
        let time = if count > 2 { TimeOf::call(number(env, time)) } else { TimeOf::SYSTEM };
        ask::<Q>(bound.answer.as_mut(), &bound.asked, key, cost, &time);
    }
    ptr::null_mut()
}

/// Frees what a bound function carried, once it has been collected or its isolate has ended.
unsafe extern "C" fn finalize<T>(_env: sys::napi_env, data: *mut c_void, _hint: *mut c_void) {
    // SAFETY: `data` is the box made into a raw pointer in `bind`; a finalizer runs once.
    drop(unsafe { Box::from_raw(data.cast::<T>()) });
}

/// A JavaScript function bound to `asked` that answers into `array`.
pub(crate) fn function<Q: Question>(
    env: Env,
    asked: Q::Asked,
    mut array: Float64Array,
) -> Result<Unknown<'static>> {
    let answer = place_in::<Q::Place>(&mut array)?;
    bind(env, Bound::<Q> { asked, answer, _array: array }, call::<Q>)
}

/// The place of answers at the front of an array, which is to be kept with it.
pub(crate) fn place_in<P: Place + ?Sized>(array: &mut Float64Array) -> Result<NonNull<P>> {
    // SAFETY: nothing else uses the array while this runs.
    let place = P::in_front_of(unsafe { array.as_mut() }).map(NonNull::from);
    place.ok_or_else(|| Error::new(Status::InvalidArg, "the array is too short for an answer"))
}

/// A JavaScript function that carries `carried`: its `callback` finds a pointer to it as its data.
pub(crate) fn bind<T>(
    env: Env,
    carried: T,
    callback: unsafe extern "C" fn(sys::napi_env, sys::napi_callback_info) -> sys::napi_value,
) -> Result<Unknown<'static>> {
    let data = Box::into_raw(Box::new(carried)).cast();
    let mut function = ptr::null_mut();
    // SAFETY: `env` is the running callback's. On failure the box is freed here, else by
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
                Some(finalize::<T>),
                ptr::null_mut(),
                ptr::null_mut(),
            ))
        });
        if let Err(error) = made {
            drop(Box::from_raw(data.cast::<T>()));
            return Err(error);
        }
        Unknown::from_napi_value(env.raw(), function)
    }
}
