//! The address of a remote server, and the secure connection to it.
//!
//! The address comes from the configuration only. Plain text is sent to this machine only, unless the
//! configuration allows more; the address that was checked is the one that is connected to. Certificates
//! are checked against the system's authorities, or against a file from the configuration. A server whose
//! certificate itself is configured is accepted by it alone: a self-signed certificate has no name and no
//! issuer.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};

use super::TalkError;
use super::wire::{Bounded, Socket, Wire};

/// The files in which systems keep the certificates of their authorities.
const AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

/// A server's address: scheme, host, port and path of a WebSocket URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    secure: bool,
    host: String,
    port: u16,
    path: String,
}

impl Endpoint {
    /// Parses a `ws://` or `wss://` URL. Refuses a URL that holds a secret, because URLs end up in logs.
    pub fn parse(url: &str) -> Result<Self, String> {
        let (secure, rest) = match url.split_once("://") {
            Some(("ws", rest)) => (false, rest),
            Some(("wss", rest)) => (true, rest),
            _ => return Err("it does not begin with ws:// or wss://".into()),
        };
        if rest.contains(['?', '#', '@']) {
            return Err("it must not hold a user, a query or a fragment".into());
        }
        let plain = |c: char| c.is_ascii_graphic();
        if !rest.chars().all(plain) {
            return Err("it holds a character that no URL holds".into());
        }
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let usual = if secure { 443 } else { 80 };
        let bracketed = authority.strip_prefix('[').and_then(|a| a.split_once(']'));
        let (host, port) = match bracketed {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => match authority.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let port = port.map_or(Ok(usual), str::parse).map_err(|_| "its port is no number")?;
        if host.is_empty() || (bracketed.is_none() && host.contains(':')) {
            return Err("its host is missing".into());
        }
        let path = path.trim_end_matches('/').to_owned();
        Ok(Self { secure, host: host.to_ascii_lowercase(), port, path })
    }

    /// Says whether the host is this machine, by its name or number alone.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost"
            || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Connects with a timeout; plain text leaves this machine only if `insecure` is set.
    pub(super) fn connect(&self, tls: &TlsOptions, limit: Duration) -> Result<Wire, TalkError> {
        let until = Instant::now() + limit;
        if !self.secure && !self.is_loopback() && !tls.insecure {
            return Err(TalkError::Insecure);
        }
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let addresses: Vec<SocketAddr> = found.map_err(TalkError::Unreachable)?.collect();
        let mut last = std::io::Error::other("its host name cannot be resolved");
        for address in addresses {
            // A name that resolves to another machine gets nothing in plain text.
            if !self.secure && !tls.insecure && !address.ip().is_loopback() {
                return Err(TalkError::Insecure);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(TalkError::Late);
            }
            match TcpStream::connect_timeout(&address, left) {
                Ok(stream) => return self.over(stream, tls, until),
                Err(error) => last = error,
            }
        }
        match last.kind() {
            std::io::ErrorKind::TimedOut => Err(TalkError::Late),
            _ => Err(TalkError::Unreachable(last)),
        }
    }

    fn over(&self, stream: TcpStream, tls: &TlsOptions, until: Instant) -> Result<Wire, TalkError> {
        // Send small frames at once: each request waits for its answer.
        let _slower = stream.set_nodelay(true);
        let bounded = Bounded::new(Socket::Tcp(stream), until);
        if !self.secure {
            return Ok(Wire::Plain(bounded));
        }
        let unsure = |why: String| TalkError::Certificate(why);
        let name = ServerName::try_from(self.host.clone()).map_err(|e| unsure(e.to_string()))?;
        let config = Arc::new(tls.tls()?);
        let client = ClientConnection::new(config, name).map_err(|e| unsure(e.to_string()))?;
        Ok(Wire::Tls(Box::new(StreamOwned::new(client, bounded))))
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.secure { "wss" } else { "ws" };
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}{}", self.host, self.port, self.path)
        } else {
            write!(f, "{scheme}://{}:{}{}", self.host, self.port, self.path)
        }
    }
}

/// The security options of a connection.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Allow plain text to another machine.
    pub insecure: bool,
    /// The CA file for its certificate; `None` for the system's.
    pub authorities: Option<PathBuf>,
    /// The SHA-256 of the certificate that the server must have, instead of an issuer.
    pub fingerprint: Option<[u8; 32]>,
}

impl TlsOptions {
    fn tls(&self) -> Result<ClientConfig, TalkError> {
        let trust = Trust::load(self.authorities.as_deref())?;
        let mut trusted = RootCertStore::empty();
        for certificate in &trust.authorities {
            // Skip a malformed authority.
            let _unusable = trusted.add(certificate.clone().into());
        }
        let unsure = |why: String| TalkError::Certificate(why);
        let provider = trust.provider;
        let usual =
            WebPkiServerVerifier::builder_with_provider(Arc::new(trusted), provider.clone())
                .build()
                .map_err(|e| unsure(e.to_string()))?;
        let named = self.authorities.as_ref().map(|_| trust.authorities).unwrap_or_default();
        let verifier = Verifier { usual, named, fingerprint: self.fingerprint };
        let versions = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| unsure(e.to_string()))?;
        let versions = versions.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        Ok(versions.with_no_client_auth())
    }
}

/// Accepts a certificate with a trusted issuer, or the configured certificate itself. In both cases the
/// server has to prove that it holds the private key.
#[derive(Debug)]
struct Verifier {
    usual: Arc<WebPkiServerVerifier>,
    /// The configured certificates, in DER.
    named: Vec<Vec<u8>>,
    fingerprint: Option<[u8; 32]>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(wanted) = self.fingerprint {
            let is = ring::digest::digest(&ring::digest::SHA256, end);
            if is.as_ref() != wanted {
                let why = rustls::CertificateError::ApplicationVerificationFailure;
                return Err(rustls::Error::InvalidCertificate(why));
            }
            return Ok(ServerCertVerified::assertion());
        }
        if self.named.iter().any(|named| named.as_slice() == end.as_ref()) {
            return Ok(ServerCertVerified::assertion());
        }
        self.usual.verify_server_cert(end, between, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// The cryptography and the authorities of certificate checks.
pub struct Trust {
    /// The cryptography.
    pub provider: Arc<CryptoProvider>,
    /// Certificates of authorities, in DER.
    pub authorities: Vec<Vec<u8>>,
}

impl Trust {
    /// Reads the authorities of this file, or those of the system.
    pub fn load(file: Option<&Path>) -> Result<Self, TalkError> {
        let unsure = |why: String| TalkError::Certificate(why);
        let file = match file {
            Some(file) => file,
            None => AUTHORITIES
                .into_iter()
                .map(Path::new)
                .find(|p| p.is_file())
                .ok_or_else(|| unsure("this system has no file of authorities".into()))?,
        };
        let authorities = certificates(file).map_err(unsure)?;
        if authorities.is_empty() {
            return Err(unsure(format!("{} holds no certificate", file.display())));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Ok(Self { provider, authorities })
    }
}

fn certificates(file: &Path) -> Result<Vec<Vec<u8>>, String> {
    let all =
        CertificateDer::pem_file_iter(file).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(all.flatten().map(|certificate| certificate.to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_written() {
        for (url, written) in [
            ("ws://127.0.0.1:18789", "ws://127.0.0.1:18789"),
            ("ws://127.0.0.1:18789/", "ws://127.0.0.1:18789"),
            ("wss://Gate.Example", "wss://gate.example:443"),
            ("wss://gate.example/a/b/", "wss://gate.example:443/a/b"),
            ("ws://[::1]:9", "ws://[::1]:9"),
        ] {
            assert_eq!(Endpoint::parse(url).map(|e| e.to_string()).as_deref(), Ok(written));
        }
        for url in [
            "http://127.0.0.1",
            "ws://",
            "ws://:1",
            "ws://a:b",
            "ws://user@a",
            "ws://a/?token=x",
            "ws://a#x",
            "ws://a b",
            "ws://a\u{202e}",
            "ws://::1:9",
        ] {
            assert!(Endpoint::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn loopback_is_recognised_by_number_or_name_only() {
        for (url, here) in [
            ("ws://127.0.0.1:1", true),
            ("ws://127.9.9.9:1", true),
            ("ws://[::1]:1", true),
            ("ws://localhost:1", true),
            ("ws://127.0.0.1.example:1", false),
            ("ws://localhost.example:1", false),
            ("ws://10.0.0.1:1", false),
            ("ws://0.0.0.0:1", false),
        ] {
            assert_eq!(Endpoint::parse(url).expect("read").is_loopback(), here, "{url}");
        }
    }

    #[test]
    fn plain_text_does_not_leave_this_machine() {
        let far = Endpoint::parse("ws://192.0.2.1:9").expect("read");
        let refused = far.connect(&TlsOptions::default(), Duration::from_millis(50)).err();
        assert!(matches!(refused, Some(TalkError::Insecure)), "{refused:?}");
    }
}
