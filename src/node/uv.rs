//! What there is of libuv, Node's event loop, to wait until a socket can be read.
//!
//! Its functions are looked up in the running process: other runtimes that take addons may not have them.

#![allow(unsafe_code, reason = "libuv's C interface")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr::NonNull;

use libloading::os::unix::Library;
use napi::sys;
use once_cell::sync::OnceCell;

/// A handle of libuv's. Only libuv knows what is in it.
#[repr(C)]
pub(crate) struct Handle {
    _opaque: [u8; 0],
}

type Polled = unsafe extern "C" fn(*mut Handle, c_int, c_int);
type Closed = unsafe extern "C" fn(*mut Handle);

/// `UV_POLL` among the kinds of handles, and `UV_READABLE` among the events: parts of its binary interface.
const POLL: c_int = 8;
const READABLE: c_int = 1;

/// The version of libuv whose interface this is: 1.
const MAJOR: c_uint = 1;

struct Functions {
    handle_size: unsafe extern "C" fn(c_int) -> usize,
    poll_init: unsafe extern "C" fn(*mut sys::uv_loop_s, *mut Handle, c_int) -> c_int,
    poll_start: unsafe extern "C" fn(*mut Handle, c_int, Polled) -> c_int,
    poll_stop: unsafe extern "C" fn(*mut Handle) -> c_int,
    close: unsafe extern "C" fn(*mut Handle, Closed),
    unref: unsafe extern "C" fn(*mut Handle),
    set_data: unsafe extern "C" fn(*mut Handle, *mut c_void),
    get_data: unsafe extern "C" fn(*const Handle) -> *mut c_void,
}

fn functions() -> Option<&'static Functions> {
    static FUNCTIONS: OnceCell<Option<Functions>> = OnceCell::new();
    FUNCTIONS.get_or_init(found).as_ref()
}

fn found() -> Option<Functions> {
    let process = Library::this();
    // SAFETY: these are the types of libuv's functions of these names since 1.19.
    unsafe {
        let version = *process.get::<unsafe extern "C" fn() -> c_uint>(b"uv_version\0").ok()?;
        if version() >> 16 != MAJOR {
            return None;
        }
        Some(Functions {
            handle_size: *process.get(b"uv_handle_size\0").ok()?,
            poll_init: *process.get(b"uv_poll_init\0").ok()?,
            poll_start: *process.get(b"uv_poll_start\0").ok()?,
            poll_stop: *process.get(b"uv_poll_stop\0").ok()?,
            close: *process.get(b"uv_close\0").ok()?,
            unref: *process.get(b"uv_unref\0").ok()?,
            set_data: *process.get(b"uv_handle_set_data\0").ok()?,
            get_data: *process.get(b"uv_handle_get_data\0").ok()?,
        })
    }
}

/// Waits until a socket can be read, and then calls back on the event loop's thread.
///
/// It belongs to that thread, and does not keep the process alive.
pub(crate) struct Poll {
    handle: NonNull<Handle>,
    functions: &'static Functions,
}

/// What a handle carries. It goes when libuv has let go of the handle.
struct Carried {
    readable: Box<dyn FnMut()>,
    closed: Option<Box<dyn FnOnce()>>,
    layout: Layout,
    _socket: OwnedFd,
}

impl Poll {
    /// Calls `readable` whenever the socket can be read, while this is [started](Self::start), and `closed` when it
    /// will never again. Nothing if there is no such loop.
    pub(crate) fn new(
        env: sys::napi_env,
        socket: OwnedFd,
        readable: impl FnMut() + 'static,
        closed: impl FnOnce() + 'static,
    ) -> Option<Self> {
        let functions = functions()?;
        let mut uv_loop = std::ptr::null_mut();
        // SAFETY: `env` is that of the running callback.
        let found = unsafe { sys::napi_get_uv_event_loop(env, &raw mut uv_loop) };
        if found != sys::Status::napi_ok || uv_loop.is_null() {
            return None;
        }
        // SAFETY: libuv tells how large a handle is; it is zeroed, initialised on its loop's thread, and freed by
        // `let_go`, which libuv calls once it is closed.
        unsafe {
            let layout = Layout::from_size_align((functions.handle_size)(POLL), 16).ok()?;
            let handle = NonNull::new(alloc_zeroed(layout).cast::<Handle>())?;
            if (functions.poll_init)(uv_loop, handle.as_ptr(), socket.as_raw_fd()) != 0 {
                dealloc(handle.as_ptr().cast(), layout);
                return None;
            }
            let (readable, closed) = (Box::new(readable), Box::new(closed) as Box<_>);
            let carried = Carried { readable, closed: Some(closed), layout, _socket: socket };
            (functions.set_data)(handle.as_ptr(), Box::into_raw(Box::new(carried)).cast());
            (functions.unref)(handle.as_ptr());
            Some(Self { handle, functions })
        }
    }

    /// Begins to wait, or goes on.
    pub(crate) fn start(&self) -> bool {
        // SAFETY: the handle is open as long as this is.
        unsafe { (self.functions.poll_start)(self.handle.as_ptr(), READABLE, polled) == 0 }
    }

    /// Waits no more.
    pub(crate) fn stop(&self) {
        // SAFETY: as in `start`.
        unsafe { (self.functions.poll_stop)(self.handle.as_ptr()) };
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        // SAFETY: it is closed once, on its loop's thread; libuv calls `let_go` later.
        unsafe { (self.functions.close)(self.handle.as_ptr(), let_go) };
    }
}

unsafe extern "C" fn polled(handle: *mut Handle, _status: c_int, _events: c_int) {
    let Some(functions) = functions() else { return };
    // SAFETY: the data is what `new` gave to the handle, which lives until `let_go`. libuv calls back one at a time,
    // on one thread. An error (`_status`) is found by reading.
    let carried = unsafe { (functions.get_data)(handle).cast::<Carried>().as_mut() };
    if let Some(carried) = carried {
        (carried.readable)();
    }
}

unsafe extern "C" fn let_go(handle: *mut Handle) {
    let Some(functions) = functions() else { return };
    // SAFETY: libuv calls this once, when it uses the handle no more; both were made in `new`.
    unsafe {
        let mut carried = Box::from_raw((functions.get_data)(handle).cast::<Carried>());
        dealloc(handle.cast(), carried.layout);
        if let Some(closed) = carried.closed.take() {
            closed();
        }
    }
}
