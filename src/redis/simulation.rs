//! A network in the place of sockets (feature `simulation`). See `tests/simulation/` beside `src/`.

use std::cell::{Cell, RefCell};
use std::io;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

/// A connected socket.
pub trait SimulatedSocket: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> SimulatedSocket for S {}

/// The result of an attempt to connect.
pub type Connecting = BoxFuture<'static, io::Result<Box<dyn SimulatedSocket>>>;

type Network = Box<dyn Fn(&str) -> Connecting>;

thread_local! {
    static NETWORK: RefCell<Option<Network>> = const { RefCell::new(None) };
    static SUSPENDED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Sets for how long all processes of this thread have been suspended. Virtual time stands still
/// meanwhile, and the time of the day does not.
pub fn set_suspended(time: Duration) {
    SUSPENDED.set(time);
}

/// The time of the day: only its differences to the virtual time matter.
pub(crate) fn time_of_day() -> Duration {
    SUSPENDED.get()
}

/// Sets the network of this thread's new sessions. It receives addresses such as `host:6379`.
pub fn set_network(network: impl Fn(&str) -> Connecting + 'static) {
    NETWORK.set(Some(Box::new(network)));
}

/// Whether this thread has a network, which needs no addresses of names.
pub(crate) fn has_network() -> bool {
    NETWORK.with_borrow(Option::is_some)
}

/// Connects to an address in the network of this thread, if it has one.
pub(crate) fn connect(address: &str) -> Option<Connecting> {
    NETWORK.with_borrow(|network| network.as_ref().map(|network| network(address)))
}
