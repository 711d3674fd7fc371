//! Reads a Redis store's answers in JavaScript's event loop, and tells them there and then.
//!
//! Otherwise the engine's thread reads them, and has to wake JavaScript's: two threads are woken for each round,
//! and a lone call waits for both.

#![allow(unsafe_code, reason = "napi's C interface")]

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex};

use napi::bindgen_prelude::{Env, Float64Array, Function, Result, ToNapiValue as _};
use napi::{JsValue as _, check_status, sys};

use crate::node::redis::limiter::locked;
use crate::node::redis::responses::{Heard, SettleArguments};
#[cfg(unix)]
use crate::node::uv::Poll;
use crate::redis::{Remote, SocketHandle};

thread_local! {
    /// What is heard while this thread looks.
    static HEARD: RefCell<Option<Vec<Heard>>> = const { RefCell::new(None) };
}

/// Keeps what became of a round, if this thread looks for it; gives it back otherwise.
pub(crate) fn keep(heard: Heard) -> Option<Heard> {
    HEARD.with_borrow_mut(|kept| match kept {
        Some(kept) => {
            kept.push(heard);
            None
        }
        None => Some(heard),
    })
}

/// What `look` hears on this thread.
fn heard_in(look: impl FnOnce()) -> Vec<Heard> {
    HEARD.set(Some(Vec::new()));
    // What was heard before a panic is told all the same.
    let _looked = catch_unwind(AssertUnwindSafe(look));
    HEARD.take().unwrap_or_default()
}

/// Nothing can be listened to.
#[cfg(not(unix))]
enum Poll {}

#[cfg(not(unix))]
impl Poll {
    fn start(&self) -> bool {
        match *self {}
    }

    fn stop(&self) {
        match *self {}
    }
}

/// Listens in the event loop of an isolate. It belongs to the isolate's thread.
pub(crate) struct Listener {
    env: sys::napi_env,
    settle: sys::napi_ref,
    remote: Arc<Mutex<Option<Remote>>>,
    listening: RefCell<Option<Listening>>,
}

/// The socket that is listened to.
struct Listening {
    socket: SocketHandle,
    poll: Poll,
    is_started: Cell<bool>,
}

impl Listener {
    /// `settle` is called with what was heard.
    pub(crate) fn new(
        env: Env,
        settle: &Function<'_, SettleArguments, ()>,
        remote: Arc<Mutex<Option<Remote>>>,
    ) -> Result<Rc<Self>> {
        let mut reference = ptr::null_mut();
        // SAFETY: both are of the running callback.
        check_status!(unsafe {
            sys::napi_create_reference(env.raw(), settle.raw(), 1, &raw mut reference)
        })?;
        let (env, listening) = (env.raw(), RefCell::default());
        Ok(Rc::new(Self { env, settle: reference, remote, listening }))
    }

    /// From now on answers are read here, if the link's socket can be watched.
    pub(crate) fn listen(self: &Rc<Self>) {
        let Some(socket) = locked(&self.remote).as_ref().and_then(Remote::socket_handle) else {
            return;
        };
        let mut listening = self.listening.borrow_mut();
        if listening.as_ref().is_none_or(|old| !old.socket.is_same_session(&socket)) {
            *listening = None;
            *listening = self.listening_to(socket);
        }
        if let Some(Listening { socket, poll, is_started }) = &*listening
            && (is_started.get() || poll.start())
        {
            is_started.set(true);
            socket.claim();
        }
    }

    /// Listens no more.
    pub(crate) fn stop(&self) {
        let listening = self.listening.take();
        if let Some(Listening { socket, .. }) = &listening {
            socket.release();
        }
    }

    #[cfg(not(unix))]
    fn listening_to(self: &Rc<Self>, _socket: SocketHandle) -> Option<Listening> {
        None
    }

    #[cfg(unix)]
    fn listening_to(self: &Rc<Self>, socket: SocketHandle) -> Option<Listening> {
        let duplicate = socket.duplicate().ok()?;
        let hook = Rc::new(Hook::default());
        let (weak, closed) = (Rc::downgrade(self), Rc::clone(&hook));
        let readable = move || {
            // A panic must not go on into libuv. A link that it was in ends, and what waits settles by its deadline.
            let _looked = catch_unwind(AssertUnwindSafe(|| {
                if let Some(listener) = weak.upgrade() {
                    listener.look();
                }
            }));
        };
        let poll = Poll::new(self.env, duplicate, readable, move || closed.remove())?;
        hook.add(self.env, Rc::downgrade(self));
        Some(Listening { socket, poll, is_started: Cell::new(false) })
    }

    /// Reads what there is, and tells JavaScript what it says.
    fn look(&self) {
        let socket = match &*self.listening.borrow() {
            Some(Listening { socket, .. }) if socket.is_claimed() => socket.clone(),
            Some(Listening { poll, is_started, .. }) => {
                poll.stop();
                is_started.set(false);
                return;
            }
            None => return,
        };
        let heard = heard_in(|| {
            if let Some(remote) = &*locked(&self.remote) {
                remote.read_inline(&socket);
            }
        });
        for heard in heard {
            // If it cannot be told, the isolate is ending, and nobody waits.
            let _told = self.tell(heard);
        }
    }

    /// Calls JavaScript, as its event loop does.
    fn tell(&self, heard: Heard) -> Result<()> {
        let env = self.env;
        let mut scope = ptr::null_mut();
        // SAFETY: this runs on the isolate's thread, in its event loop, where no scope is open.
        unsafe {
            check_status!(sys::napi_open_handle_scope(env, &raw mut scope))?;
            let told = self.call(heard);
            let mut error = ptr::null_mut();
            if told.is_err()
                && sys::napi_get_and_clear_last_exception(env, &raw mut error)
                    == sys::Status::napi_ok
            {
                sys::napi_fatal_exception(env, error);
            }
            sys::napi_close_handle_scope(env, scope);
            told
        }
    }

    /// # Safety
    /// A handle scope is open on the isolate's thread.
    unsafe fn call(&self, heard: Heard) -> Result<()> {
        let env = self.env;
        let (mut settle, mut this) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the reference is alive as long as this is.
        unsafe {
            check_status!(sys::napi_get_reference_value(env, self.settle, &raw mut settle))?;
            check_status!(sys::napi_get_global(env, &raw mut this))?;
            let (round, answers, texts, calls) = heard.into_arguments().data;
            let arguments = [
                u32::to_napi_value(env, round)?,
                Float64Array::to_napi_value(env, answers)?,
                Vec::to_napi_value(env, texts)?,
                Option::to_napi_value(env, calls)?,
            ];
            check_status!(sys::napi_make_callback(
                env,
                ptr::null_mut(),
                this,
                settle,
                arguments.len(),
                arguments.as_ptr(),
                ptr::null_mut(),
            ))
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop();
        // SAFETY: it was made in `new`, and this runs on the isolate's thread, while the isolate lives.
        unsafe { sys::napi_delete_reference(self.env, self.settle) };
    }
}

/// Has an isolate that ends wait until libuv has let go of a handle.
#[derive(Default)]
struct Hook {
    /// The hook's handle, and its data, which is the listener.
    added: Cell<Option<(sys::napi_async_cleanup_hook_handle, *mut Weak<Listener>)>>,
}

impl Hook {
    fn add(&self, env: sys::napi_env, listener: Weak<Listener>) {
        let data = Box::into_raw(Box::new(listener));
        let mut handle = ptr::null_mut();
        // SAFETY: `data` is what `ending` expects, and lives until the hook is removed.
        let added = unsafe {
            sys::napi_add_async_cleanup_hook(env, Some(ending), data.cast(), &raw mut handle)
        };
        if added == sys::Status::napi_ok {
            self.added.set(Some((handle, data)));
        } else {
            // SAFETY: nobody else has it.
            drop(unsafe { Box::from_raw(data) });
        }
    }

    fn remove(&self) {
        if let Some((handle, data)) = self.added.take() {
            // SAFETY: both were made in `add`; this happens once.
            unsafe {
                sys::napi_remove_async_cleanup_hook(handle);
                drop(Box::from_raw(data));
            }
        }
    }
}

/// The isolate ends.
unsafe extern "C" fn ending(_handle: sys::napi_async_cleanup_hook_handle, data: *mut c_void) {
    // SAFETY: it is the data of `Hook::add`, and the hook has not been removed.
    let listener = unsafe { data.cast::<Weak<Listener>>().as_ref() };
    if let Some(listener) = listener.and_then(Weak::upgrade) {
        listener.stop();
    }
}
