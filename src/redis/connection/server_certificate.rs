//! The verification of a server's certificate, and advice to the user if it fails.

use std::fmt;
use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::{WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore,
    SignatureScheme,
};

/// Accepts a certificate that a trusted authority has issued for the server's name, or that is
/// itself one of the trusted certificates, as OpenSSL does.
#[derive(Debug)]
pub(super) struct ServerVerifier {
    authorities: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl ServerVerifier {
    /// `trusted` are the certificates that the user has given, which `roots` includes.
    pub(super) fn new(
        roots: RootCertStore,
        trusted: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, String> {
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let authorities = builder.build().map_err(|error| error.to_string())?;
        Ok(Self { authorities, trusted })
    }

    /// Judges a trusted certificate that failed as one of an authority. Nobody else has its key, so
    /// its issuer and its purpose do not matter; its validity does, which was checked before these.
    /// Its names matter if it has any.
    fn judge_trusted(
        error: Error,
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
    ) -> Result<ServerCertVerified, Error> {
        let named = match &error {
            Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. }) => {
                Err(error)
            }
            Error::InvalidCertificate(
                CertificateError::UnknownIssuer
                | CertificateError::BadSignature
                | CertificateError::UnsupportedSignatureAlgorithmContext { .. }
                | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. }
                | CertificateError::InvalidPurposeContext { .. },
            ) => verify_server_name(&ParsedCertificate::try_from(certificate)?, name),
            _ if is_authority(&error) => {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)
            }
            _ => return Err(error),
        };
        match named {
            Err(error) if !has_no_names(&error) => Err(error),
            _ => Ok(ServerCertVerified::assertion()),
        }
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.authorities.verify_server_cert(certificate, intermediates, name, ocsp, now).or_else(
            |error| {
                if self.trusted.contains(certificate) {
                    Self::judge_trusted(error, certificate, name)
                } else {
                    Err(error)
                }
            },
        )
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, certificate, signature).map_err(own_key)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, certificate, signature).map_err(own_key)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// The failure of a signature that the server has made with its own key. Without a fault of the
/// server, this is the failure for a key of an unsupported size.
#[derive(Debug)]
struct UnverifiableKey;

impl fmt::Display for UnverifiableKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UnverifiableKey")
    }
}

impl std::error::Error for UnverifiableKey {}

/// Distinguishes a bad signature by the server's key from one by its authority.
fn own_key(error: Error) -> Error {
    match error {
        Error::InvalidCertificate(CertificateError::BadSignature) => {
            CertificateError::Other(OtherError(Arc::new(UnverifiableKey))).into()
        }
        error => error,
    }
}

pub(super) fn advice(error: &Error) -> Option<&'static str> {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            Some("give the certificate of its authority as tls.ca, or the server's own certificate")
        }
        Error::InvalidCertificate(CertificateError::BadSignature) => Some(
            "the trusted authority with the name of its issuer has another key, or a key of RSA \
             with less than 2048 bits: give the certificate of its authority as tls.ca, or the \
             server's own certificate",
        ),
        _ if has_no_names(error) => Some(
            "it has no subjectAltName, and a common name (CN) does not count: issue it with one, \
             or give the server's own certificate as tls.ca",
        ),
        Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. }) => {
            Some("name one of these as tls.serverName")
        }
        _ if is_authority(error) => Some(
            "it is that of an authority (CA:TRUE): give the server's own certificate as tls.ca, \
             or issue one with CA:FALSE",
        ),
        _ if is_named(error, "UnsupportedCertVersion") => {
            Some("it is an X.509 v1 certificate: issue one of version 3, with a subjectAltName")
        }
        _ if is_named(error, "UnsupportedCriticalExtension") => Some(
            "it has a critical extension that tollgate does not check, such as certificatePolicies: \
             issue it without this extension, or with the extension not critical",
        ),
        _ if is_named(error, "UnverifiableKey") => Some(
            "the server's key is not supported, such as RSA with less than 2048 bits: issue a \
             certificate for a key of RSA with 2048 to 8192 bits, P-256, P-384 or Ed25519",
        ),
        Error::InvalidCertificate(
            CertificateError::UnsupportedSignatureAlgorithmContext { .. }
            | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. },
        ) => Some(
            "its authority signs with a key or hash that is not supported, such as P-521 or SHA-1: \
             issue it by an authority with a key of RSA, P-256, P-384 or Ed25519, with SHA-256, or \
             give the server's own certificate as tls.ca",
        ),
        // The server names no reason.
        Error::AlertReceived(AlertDescription::HandshakeFailure) => Some(
            "the server shares no TLS parameters with tollgate. If its key is P-521, issue a \
             certificate for a key of RSA, P-256, P-384 or Ed25519. If it requires client \
             certificates, give tls.cert and tls.key",
        ),
        _ => None,
    }
}

fn has_no_names(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. })
            if presented.is_empty()
    )
}

/// Whether the certificate of an authority was presented as that of a server.
fn is_authority(error: &Error) -> bool {
    is_named(error, "CaUsedAsEndEntity")
}

/// Whether the error is one of webpki's for which rustls has no name.
fn is_named(error: &Error, name: &str) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(CertificateError::Other(other)) if other.to_string() == name
    )
}
