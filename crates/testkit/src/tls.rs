//! TLS in front of a plain server on loopback, for tests. Its key is in this tree: only the test's own
//! authority trusts it, whose key was not kept.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tls").join(name)
}

/// Returns the authority that vouches for it.
#[must_use]
pub fn authority() -> PathBuf {
    file("authority.pem")
}

/// Returns its own certificate.
#[must_use]
pub fn certificate() -> PathBuf {
    file("cert.pem")
}

/// Returns the fingerprint of its own certificate, as people write it.
#[must_use]
pub fn fingerprint() -> String {
    let certificate = CertificateDer::from_pem_file(certificate()).expect("a certificate");
    let digest = ring::digest::digest(&ring::digest::SHA256, &certificate);
    digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
}

/// Speaks TLS as `localhost` before the server on this port; returns its own port.
#[must_use]
pub fn front(behind: u16) -> u16 {
    let certificate = CertificateDer::from_pem_file(file("cert.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(file("key.pem")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("they fit");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    // The same under another address, which the certificate does not name.
    let other = TcpListener::bind(("127.0.0.2", port)).expect("the same port");
    for listener in [listener, other] {
        let config = Arc::clone(&config);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let config = Arc::clone(&config);
                std::thread::spawn(move || {
                    let secure = ServerConnection::new(config).expect("a connection");
                    let plain = TcpStream::connect(("127.0.0.1", behind)).expect("it is there");
                    pass(StreamOwned::new(secure, stream), plain);
                });
            }
        });
    }
    port
}

/// Passes bytes on both ways until one side goes.
fn pass(mut secure: StreamOwned<ServerConnection, TcpStream>, mut plain: TcpStream) {
    let turn = Some(Duration::from_millis(2));
    secure.sock.set_read_timeout(turn).expect("set");
    plain.set_read_timeout(turn).expect("set");
    let mut buffer = [0; 16 << 10];
    loop {
        match secure.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) if plain.write_all(&buffer[..count]).is_ok() => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            _ => return,
        }
        match plain.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) if secure.write_all(&buffer[..count]).is_ok() => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            _ => return,
        }
    }
}
