//! How a server is reached: where it is, and what it asks of those who come.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::tls::Tls;
use crate::redis::inline_io::inline_task::{Held, Stepped};
use crate::redis::inline_io::read_ownership::Reading;
#[cfg(unix)]
use crate::redis::inline_io::socket::Socket;

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A host, by name or IP address, and a port.
    Tcp(String, u16),
    /// A unix socket.
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

/// Who comes. Its debug output shows no password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// The user; without one it is the server's default user.
    pub username: Option<String>,
    /// The password, if the server asks for one.
    pub password: Option<String>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("username", &self.username).finish_non_exhaustive()
    }
}

/// Tells who comes, anew for each attempt to connect: so a password can change.
pub trait Logins: Send + Sync {
    /// Asks for it. An error's text is shown to users.
    fn ask(&self) -> BoxFuture<'static, Result<Login, String>>;
}

/// How it is known who comes.
#[derive(Clone)]
pub enum Credentials {
    /// Always the same.
    Fixed(Login),
    /// Asked for each time.
    Asked(Arc<dyn Logins>),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(login) => login.fmt(f),
            Self::Asked(_) => f.write_str("Asked"),
        }
    }
}

/// How servers are reached that belong together.
#[derive(Debug, Clone)]
pub struct Access {
    /// Who comes.
    pub credentials: Credentials,
    /// Whether and how TLS is spoken; not over unix sockets.
    pub tls: Option<Tls>,
    /// The number of the database.
    pub database: i64,
    /// How long one attempt to connect may take.
    pub timeout: Duration,
}

impl Access {
    /// Connects; an error says where to, and why not.
    pub(crate) async fn connect(&self, address: &Address) -> Result<Opened, Arc<str>> {
        match timeout(self.timeout, self.connected(address)).await {
            Ok(connected) => connected.map_err(|why| format!("{address}: {why}").into()),
            Err(_) => Err(format!("{address} did not answer in time").into()),
        }
    }

    async fn connected(&self, address: &Address) -> Result<Opened, String> {
        let login = match &self.credentials {
            Credentials::Fixed(login) => login.clone(),
            Credentials::Asked(logins) => logins.ask().await?,
        };
        let settings = self.settings(login);
        match address {
            Address::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(text)?;
                stream.set_nodelay(true).map_err(text)?;
                #[cfg(unix)]
                let stream = Socket::new(stream).map_err(text)?;
                #[cfg(unix)]
                let reading = Some(Arc::clone(stream.reading()));
                #[cfg(not(unix))]
                let reading = None;
                match &self.tls {
                    None => Opened::over(stream, reading, &settings).await,
                    Some(tls) => {
                        Opened::over(tls.over(host, stream).await?, reading, &settings).await
                    }
                }
            }
            #[cfg(unix)]
            Address::Unix(path) => {
                let stream = tokio::net::UnixStream::connect(path).await.map_err(text)?;
                let stream = Socket::new(stream).map_err(text)?;
                let reading = Some(Arc::clone(stream.reading()));
                Opened::over(stream, reading, &settings).await
            }
            #[cfg(not(unix))]
            Address::Unix(_) => Err("this system has no unix sockets".into()),
        }
    }

    fn settings(&self, login: Login) -> RedisConnectionInfo {
        let mut settings = RedisConnectionInfo::default()
            .set_db(self.database)
            .set_lib_name("tollgate", env!("CARGO_PKG_VERSION"));
        if let Some(username) = login.username {
            settings = settings.set_username(username);
        }
        if let Some(password) = login.password {
            settings = settings.set_password(password);
        }
        settings
    }
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}

/// What is sent over, and who sends it.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) connection: MultiplexedConnection,
    /// It ends with the connection.
    pub(crate) driver: Weak<Stepped>,
    /// Who reads, where callers can.
    pub(crate) reading: Option<Arc<Reading>>,
}

impl Line {
    /// Reads what has come, on this thread, if it is a caller's to read and the caller may not have come to it.
    pub(crate) fn catch_up(&self) {
        let Some(reading) = self.reading.as_ref().filter(|reading| reading.is_claimed()) else {
            return;
        };
        let Some(driver) = self.driver.upgrade() else { return };
        reading.expect();
        driver.ring();
        driver.hold().as_mut().map(Held::step);
    }
}

/// A connection to a server, which ends when this is dropped.
pub(crate) struct Opened {
    pub(crate) line: Line,
    tasks: Vec<JoinHandle<()>>,
}

impl Opened {
    async fn over<S>(
        stream: S,
        reading: Option<Arc<Reading>>,
        settings: &RedisConnectionInfo,
    ) -> Result<Self, String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // Deadlines are the sender's: a timeout of the client's would break links that are well.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let made = MultiplexedConnection::new_with_config(settings, stream, config).await;
        let (connection, driver) = made.map_err(text)?;
        let (stepped, driver) = Stepped::spawn(&Handle::current(), driver);
        let mut tasks = vec![driver];
        if let Some(reading) = &reading {
            let overseeing = Arc::clone(reading).oversee(Arc::downgrade(&stepped));
            tasks.push(tokio::spawn(overseeing));
        }
        let line = Line { connection, driver: Arc::downgrade(&stepped), reading };
        Ok(Self { line, tasks })
    }

    /// Waits until the connection has ended, whoever ended it.
    pub(crate) async fn ended(&mut self) {
        // A driver that panicked has ended, too.
        let _ended = (&mut self.tasks[0]).await;
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
