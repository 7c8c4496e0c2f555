//! TLS on a listener and on a client's connection.
//!
//! The certificates in `data` were made once with openssl, are valid for 100 years, and their keys
//! are public.

#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcplane::transport::Transport;
use mcplane::transport::listen::{self, Limits, Listener};
use mcplane::transport::tls::{ClientTls, RELOAD_EVERY, ServerTls};
use mcplane::{Client, NoArguments, Result, Server, Tool};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

/// Longest wait for anything that must happen.
const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn calls_over_tls_and_the_protocol_that_was_agreed_on() {
    let address = serve(server("first").alpn(&["h2", "http/1.1"]), Limits::default()).await;
    for (offered, agreed) in [
        (&["http/1.1"][..], Some(&b"http/1.1"[..])),
        (&["http/1.1", "h2"], Some(b"h2")),
        (&[], None),
    ] {
        let client = client().alpn(offered);
        for host in ["localhost", "127.0.0.1"] {
            let stream = client.connect(host, dial(&address).await).await.unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), agreed);
            hello(stream).await;
        }
    }
    let none = client().alpn(&["spdy/1"]).connect("localhost", dial(&address).await).await;
    assert!(none.is_err(), "nothing in common");
}

#[tokio::test]
async fn a_certificate_for_another_host_or_of_another_authority_is_refused() {
    let stranger = serve(server("stranger"), Limits::default()).await;
    let error = client().connect("localhost", dial(&stranger).await).await.unwrap_err();
    assert!(error.to_string().contains("TLS with localhost"), "{error}");
    assert!(error.to_string().contains("stranger.invalid"), "{error}");
    hello(client().connect("stranger.invalid", dial(&stranger).await).await.unwrap()).await;

    let first = serve(server("first"), Limits::default()).await;
    let distrustful = ClientTls::new().unwrap();
    let error = distrustful.connect("localhost", dial(&first).await).await.unwrap_err();
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
    let error = client().connect("no host", dial(&first).await).await.unwrap_err();
    assert!(error.to_string().contains("no host"), "{error}");
}

#[tokio::test]
async fn files_that_change_are_read_again_and_bad_ones_change_nothing() {
    let dir = Dir::new("reload");
    let tls = ServerTls::from_pem_files(dir.put("first.pem"), dir.put("first.key.pem")).unwrap();
    let address = serve(tls.clone(), Limits::default()).await;
    assert_eq!(shown(&address).await, der("first"));

    // A certificate without its key: half of a change.
    fs::copy(data("second.pem"), dir.path("first.pem")).unwrap();
    tokio::time::sleep(RELOAD_EVERY).await;
    assert_eq!(shown(&address).await, der("first"));
    let problem = tls.problem().expect("it does not fit");
    assert!(problem.contains("first.key.pem"), "{problem}");

    // The other half.
    fs::copy(data("second.key.pem"), dir.path("first.key.pem")).unwrap();
    tokio::time::sleep(RELOAD_EVERY).await;
    assert_eq!(shown(&address).await, der("second"));
    assert_eq!(tls.problem(), None);

    fs::remove_file(dir.path("first.pem")).unwrap();
    tokio::time::sleep(RELOAD_EVERY).await;
    assert_eq!(shown(&address).await, der("second"));
    assert!(tls.problem().expect("it is gone").contains("cannot read"));
}

#[tokio::test]
async fn who_speaks_no_tls_is_hung_up_on_and_stops_nobody() {
    let limits = Limits::default().handshake(Duration::from_millis(200));
    let address = serve(server("first"), limits).await;
    let mut silent = dial(&address).await;
    let mut plain = dial(&address).await;
    plain.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    hello(client().connect("localhost", dial(&address).await).await.unwrap()).await;
    for stream in [&mut plain, &mut silent] {
        // An alert may come first; then it is over.
        wait(stream.read_to_end(&mut Vec::new())).await.unwrap();
    }

    // And a client that finds a server without TLS.
    let plain = Listener::bind(&"127.0.0.1:0".parse().unwrap(), Limits::default()).await.unwrap();
    let address = plain.local_address().to_string();
    let service = Server::new("plain", "1").start().unwrap();
    tokio::spawn(listen::serve(plain, service, std::future::pending()));
    let error = wait(client().connect("localhost", dial(&address).await)).await.unwrap_err();
    assert!(error.to_string().contains("TLS with localhost"), "{error}");
}

#[tokio::test]
async fn files_of_no_use_are_named() {
    let dir = Dir::new("useless");
    fs::write(dir.path("empty.pem"), "nothing").unwrap();
    let (empty, missing) = (dir.path("empty.pem"), dir.path("missing.pem"));
    let (certificate, key) = (data("first.pem"), data("first.key.pem"));
    for (certificate, key, named, why) in [
        (&missing, &key, "missing.pem", "cannot read"),
        (&certificate, &missing, "missing.pem", "cannot read"),
        (&empty, &key, "empty.pem", "no certificate"),
        (&certificate, &empty, "empty.pem", "no private key"),
        (&key, &key, "first.key.pem", "no certificate"),
        (&certificate, &data("second.key.pem"), "second.key.pem", "with the key"),
    ] {
        let error = ServerTls::from_pem_files(certificate, key).unwrap_err().to_string();
        assert!(error.contains(named) && error.contains(why), "{error}");
    }
    let error = ClientTls::new().unwrap().ca_pem_file(&empty).unwrap_err().to_string();
    assert!(error.contains("empty.pem"), "{error}");
}

/// One call over an encrypted connection.
async fn hello(stream: TlsStream<TcpStream>) {
    let client = Client::builder("t", "1").connect(Encrypted(stream)).await.unwrap();
    let result = wait(client.call_tool("hello", &json!({}))).await.unwrap();
    assert_eq!(result.content.first().unwrap().as_text(), Some("hello"));
    client.close().await;
}

struct Encrypted(TlsStream<TcpStream>);

impl Transport for Encrypted {
    type Reader = ReadHalf<TlsStream<TcpStream>>;
    type Writer = WriteHalf<TlsStream<TcpStream>>;

    fn open(self) -> Result<(Self::Reader, Self::Writer)> {
        Ok(tokio::io::split(self.0))
    }
}

/// The certificate that the server shows, as DER.
async fn shown(address: &str) -> Vec<u8> {
    let stream = client().connect("localhost", dial(address).await).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap().first().unwrap().to_vec()
}

fn der(name: &str) -> Vec<u8> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    CertificateDer::from_pem_file(data(&format!("{name}.pem"))).unwrap().to_vec()
}

fn server(name: &str) -> ServerTls {
    let [certificate, key] = [".pem", ".key.pem"].map(|end| data(&format!("{name}{end}")));
    ServerTls::from_pem_files(certificate, key).unwrap()
}

fn client() -> ClientTls {
    ClientTls::new().unwrap().ca_pem_file(data("ca.pem")).unwrap()
}

async fn serve(tls: ServerTls, limits: Limits) -> String {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), limits).await.unwrap();
    let listener = listener.with_tls(tls);
    let address = listener.local_address().to_string();
    let hello = Tool::inline("hello", |_, _: NoArguments| "hello");
    let service = Server::new("tls", "1").tool(hello).start().unwrap();
    tokio::spawn(listen::serve(listener, service, std::future::pending()));
    address
}

async fn dial(address: &str) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}

fn data(name: &str) -> PathBuf {
    let name = format!("test-only-{name}");
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

async fn wait<T>(what: impl Future<Output = T>) -> T {
    timeout(LIMIT, what).await.expect("it took too long")
}

/// A directory for files that change, removed in the end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("mcplane-tls-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn put(&self, name: &str) -> PathBuf {
        fs::copy(data(name), self.path(name)).unwrap();
        self.path(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
