//! TLS: trusted certificates, and the certificate of the client.

use std::sync::Arc;
use std::{env, fmt, fs, io};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, Error, RootCertStore};

use super::server_certificate::{self, ServerVerifier};

/// Names a file of certificates that Node trusts in addition to Mozilla's.
const EXTRA_CA_CERTS: &str = "NODE_EXTRA_CA_CERTS";

/// A TLS configuration. It always verifies the server's certificate.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
    /// The reason why the extra certificates of the environment are not trusted; `None` if they are.
    unread: Option<Arc<str>>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// A client certificate and its private key, in PEM.
pub struct Identity<'a> {
    /// The certificate, then its intermediate certificates.
    pub chain: &'a [u8],
    /// The private key of the first certificate.
    pub key: &'a [u8],
}

impl Tls {
    /// Creates a configuration that trusts the certificates in `ca` (PEM); `None` means Mozilla's
    /// root certificates and those of `NODE_EXTRA_CA_CERTS`, as in Node. `client` is the certificate to
    /// present to the server. `server_name` is the name in the server's certificate, if it differs from
    /// the host.
    ///
    /// # Errors
    /// The option that is not valid. The error never contains text of the option's value.
    pub fn new(
        ca: Option<&[u8]>,
        client: Option<&Identity<'_>>,
        server_name: Option<&str>,
    ) -> Result<Self, String> {
        let (mut roots, mut trusted, mut unread) = (RootCertStore::empty(), Vec::new(), None);
        if let Some(pem) = ca {
            trusted = certificates("ca", pem)?;
            for certificate in &trusted {
                roots.add(certificate.clone()).map_err(|error| format!("ca: {error}"))?;
            }
        } else {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
            // As in Node, an unreadable file is ignored. The error of a refused certificate has the reason.
            match extra_certificates() {
                Ok(extra) => trusted = extra,
                Err(why) => unread = Some(why.into()),
            }
            roots.add_parsable_certificates(trusted.iter().cloned());
        }
        let provider = Arc::new(ring::default_provider());
        let verifier = ServerVerifier::new(roots, trusted, Arc::clone(&provider))?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let config = match client {
            None => config.with_no_client_auth(),
            Some(Identity { chain, key }) => {
                let chain = certificates("cert", chain)?;
                let key = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|_| "key holds no private key in PEM")?;
                let config = config.with_client_auth_cert(chain, key);
                config.map_err(|error| format!("cert and key: {error}"))?
            }
        };
        let parse = |name: &str| ServerName::try_from(name.to_owned());
        let server_name = server_name.map(parse).transpose();
        let server_name = server_name.map_err(|_| "serverName is not a valid host name")?;
        Ok(Self { config: Arc::new(config), server_name, unread })
    }

    /// If the user has set a server name: the same configuration with the host in its place.
    pub(crate) fn without_server_name(&self) -> Option<Self> {
        self.server_name.as_ref()?;
        Some(Self { server_name: None, ..self.clone() })
    }

    pub(crate) async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: &str,
        stream: S,
    ) -> Result<TlsStream<S>, String> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?,
        };
        let connecting = TlsConnector::from(Arc::clone(&self.config)).connect(name, stream);
        connecting.await.map_err(|error| self.text(&error))
    }

    /// The text of an error, with advice to the user.
    fn text(&self, error: &io::Error) -> String {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
        let Some(advice) = cause.and_then(server_certificate::advice) else {
            return error.to_string();
        };
        let unread = self.unread.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        format!("{error}: {advice}{unread}")
    }
}

/// The certificates that the environment adds to Mozilla's; the reason if they cannot be read.
fn extra_certificates() -> Result<Vec<CertificateDer<'static>>, String> {
    let Some(path) = env::var_os(EXTRA_CA_CERTS).filter(|path| !path.is_empty()) else {
        return Ok(Vec::new());
    };
    let pem =
        fs::read(path).map_err(|error| format!("{EXTRA_CA_CERTS} is not readable: {error}"))?;
    certificates(EXTRA_CA_CERTS, &pem)
}

/// Parses the certificates of a PEM text. There must be at least one.
fn certificates(option: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(format!("{option} holds no certificate in PEM")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_certificate_is_named_and_not_shown() {
        for pem in [&b""[..], b"secret"] {
            let error = Tls::new(Some(pem), None, None).unwrap_err();
            assert_eq!(error, "ca holds no certificate in PEM");
            let client = Identity { chain: pem, key: pem };
            let error = Tls::new(None, Some(&client), None).unwrap_err();
            assert_eq!(error, "cert holds no certificate in PEM");
        }
        let other = b"-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n";
        let error = Tls::new(Some(other), None, None).unwrap_err();
        assert!(error.starts_with("ca: ") && !error.contains("c2VjcmV0"), "{error}");
        let error = Tls::new(None, Some(&Identity { chain: other, key: other }), None).unwrap_err();
        assert_eq!(error, "key holds no private key in PEM");
        let error = Tls::new(None, None, Some("no host")).unwrap_err();
        assert_eq!(error, "serverName is not a valid host name");
    }

    #[test]
    fn without_a_ca_mozillas_roots_are_trusted() {
        assert!(Tls::new(None, None, Some("redis.example")).is_ok());
    }
}
