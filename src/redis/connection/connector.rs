//! Opens sessions: resolves credentials, connects the socket, performs the TLS handshake and the
//! Redis handshake.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::dial;
use super::reply_bound::{BoundFailure, BoundedReplies};
use super::tls::Tls;
use crate::redis::inline_io::inline_task::{InlineTask, PollGuard};
use crate::redis::inline_io::read_ownership::ReadOwnership;
#[cfg(unix)]
use crate::redis::inline_io::socket::InlineSocket;

/// The most requests in flight: a distant server has one for each turn of the event loop.
pub(crate) const MAX_IN_FLIGHT: usize = 1_000;

pub(crate) const NO_ANSWER: &str = "Redis does not answer";

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// A host (name or IP address) and a port.
    Tcp(String, u16),
    /// The path of a unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// The username and password of a client. The debug output omits the password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The username; `None` means the server's default user.
    pub username: Option<String>,
    /// The password, if the server requires one.
    pub password: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("username", &self.username).finish_non_exhaustive()
    }
}

/// Provides credentials. It is called for each attempt to connect, so a password can change.
pub trait CredentialsProvider: Send + Sync {
    /// Returns the current credentials. Users see the text of an error.
    fn credentials(&self) -> BoxFuture<'static, Result<Credentials, String>>;
}

/// The source of the credentials.
#[derive(Clone)]
pub enum CredentialsSource {
    /// The same credentials for every attempt to connect.
    Fixed(Credentials),
    /// A provider that is called for each attempt to connect.
    Provider(Arc<dyn CredentialsProvider>),
}

/// The options for opening sessions to the servers of one store.
#[derive(Clone)]
pub struct Connector {
    /// The credentials.
    pub credentials: CredentialsSource,
    /// The TLS configuration; `None` means plain text. Unix sockets never use TLS.
    pub tls: Option<Tls>,
    /// The number of the database.
    pub database: i64,
    /// The time limit of one attempt to connect.
    pub timeout: Duration,
}

/// The commands that a client sends on a new session, and in health checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// With `CLIENT`, `HELLO`, `INFO` and perhaps `CLUSTER`.
    Full,
    /// Without them: some proxies end a session that sends a command they do not know.
    Minimal,
}

/// A place where the server of an address may listen: a name may have several.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) address: &'a Address,
    /// `None` for a unix socket, and in the simulated network.
    pub(crate) socket: Option<SocketAddr>,
}

#[derive(Debug)]
pub(crate) enum OpenError {
    Closed(String),
    Other(String),
}

impl OpenError {
    pub(crate) fn at(self, address: &Address) -> Arc<str> {
        match self {
            Self::Closed(why) => format!(
                "{address}: the server closed the connection during the handshake ({why}): it \
                 starts or stops, requires TLS, or is no Redis server"
            ),
            Self::Other(why) => format!("{address}: {why}"),
        }
        .into()
    }
}

impl From<String> for OpenError {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

impl From<&str> for OpenError {
    fn from(why: &str) -> Self {
        Self::Other(why.into())
    }
}

impl Connector {
    /// Opens a session. The error names the address and the reason.
    pub(crate) async fn connect(&self, address: &Address) -> Result<Session, Arc<str>> {
        let opened = self.first_of(address, |target| self.open(target, Handshake::Full)).await;
        opened.map_err(|why| why.at(address))
    }

    /// Makes attempts with the targets of an address until one succeeds. The next attempt does not
    /// wait long for the last one.
    pub(crate) async fn first_of<'a, T, F: Future<Output = Result<T, OpenError>>>(
        &self,
        address: &'a Address,
        attempt: impl Fn(Target<'a>) -> F,
    ) -> Result<T, OpenError> {
        let sockets = match address {
            #[cfg(feature = "simulation")]
            _ if crate::redis::simulation::has_network() => vec![None],
            Address::Tcp(host, port) => {
                let late = |_| OpenError::from("the addresses of the name did not arrive in time");
                let resolving = timeout(self.timeout, dial::addresses_of(host, *port));
                let resolved = resolving.await.map_err(late)?.map_err(text)?;
                resolved.into_iter().map(Some).collect()
            }
            Address::Unix(_) => vec![None],
        };
        dial::first_success(sockets, |socket| attempt(Target { address, socket })).await
    }

    pub(crate) async fn open(
        &self,
        target: Target<'_>,
        handshake: Handshake,
    ) -> Result<Session, OpenError> {
        let deadline = Instant::now() + self.timeout;
        let credentials = match &self.credentials {
            CredentialsSource::Fixed(credentials) => credentials.clone(),
            CredentialsSource::Provider(provider) => {
                let late = |_| OpenError::from("the credentials did not arrive in time");
                timeout_at(deadline, provider.credentials()).await.map_err(late)??
            }
        };
        let settings = self.settings(credentials, handshake);
        let opening = self.open_session(target, settings);
        timeout_at(deadline, opening).await.unwrap_or_else(|_| Err(NO_ANSWER.into()))
    }

    async fn open_session(
        &self,
        Target { address, socket }: Target<'_>,
        settings: RedisConnectionInfo,
    ) -> Result<Session, OpenError> {
        #[cfg(feature = "simulation")]
        if let Some(connecting) = crate::redis::simulation::connect(&address.to_string()) {
            let stream = connecting.await.map_err(text)?;
            return Session::start(stream, None, &settings).await;
        }
        match address {
            Address::Tcp(host, _) => {
                let socket = socket.ok_or("the name was not resolved")?;
                let stream = TcpStream::connect(socket).await.map_err(text)?;
                stream.set_nodelay(true).map_err(text)?;
                #[cfg(unix)]
                let stream = InlineSocket::new(stream).map_err(text)?;
                #[cfg(unix)]
                let ownership = Some(Arc::clone(stream.read_ownership()));
                #[cfg(not(unix))]
                let ownership = None;
                match &self.tls {
                    None => Session::start(stream, ownership, &settings).await,
                    Some(tls) => {
                        Session::start(tls.handshake(host, stream).await?, ownership, &settings)
                            .await
                    }
                }
            }
            #[cfg(unix)]
            Address::Unix(path) => {
                let stream = tokio::net::UnixStream::connect(path).await.map_err(text)?;
                let stream = InlineSocket::new(stream).map_err(text)?;
                let ownership = Some(Arc::clone(stream.read_ownership()));
                Session::start(stream, ownership, &settings).await
            }
            #[cfg(not(unix))]
            Address::Unix(_) => Err("unix sockets are not supported on this system".into()),
        }
    }

    fn settings(&self, credentials: Credentials, handshake: Handshake) -> RedisConnectionInfo {
        let settings = RedisConnectionInfo::default().set_db(self.database);
        let mut settings = match handshake {
            Handshake::Full => settings.set_lib_name("tollgate", env!("CARGO_PKG_VERSION")),
            Handshake::Minimal => settings.set_skip_set_lib_name(),
        };
        if let Some(username) = credentials.username {
            settings = settings.set_username(username);
        }
        if let Some(password) = credentials.password {
            settings = settings.set_password(password);
        }
        settings
    }
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}

pub(crate) fn is_closed(error: &RedisError) -> bool {
    error.is_io_error() || error.is_connection_dropped()
}

/// A handle for sending commands on a session. It does not keep the session open.
#[derive(Clone)]
pub(crate) struct SessionHandle {
    pub(crate) connection: MultiplexedConnection,
    /// The task that reads and writes the socket. It ends with the session.
    pub(crate) driver: Weak<InlineTask>,
    /// The read ownership of the socket; `None` on systems without inline I/O.
    pub(crate) read_ownership: Option<Arc<ReadOwnership>>,
    bound_failure: BoundFailure,
}

impl SessionHandle {
    /// The reason of an error of the client library that has ended the session.
    pub(crate) fn reason(&self, error: &RedisError) -> Arc<str> {
        self.bound_failure.get().cloned().unwrap_or_else(|| error.to_string().into())
    }

    /// The error of an attempt to connect whose session has ended.
    pub(crate) fn open_error(&self, why: &str) -> OpenError {
        match self.bound_failure.get() {
            Some(why) => OpenError::Other(why.to_string()),
            None => OpenError::Closed(why.into()),
        }
    }

    /// Reads available answers on this thread if the event loop owns the socket: it may be busy.
    pub(crate) fn read_available(&self) {
        let claimed = self.read_ownership.as_ref().filter(|ownership| ownership.is_claimed());
        let Some(ownership) = claimed else { return };
        let Some(driver) = self.driver.upgrade() else { return };
        ownership.request_read(&driver);
        driver.try_lock().as_mut().map(PollGuard::poll_while_woken);
    }
}

/// One established socket, past the TLS and Redis handshakes. Dropping it closes the socket.
pub(crate) struct Session {
    pub(crate) handle: SessionHandle,
    tasks: Vec<JoinHandle<()>>,
}

impl Session {
    async fn start<S>(
        stream: S,
        read_ownership: Option<Arc<ReadOwnership>>,
        settings: &RedisConnectionInfo,
    ) -> Result<Self, OpenError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // The sender enforces deadlines. A response timeout would break healthy sessions.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        // A request that found the client's queue full would lose its place in the order.
        let config = config.set_pipeline_buffer_size(MAX_IN_FLIGHT + 10);
        let bound_failure = BoundFailure::default();
        let stream = BoundedReplies::new(stream, Arc::clone(&bound_failure));
        let made = MultiplexedConnection::new_with_config(settings, stream, config).await;
        let (connection, driver) = made.map_err(|error| match bound_failure.get() {
            Some(why) => OpenError::Other(why.to_string()),
            None if is_closed(&error) => OpenError::Closed(error.to_string()),
            None => OpenError::Other(error.to_string()),
        })?;
        let (inline_task, driver) = InlineTask::spawn(&Handle::current(), driver);
        let mut tasks = vec![driver];
        if let Some(ownership) = &read_ownership {
            let watchdog = Arc::clone(ownership).run_watchdog(Arc::downgrade(&inline_task));
            tasks.push(tokio::spawn(watchdog));
        }
        let driver = Arc::downgrade(&inline_task);
        let handle = SessionHandle { connection, driver, read_ownership, bound_failure };
        Ok(Self { handle, tasks })
    }

    /// Waits until the session has ended, for whatever reason.
    pub(crate) async fn closed(&mut self) {
        // An error means that the driver panicked, which ends the session too.
        let _ended = (&mut self.tasks[0]).await;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
