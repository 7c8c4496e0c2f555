//! The floor behind a socket.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::{Responder, Writes, serve, web};
use crate::client::Transport;

/// Reads its template from stdin, listens, prints the URL as the one line on stdout, and answers
/// until stdin ends. `listen` is `HOST:PORT` (port 0 picks one) or, for Unix sockets, `unix:PATH`;
/// `None` is 127.0.0.1 with a port of the system's choice.
///
/// TCP and Unix sockets are served by the loop of the stdio floor, a thread for each connection;
/// HTTP by hyper alone, WebSocket by its library alone, on one thread.
///
/// # Errors
/// When stdin does not start with a template, or the address cannot be listened at.
pub fn serve_listening(
    transport: Transport,
    listen: Option<&str>,
    writes: Writes,
) -> io::Result<()> {
    let responder = Responder::read(&mut io::stdin().lock())?;
    let listen = listen.unwrap_or("127.0.0.1:0");
    if transport == Transport::Unix {
        return serve_unix(listen, responder, writes);
    }
    let listener = TcpListener::bind(listen)?;
    let at = listener.local_addr()?;
    let serving = move || match transport {
        Transport::Tcp => serve_tcp(&listener, &responder, writes),
        _ => web::serve(listener, responder, transport),
    };
    until_stdin_ends(&url(transport, at), serving)
}

/// A path for a Unix socket of this process that nobody uses yet.
#[must_use]
pub fn socket_path(name: &str) -> PathBuf {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("mcplane-{name}-{}-{number}.sock", std::process::id()))
}

/// The URL that clients use.
fn url(transport: Transport, at: SocketAddr) -> String {
    match transport {
        Transport::Http => format!("http://{at}/mcp"),
        Transport::Sse => format!("http://{at}/sse"),
        Transport::WebSocket => format!("ws://{at}/mcp"),
        Transport::Tcp | Transport::Unix => format!("tcp://{at}"),
    }
}

/// Says where, and serves on a thread that dies with the process.
fn until_stdin_ends(
    url: &str,
    serving: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<()> {
    writeln!(io::stdout(), "{url}")?;
    thread::Builder::new().name("mcplane-floor".to_owned()).spawn(move || {
        if let Err(error) = serving() {
            let _ = writeln!(io::stderr(), "the floor: {error}");
            std::process::exit(1);
        }
    })?;
    let mut rest = [0; 64];
    while io::stdin().lock().read(&mut rest)? > 0 {}
    Ok(())
}

fn serve_tcp(listener: &TcpListener, responder: &Responder, writes: Writes) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        on_a_thread(responder, writes, stream.try_clone()?, stream)?;
    }
}

#[cfg(unix)]
fn serve_unix(path: &str, responder: Responder, writes: Writes) -> io::Result<()> {
    let path = PathBuf::from(path.strip_prefix("unix:").unwrap_or(path));
    let listener = std::os::unix::net::UnixListener::bind(&path)?;
    let url = format!("unix:{}", path.display());
    let served = until_stdin_ends(&url, move || {
        loop {
            let (stream, _) = listener.accept()?;
            on_a_thread(&responder, writes, stream.try_clone()?, stream)?;
        }
    });
    let _ = std::fs::remove_file(&path);
    served
}

#[cfg(not(unix))]
fn serve_unix(_: &str, _: Responder, _: Writes) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn on_a_thread(
    responder: &Responder,
    writes: Writes,
    mut input: impl Read + Send + 'static,
    mut output: impl Write + Send + 'static,
) -> io::Result<()> {
    let responder = responder.clone();
    let work = move || {
        // A connection that breaks has nobody left to tell.
        let _ = serve(responder, writes, &mut input, &mut output);
    };
    thread::Builder::new().spawn(work).map(drop)
}
