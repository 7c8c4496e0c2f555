//! A page on the web, in a real browser on this machine: it reaches every listener, and no tool.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use mcplane_tests::{
    browser::{chromium, skipped},
    child::Running,
};
use serde_json::{Value, json};

use crate::{
    client::{Lines, modern, text},
    gateway::{Gateway, good},
};

/// Chromium takes seconds to start on a busy machine.
const BROWSER_MAX: Duration = Duration::from_secs(120);

/// The page's own site, which the browser is told to find on this machine.
const SITE: &str = "evil.example";

/// Tries what a page can try, and tells its own site what came of it.
const PAGE: &str = r#"<!doctype html><iframe name="frame"></iframe>
<form id="form" target="frame" method="post" enctype="text/plain"><input name="x"></form><script>
  const call = CALL, http = "http://HTTP", tcp = "http://TCP", site = "http://SITE";
  const post = { method: "POST", mode: "no-cors", headers: { "Content-Type": "text/plain" }, body: call + "\n" };
  const asked = { method: "POST", body: call, headers: {
    "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
    "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo" } };
  const opened = thing => new Promise((resolve, reject) => {
    thing.onopen = () => { thing.send?.(call); resolve() };
    thing.onerror = reject;
  });
  const submit = () => { form.action = tcp + "/form"; form.x.name = call + "\n"; form.submit() };
  const attempts = {
    tcp: () => fetch(tcp, post),
    tcp_beacon: () => navigator.sendBeacon(tcp + "/beacon", call + "\n"),
    tcp_form: submit,
    tcp_websocket: () => opened(new WebSocket(tcp.replace("http", "ws"))),
    blind: () => fetch(http + "/mcp", post),
    blind_one: () => fetch(http + "/good/mcp", post),
    blind_sse: () => fetch(http + "/sse", { mode: "no-cors" }),
    blind_messages: () => fetch(http + "/messages?sessionId=1", post),
    asked: () => fetch(http + "/mcp", asked),
    renamed: () => fetch(http.replace("127.0.0.1", "NAME") + "/mcp", asked),
    sse: () => opened(new EventSource(http + "/sse")),
    websocket: () => opened(new WebSocket(http.replace("http", "ws") + "/mcp", "mcp")),
  };
  const outcome = attempt => Promise.race([
    Promise.resolve().then(attempt).then(() => "done", () => "refused"),
    new Promise(resolve => setTimeout(resolve, 10000, "silent"))]);
  (async () => {
    const names = Object.keys(attempts);
    const outcomes = await Promise.all(names.map(name => outcome(attempts[name])));
    const told = JSON.stringify(Object.fromEntries(names.map((name, i) => [name, outcomes[i]])));
    // What is on its way without a promise gets a moment.
    setTimeout(() => fetch("/done", { method: "POST", body: told }), 1000);
  })();
</script>"#;

#[test]
fn a_page_on_the_web_reaches_every_listener_and_no_tool() {
    let Some(chromium) = chromium() else { return skipped() };
    let listen = "listen = [\"127.0.0.1:0\", \"tcp://127.0.0.1:0\"]\n";
    let gateway = Gateway::serve(&(listen.to_owned() + &good()));
    let http = Wiretap::before(gateway.address());
    let tcp = gateway.addresses(2)[1].strip_prefix("tcp://").unwrap().parse().unwrap();
    let tcp = Wiretap::before(tcp);
    let calls = || {
        gateway.server("good", |server| server["state"] == "healthy")["workers"][0]["calls"].clone()
    };
    let (before, sessions) = (calls(), gateway.status()["sessions"].clone());

    let params = json!({"name": "echo", "arguments": {"message": "from a page"}});
    let call = modern(1, "tools/call", params).to_string();
    let (site, told) = serve_page(&call, http.address, tcp.address);
    let words = [
        &chromium,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--remote-debugging-port=0",
        &format!("--host-resolver-rules=MAP {SITE} 127.0.0.1"),
        &format!("--user-data-dir={}", gateway.file("profile").display()),
        &format!("http://{SITE}:{}/", site.port()),
    ];
    let browser = Running::start(&words.map(str::to_owned), "");
    let outcomes = told.recv_timeout(BROWSER_MAX).expect("the page did not come to its end");
    drop(browser);

    assert_eq!(calls(), before, "a tool ran: {outcomes}");
    assert_eq!(gateway.status()["sessions"], sessions, "{outcomes}");
    for name in ["asked", "renamed", "sse", "websocket", "tcp_websocket"] {
        assert_eq!(outcomes[name], "refused", "{outcomes}");
    }
    // It did try: this is what came to the listeners.
    let origin = format!("Origin: http://{SITE}");
    tcp.heard(&["POST / HTTP/1.1\r\n", &call]);
    tcp.heard(&["POST /beacon HTTP/1.1\r\n", &call]);
    tcp.heard(&["POST /form HTTP/1.1\r\n", &call]);
    tcp.heard(&["GET / HTTP/1.1\r\n", "Upgrade: websocket\r\n", &origin]);
    for path in ["/mcp", "/good/mcp", "/messages?sessionId=1"] {
        http.heard(&[&format!("POST {path} HTTP/1.1\r\n"), &origin, &call]);
    }
    http.heard(&["OPTIONS /mcp HTTP/1.1\r\n", &origin]);
    http.heard(&["OPTIONS /mcp HTTP/1.1\r\n", &format!("Host: {SITE}")]);
    http.heard(&["GET /sse HTTP/1.1\r\n"]);
    http.heard(&["GET /mcp HTTP/1.1\r\n", "Upgrade: websocket\r\n", &origin]);

    // And this is what it would have done.
    let mut client = Lines::tcp(tcp.address);
    let called = client.ask(&serde_json::from_str(&call).unwrap());
    assert_eq!(text(&called), "from a page");
    assert_eq!(calls().as_u64(), before.as_u64().map(|calls| calls + 1));
}

/// The page's site, until it has been told what came of everything.
fn serve_page(
    call: &str,
    http: SocketAddr,
    tcp: SocketAddr,
) -> (SocketAddr, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let page = PAGE
        .replace("CALL", &Value::from(call).to_string().replace('<', "\\u003c"))
        .replace("HTTP\"", &format!("{http}\""))
        .replace("TCP\"", &format!("{tcp}\""))
        .replace("NAME", SITE);
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            if let Ok(Some(outcomes)) = answer(stream, &page) {
                let _ = tell.send(outcomes);
                return;
            }
        }
    });
    (address, told)
}

/// Answers one request; what it says if it is the last.
fn answer(stream: TcpStream, page: &str) -> io::Result<Option<Value>> {
    // The browser opens connections that it never uses.
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut stream = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    stream.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? <= 2 {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    let page = if first.starts_with("GET / ") { page } else { "" };
    let head = format!("Content-Type: text/html\r\nContent-Length: {}", page.len());
    let response = format!("HTTP/1.1 200 OK\r\n{head}\r\nConnection: close\r\n\r\n{page}");
    stream.get_mut().write_all(response.as_bytes())?;
    Ok(first.starts_with("POST /done ").then(|| serde_json::from_slice(&body).unwrap()))
}

/// Stands before a listener and notes what comes to it, for each connection.
struct Wiretap {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<Vec<u8>>>>,
    ends: Arc<AtomicBool>,
}

impl Wiretap {
    fn before(door: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (heard, ends) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let tap = Self { address, heard, ends };
        let (heard, ends) = (Arc::clone(&tap.heard), Arc::clone(&tap.ends));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                let server = TcpStream::connect(door).unwrap();
                let (mut back, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || {
                    let _ = io::copy(&mut back, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
                let heard = Arc::clone(&heard);
                thread::spawn(move || note(client, server, &heard));
            }
        });
        tap
    }

    /// Fails the test unless one connection brought all of this.
    #[track_caller]
    fn heard(&self, wanted: &[&str]) {
        let heard = self.heard.lock().unwrap();
        let heard: Vec<_> = heard.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect();
        let found = heard.iter().any(|heard| wanted.iter().all(|wanted| heard.contains(wanted)));
        assert!(found, "nothing with {wanted:?} in {heard:#?}");
    }
}

impl Drop for Wiretap {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// Passes on what a client says, and goes on listening when the server does not.
fn note(mut client: TcpStream, mut server: TcpStream, heard: &Mutex<Vec<Vec<u8>>>) {
    let number = {
        let mut heard = heard.lock().unwrap();
        heard.push(Vec::new());
        heard.len() - 1
    };
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = client.read(&mut piece) {
        heard.lock().unwrap()[number].extend_from_slice(&piece[..count]);
        let _ = server.write_all(&piece[..count]);
    }
    let _ = server.shutdown(Shutdown::Write);
}
