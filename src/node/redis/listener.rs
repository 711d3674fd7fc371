//! Reads a Redis store's replies in JavaScript's event loop and passes the results on at once.
//!
//! Otherwise the engine's thread reads them and has to wake JavaScript's: each flush wakes two
//! threads, and a single call waits for both.

#![allow(unsafe_code, reason = "napi's C interface")]

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex};

use napi::bindgen_prelude::{Env, Function, Result, ToNapiValue as _};
use napi::{JsValue as _, check_status, sys};

use crate::node::redis::copied_array::CopiedArray;
use crate::node::redis::limiter::locked;
use crate::node::redis::responses::{FlushArguments, FlushResults};
#[cfg(unix)]
use crate::node::uv::UvPoll as SocketPoll;
use crate::redis::{Connection, RedisDeployment, SocketHandle};

thread_local! {
    static IS_READING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is reading replies. It then passes the results on itself.
pub(crate) fn is_reading() -> bool {
    IS_READING.get()
}

/// Runs `read`, which may complete flushes on this thread.
fn reading(read: impl FnOnce()) {
    IS_READING.set(true);
    // The results from before a panic are passed on.
    let _read = catch_unwind(AssertUnwindSafe(read));
    IS_READING.set(false);
}

/// Without Unix no socket can be polled.
#[cfg(not(unix))]
enum SocketPoll {}

#[cfg(not(unix))]
impl SocketPoll {
    fn start(&self) -> bool {
        match *self {}
    }

    fn stop(&self) {
        match *self {}
    }
}

/// Reads replies in the event loop of an isolate. It belongs to the isolate's thread.
pub(crate) struct EventLoopReader {
    env: sys::napi_env,
    complete: sys::napi_ref,
    deployment: Arc<Mutex<Option<RedisDeployment>>>,
    results: Arc<FlushResults>,
    polled: RefCell<Option<PolledSocket>>,
}

struct PolledSocket {
    socket: SocketHandle,
    poll: SocketPoll,
    is_started: Cell<bool>,
}

impl EventLoopReader {
    /// Calls `complete` with each of the results.
    pub(crate) fn new(
        env: Env,
        complete: &Function<'_, FlushArguments, ()>,
        deployment: Arc<Mutex<Option<RedisDeployment>>>,
        results: Arc<FlushResults>,
    ) -> Result<Rc<Self>> {
        let mut reference = ptr::null_mut();
        // SAFETY: the environment and the function are the running callback's.
        check_status!(unsafe {
            sys::napi_create_reference(env.raw(), complete.raw(), 1, &raw mut reference)
        })?;
        let (env, polled) = (env.raw(), RefCell::default());
        Ok(Rc::new(Self { env, complete: reference, deployment, results, polled }))
    }

    /// Starts to read replies in this event loop, if it can poll the connection's socket.
    pub(crate) fn start(self: &Rc<Self>) {
        let deployment = locked(&self.deployment);
        let connection = deployment.as_ref().and_then(RedisDeployment::connection);
        let Some(socket) = connection.and_then(Connection::socket_handle) else { return };
        drop(deployment);
        let mut polled = self.polled.borrow_mut();
        if polled.as_ref().is_none_or(|old| !old.socket.is_same_session(&socket)) {
            *polled = None;
            *polled = self.poll(socket);
        }
        if let Some(PolledSocket { socket, poll, is_started }) = &*polled
            && (is_started.get() || poll.start())
        {
            is_started.set(true);
            socket.claim();
        }
    }

    /// Stops reading in this event loop.
    pub(crate) fn stop(&self) {
        let polled = self.polled.take();
        if let Some(PolledSocket { socket, .. }) = &polled {
            socket.release();
        }
    }

    #[cfg(not(unix))]
    fn poll(self: &Rc<Self>, _socket: SocketHandle) -> Option<PolledSocket> {
        None
    }

    #[cfg(unix)]
    fn poll(self: &Rc<Self>, socket: SocketHandle) -> Option<PolledSocket> {
        let duplicate = socket.duplicate().ok()?;
        let hook = Rc::new(CleanupHook::default());
        let (weak, closed) = (Rc::downgrade(self), Rc::clone(&hook));
        let readable = move || {
            // A panic must not unwind into libuv. It ends its connection, and pending calls fail by
            // their deadline.
            let _read = catch_unwind(AssertUnwindSafe(|| {
                if let Some(reader) = weak.upgrade() {
                    reader.read();
                }
            }));
        };
        let poll = SocketPoll::new(self.env, duplicate, readable, move || closed.remove())?;
        hook.add(self.env, Rc::downgrade(self));
        Some(PolledSocket { socket, poll, is_started: Cell::new(false) })
    }

    /// Reads the available replies, and passes the results to JavaScript.
    fn read(&self) {
        let socket = match &*self.polled.borrow() {
            Some(PolledSocket { socket, .. }) if socket.is_claimed() => socket.clone(),
            Some(PolledSocket { poll, is_started, .. }) => {
                poll.stop();
                is_started.set(false);
                return;
            }
            None => return,
        };
        reading(|| {
            let deployment = locked(&self.deployment);
            let connection = deployment.as_ref().and_then(RedisDeployment::connection);
            connection.inspect(|connection| connection.read_inline(&socket));
        });
        while let Some(result) = self.results.pop() {
            // The call fails only if the isolate is ending.
            let _called = self.pass_on(result);
        }
    }

    /// Calls JavaScript with a result, as its event loop does.
    fn pass_on(&self, result: FlushArguments) -> Result<()> {
        let env = self.env;
        let mut scope = ptr::null_mut();
        // SAFETY: this runs on the isolate's thread, in its event loop, where no scope is open.
        unsafe {
            check_status!(sys::napi_open_handle_scope(env, &raw mut scope))?;
            let called = self.call(result);
            let mut error = ptr::null_mut();
            if called.is_err()
                && sys::napi_get_and_clear_last_exception(env, &raw mut error)
                    == sys::Status::napi_ok
            {
                sys::napi_fatal_exception(env, error);
            }
            sys::napi_close_handle_scope(env, scope);
            called
        }
    }

    /// # Safety
    /// A handle scope is open on the isolate's thread.
    unsafe fn call(&self, result: FlushArguments) -> Result<()> {
        let env = self.env;
        let (mut complete, mut this) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the reference lives as long as `self`.
        unsafe {
            check_status!(sys::napi_get_reference_value(env, self.complete, &raw mut complete))?;
            check_status!(sys::napi_get_global(env, &raw mut this))?;
            let (flush, answers, texts, calls) = result.data;
            let arguments = [
                Option::to_napi_value(env, flush)?,
                CopiedArray::to_napi_value(env, answers)?,
                Vec::to_napi_value(env, texts)?,
                Option::to_napi_value(env, calls)?,
            ];
            check_status!(sys::napi_make_callback(
                env,
                ptr::null_mut(),
                this,
                complete,
                arguments.len(),
                arguments.as_ptr(),
                ptr::null_mut(),
            ))
        }
    }
}

impl Drop for EventLoopReader {
    fn drop(&mut self) {
        self.stop();
        // SAFETY: `new` made the reference. This runs on the isolate's thread while the isolate
        // lives.
        unsafe { sys::napi_delete_reference(self.env, self.complete) };
    }
}

/// Delays the end of the isolate until libuv has closed a handle.
#[derive(Default)]
struct CleanupHook {
    /// The hook's handle, and its data: the reader.
    added: Cell<Option<(sys::napi_async_cleanup_hook_handle, *mut Weak<EventLoopReader>)>>,
}

impl CleanupHook {
    fn add(&self, env: sys::napi_env, reader: Weak<EventLoopReader>) {
        let data = Box::into_raw(Box::new(reader));
        let mut handle = ptr::null_mut();
        // SAFETY: `data` has the type that `ending` expects, and lives until the hook is removed.
        let added = unsafe {
            sys::napi_add_async_cleanup_hook(env, Some(ending), data.cast(), &raw mut handle)
        };
        if added == sys::Status::napi_ok {
            self.added.set(Some((handle, data)));
        } else {
            // SAFETY: the hook was not added, so nothing else refers to the data.
            drop(unsafe { Box::from_raw(data) });
        }
    }

    fn remove(&self) {
        if let Some((handle, data)) = self.added.take() {
            // SAFETY: `add` made both, and `take` returns them once.
            unsafe {
                sys::napi_remove_async_cleanup_hook(handle);
                drop(Box::from_raw(data));
            }
        }
    }
}

unsafe extern "C" fn ending(_handle: sys::napi_async_cleanup_hook_handle, data: *mut c_void) {
    // SAFETY: `data` comes from `CleanupHook::add`, and the hook has not been removed.
    let reader = unsafe { data.cast::<Weak<EventLoopReader>>().as_ref() };
    if let Some(reader) = reader.and_then(Weak::upgrade) {
        reader.stop();
    }
}
