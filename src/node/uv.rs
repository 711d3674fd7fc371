//! A wait for a readable socket on libuv, Node's event loop.
//!
//! The functions of libuv are looked up in the running process: other runtimes that load addons may
//! not have them.

#![allow(unsafe_code, reason = "libuv's C interface")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr::NonNull;

use libloading::os::unix::Library;
use napi::sys;
use once_cell::sync::OnceCell;

/// A handle of libuv. Only libuv knows its contents.
#[repr(C)]
pub(crate) struct UvHandle {
    _opaque: [u8; 0],
}

type PollCallback = unsafe extern "C" fn(*mut UvHandle, c_int, c_int);
type CloseCallback = unsafe extern "C" fn(*mut UvHandle);

/// `UV_POLL`, a kind of handle, and `UV_READABLE`, an event: parts of libuv's binary interface.
const POLL: c_int = 8;
const READABLE: c_int = 1;

/// The major version of libuv that has this interface: 1.
const MAJOR: c_uint = 1;

struct UvFunctions {
    handle_size: unsafe extern "C" fn(c_int) -> usize,
    poll_init: unsafe extern "C" fn(*mut sys::uv_loop_s, *mut UvHandle, c_int) -> c_int,
    poll_start: unsafe extern "C" fn(*mut UvHandle, c_int, PollCallback) -> c_int,
    poll_stop: unsafe extern "C" fn(*mut UvHandle) -> c_int,
    close: unsafe extern "C" fn(*mut UvHandle, CloseCallback),
    unref: unsafe extern "C" fn(*mut UvHandle),
    set_data: unsafe extern "C" fn(*mut UvHandle, *mut c_void),
    get_data: unsafe extern "C" fn(*const UvHandle) -> *mut c_void,
}

fn functions() -> Option<&'static UvFunctions> {
    static FUNCTIONS: OnceCell<Option<UvFunctions>> = OnceCell::new();
    FUNCTIONS.get_or_init(load).as_ref()
}

fn load() -> Option<UvFunctions> {
    let process = Library::this();
    // SAFETY: libuv's functions of these names have had these types since 1.19.
    unsafe {
        let version = *process.get::<unsafe extern "C" fn() -> c_uint>(b"uv_version\0").ok()?;
        if version() >> 16 != MAJOR {
            return None;
        }
        Some(UvFunctions {
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

/// Calls back on the event loop's thread when a socket is readable.
///
/// It belongs to that thread, and does not keep the process alive.
pub(crate) struct UvPoll {
    handle: NonNull<UvHandle>,
    functions: &'static UvFunctions,
}

/// The data of a handle. It is freed when libuv has closed the handle.
struct PollData {
    readable: Box<dyn FnMut()>,
    closed: Option<Box<dyn FnOnce()>>,
    layout: Layout,
    _socket: OwnedFd,
}

impl UvPoll {
    /// Calls `readable` each time the socket is readable while this is [started](Self::start), and
    /// `closed` after the last such call. `None` if the runtime has no such event loop.
    pub(crate) fn new(
        env: sys::napi_env,
        socket: OwnedFd,
        readable: impl FnMut() + 'static,
        closed: impl FnOnce() + 'static,
    ) -> Option<Self> {
        let functions = functions()?;
        let mut uv_loop = std::ptr::null_mut();
        // SAFETY: `env` is that of the running callback.
        let status = unsafe { sys::napi_get_uv_event_loop(env, &raw mut uv_loop) };
        if status != sys::Status::napi_ok || uv_loop.is_null() {
            return None;
        }
        // SAFETY: libuv reports the size of a handle. The handle is zeroed, initialized on its
        // loop's thread, and freed by `on_closed`, which libuv calls once it is closed.
        unsafe {
            let layout = Layout::from_size_align((functions.handle_size)(POLL), 16).ok()?;
            let handle = NonNull::new(alloc_zeroed(layout).cast::<UvHandle>())?;
            if (functions.poll_init)(uv_loop, handle.as_ptr(), socket.as_raw_fd()) != 0 {
                dealloc(handle.as_ptr().cast(), layout);
                return None;
            }
            let (readable, closed) = (Box::new(readable), Box::new(closed) as Box<_>);
            let data = PollData { readable, closed: Some(closed), layout, _socket: socket };
            (functions.set_data)(handle.as_ptr(), Box::into_raw(Box::new(data)).cast());
            (functions.unref)(handle.as_ptr());
            Some(Self { handle, functions })
        }
    }

    /// Starts or resumes waiting.
    pub(crate) fn start(&self) -> bool {
        // SAFETY: the handle is open until this is dropped.
        unsafe { (self.functions.poll_start)(self.handle.as_ptr(), READABLE, on_readable) == 0 }
    }

    /// Stops waiting.
    pub(crate) fn stop(&self) {
        // SAFETY: as in `start`.
        unsafe { (self.functions.poll_stop)(self.handle.as_ptr()) };
    }
}

impl Drop for UvPoll {
    fn drop(&mut self) {
        // SAFETY: the handle is closed once, on its loop's thread; libuv calls `on_closed` later.
        unsafe { (self.functions.close)(self.handle.as_ptr(), on_closed) };
    }
}

unsafe extern "C" fn on_readable(handle: *mut UvHandle, _status: c_int, _events: c_int) {
    let Some(functions) = functions() else { return };
    // SAFETY: `new` gave the data to the handle, which lives until `on_closed`. libuv calls back on
    // one thread, one call at a time. An error (`_status`) shows up in the next read.
    let data = unsafe { (functions.get_data)(handle).cast::<PollData>().as_mut() };
    if let Some(data) = data {
        (data.readable)();
    }
}

unsafe extern "C" fn on_closed(handle: *mut UvHandle) {
    let Some(functions) = functions() else { return };
    // SAFETY: libuv calls this once, when it no longer uses the handle. `new` made both the handle
    // and its data.
    unsafe {
        let mut data = Box::from_raw((functions.get_data)(handle).cast::<PollData>());
        dealloc(handle.cast(), data.layout);
        if let Some(closed) = data.closed.take() {
            closed();
        }
    }
}
