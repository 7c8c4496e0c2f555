//! A server on the network, and a tap that hears what its clients say.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::child::binary;

/// Node and Python need a second to start on a busy machine.
const START_MAX: Duration = Duration::from_secs(60);

/// A server that is asked to end has this long.
const END_MAX: Duration = Duration::from_secs(10);

/// Where to listen, for programs that cannot pick a port by themselves.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A server that runs. Dropped, it is killed with its whole group.
pub(crate) struct Site {
    child: Child,
    pub(crate) url: String,
}

impl Site {
    /// Starts a program whose first line on standard output is its URL.
    pub(crate) fn start(words: &[String]) -> Self {
        let mut site = Self::spawn(words, &[], Stdio::piped());
        let mut out = BufReader::new(site.child.stdout.take().unwrap());
        out.read_line(&mut site.url).unwrap();
        site.url.truncate(site.url.trim_end().len());
        assert!(site.url.starts_with("http://"), "{words:?} says {:?}, not its URL", site.url);
        // Whatever else it says must not fill the pipe.
        thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        site
    }

    /// Starts a gateway. `servers` are the settings of what is behind it.
    pub(crate) fn gateway(servers: &str) -> Self {
        let name = thread::current().name().unwrap_or("gateway").replace("::", "-");
        static LAST: AtomicU32 = AtomicU32::new(0);
        let name = format!("{name}-{}", LAST.fetch_add(1, Ordering::Relaxed));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gateways").join(name);
        // What a run before this one has learned may be of another server.
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).unwrap();
        // Python may need half a minute to start on a busy machine.
        let own = format!("accept_rate = 0\nready = \"600s\"\nstate_dir = {folder:?}\n");
        let file = folder.join("mcplane.toml");
        fs::write(&file, format!("[gateway]\n{own}\n{servers}")).unwrap();
        let file = file.to_str().unwrap();
        let words = [binary(), "serve", "--listen", "127.0.0.1:0", "--config", file];
        Self::start(&words.map(str::to_owned))
    }

    /// Starts a program that is told its port, and waits until it listens there.
    pub(crate) fn at(port: u16, path: &str, words: &[String], env: &[(&str, &str)]) -> Self {
        let mut site = Self::spawn(words, env, Stdio::null());
        site.url = format!("http://127.0.0.1:{port}{path}");
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < START_MAX, "{words:?} does not listen on {port}");
            assert!(site.child.try_wait().unwrap().is_none(), "{words:?} ended");
            thread::sleep(Duration::from_millis(20));
        }
        site
    }

    fn spawn(words: &[String], env: &[(&str, &str)], stdout: Stdio) -> Self {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).envs(env.iter().copied()).process_group(0);
        command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null());
        let child =
            command.spawn().unwrap_or_else(|error| panic!("cannot start {words:?}: {error}"));
        Self { child, url: String::new() }
    }

    /// Ends it as Ctrl-C would; it must leave by itself, and with success.
    pub(crate) fn interrupt(mut self) {
        signal("INT", self.child.id().to_string());
        let asked = Instant::now();
        while asked.elapsed() < END_MAX {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success(), "interrupted, the server ended with {status}");
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the server still runs {END_MAX:?} after SIGINT");
    }

    fn address(&self) -> SocketAddr {
        let rest = self.url.strip_prefix("http://").unwrap();
        rest.split('/').next().unwrap().parse().unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            signal("KILL", format!("-{}", self.child.id()));
            let _ = self.child.wait();
        }
    }
}

/// `kill`, of which std has none.
fn signal(name: &str, target: String) {
    let _ = Command::new("sh").args(["-c", "kill -$0 $1", name, &target]).status();
}

/// Stands between a server and its clients, and keeps what both say.
pub(crate) struct Tap {
    address: SocketAddr,
    /// A POST here ends all sessions, behind their clients' backs.
    forget: SocketAddr,
    /// The same URL as the server's, but through the tap.
    pub(crate) url: String,
    heard: Arc<Heard>,
}

#[derive(Default)]
struct Heard {
    asked: Mutex<Vec<u8>>,
    answered: Mutex<Vec<u8>>,
    is_over: AtomicBool,
}

impl Tap {
    pub(crate) fn on(site: &Site) -> Self {
        let heard = Arc::<Heard>::default();
        let (server, url) = (site.address(), site.url.clone());
        let address = listen(&heard, move |client, heard| relay(client, server, heard));
        let path = url.splitn(4, '/').nth(3).unwrap_or_default().to_owned();
        let forget = listen(&heard, move |client, heard| forget_all(client, server, &path, &heard));
        Self { address, forget, url: url.replace(&server.to_string(), &address.to_string()), heard }
    }

    pub(crate) fn forget_url(&self) -> String {
        format!("http://{}/forget", self.forget)
    }

    /// Whether a client said this, in a header's name or anywhere else; in any case.
    pub(crate) fn was_asked(&self, what: &str) -> bool {
        let asked = String::from_utf8_lossy(&lock(&self.heard.asked)).to_lowercase();
        asked.contains(&what.to_lowercase())
    }

    /// Writes all that was heard to a file beside `name`, for a person to read.
    pub(crate) fn keep(&self, name: &str) -> String {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.http"));
        let mut all = lock(&self.heard.asked).clone();
        all.extend_from_slice(b"\n\n======== answers\n\n");
        all.extend_from_slice(&lock(&self.heard.answered));
        fs::write(&file, all).unwrap();
        file.display().to_string()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.heard.is_over.store(true, Ordering::Relaxed);
        // Both wait for a connection.
        let _ = (TcpStream::connect(self.address), TcpStream::connect(self.forget));
    }
}

fn listen(
    heard: &Arc<Heard>,
    serve: impl Fn(TcpStream, Arc<Heard>) + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (heard, serve) = (Arc::clone(heard), Arc::new(serve));
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            if heard.is_over.load(Ordering::Relaxed) {
                return;
            }
            let (heard, serve) = (Arc::clone(&heard), Arc::clone(&serve));
            thread::spawn(move || serve(client, heard));
        }
    });
    address
}

fn relay(client: TcpStream, server: SocketAddr, heard: Arc<Heard>) {
    let Ok(server) = TcpStream::connect(server) else { return };
    let (_, _) = (client.set_nodelay(true), server.set_nodelay(true));
    let (to_client, from_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let also_heard = Arc::clone(&heard);
    thread::spawn(move || copy(from_server, to_client, |bytes| keep(&also_heard.answered, bytes)));
    copy(client, server, |bytes| keep(&heard.asked, bytes));
}

fn copy(mut from: TcpStream, mut to: TcpStream, hear: impl Fn(&[u8])) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        hear(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // What one side has given up, the other must see.
    let (_, _) = (to.shutdown(Shutdown::Write), from.shutdown(Shutdown::Read));
}

fn keep(place: &Mutex<Vec<u8>>, bytes: &[u8]) {
    lock(place).extend_from_slice(bytes);
}

fn lock(place: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// DELETEs every session whose id was heard. Those that are gone already answer 404.
fn forget_all(mut client: TcpStream, server: SocketAddr, path: &str, heard: &Heard) {
    let answered = String::from_utf8_lossy(&lock(&heard.answered)).into_owned();
    let ids = answered.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("mcp-session-id").then(|| value.trim())
    });
    let mut forgotten = 0;
    for id in ids {
        let mut server = TcpStream::connect(server).unwrap();
        let head = format!(
            "DELETE /{path} HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: {id}\r\nConnection: close\r\n\r\n"
        );
        server.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = server.read_to_string(&mut answer);
        forgotten += usize::from(answer.starts_with("HTTP/1.1 2"));
    }
    let _ = client.read(&mut [0; 4096]);
    let status = if forgotten > 0 { "204 No Content" } else { "404 Not Found" };
    let _ = write!(client, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}
