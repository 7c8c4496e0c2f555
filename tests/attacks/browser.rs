//! A page on the web, in a real browser on this machine: it reaches every listener of every target,
//! and no tool.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::Duration,
};

use mcplane_tests::browser::Chromium;
use serde_json::{Value, json};

use crate::{
    client::{Lines, text},
    door::{Door, Era},
    gateway::folder,
    tap::Wiretap,
    target::{Name, Target},
};

/// Chromium takes seconds to start on a busy machine.
const BROWSER_MAX: Duration = Duration::from_secs(180);

/// The page's own site, which the browser is told to find on this machine.
const SITE: &str = "evil.example";

/// What a tool would say that ran.
const ECHO: &str = "this was carried out";

/// Tries what a page can try, and tells its own site what came of it. A browser opens WebSockets to
/// one address one after the other, and later each time: hence the long wait.
const PAGE: &str = r#"<!doctype html><body><script>
  const call = CALL, targets = TARGETS;
  const post = { method: "POST", mode: "no-cors", headers: { "Content-Type": "text/plain" }, body: call + "\n" };
  const asked = { method: "POST", body: call, headers: {
    "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
    "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo" } };
  const opened = thing => new Promise((resolve, reject) => {
    thing.onopen = () => { thing.send?.(call); resolve() };
    thing.onerror = reject;
  });
  const submit = action => {
    const frame = document.createElement("iframe"), form = document.createElement("form");
    const input = document.createElement("input");
    frame.name = form.target = action;
    Object.assign(form, { method: "post", enctype: "text/plain", action });
    input.name = call + "\n";
    form.append(input);
    document.body.append(frame, form);
    form.submit();
  };
  const attempts = targets.flatMap(({ name, http, sse, websocket, tcp, messages }) => Object.entries({
    tcp: () => fetch("http://" + tcp, post),
    tcp_beacon: () => navigator.sendBeacon("http://" + tcp + "/beacon", call + "\n"),
    tcp_form: () => submit("http://" + tcp + "/form"),
    tcp_websocket: () => opened(new WebSocket("ws://" + tcp)),
    blind: () => fetch("http://" + http + "/mcp", post),
    blind_one: () => fetch("http://" + http + "/good/mcp", post),
    blind_sse: () => fetch("http://" + sse + "/sse", { mode: "no-cors" }),
    blind_messages: () => fetch("http://" + sse + messages + "?sessionId=1", post),
    asked: () => fetch("http://" + http + "/mcp", asked),
    renamed: () => fetch("http://" + http.replace("127.0.0.1", "NAME") + "/mcp", asked),
    administration: () => fetch("http://" + http + "/admin/status"),
    sse: () => opened(new EventSource("http://" + sse + "/sse")),
    websocket: () => opened(new WebSocket("ws://" + websocket + "/mcp", "mcp")),
  }).map(([attempt, run]) => [name + " " + attempt, run]));
  const outcome = attempt => Promise.race([
    Promise.resolve().then(attempt).then(() => "done", () => "refused"),
    new Promise(resolve => setTimeout(resolve, 60000, "silent"))]);
  (async () => {
    const outcomes = await Promise.all(attempts.map(([, run]) => outcome(run)));
    const told = JSON.stringify(Object.fromEntries(attempts.map(([name], i) => [name, outcomes[i]])));
    // What is on its way without a promise gets a moment.
    setTimeout(() => fetch("/done", { method: "POST", body: told }), 1000);
  })();
</script>"#;

/// A target, and a tap before each of its listeners.
struct Tapped {
    name: Name,
    target: Target,
    http: Wiretap,
    sse: Wiretap,
    websocket: Wiretap,
    tcp: Wiretap,
}

impl Tapped {
    fn start(name: Name) -> Self {
        let target = Target::start(name);
        let tap = |door| Wiretap::before(target.place(door).address());
        let [http, sse, websocket, tcp] =
            [Door::Http, Door::Sse, Door::WebSocket, Door::Tcp].map(tap);
        Self { name, target, http, sse, websocket, tcp }
    }

    /// Where a server that is of the library has the messages of its streams, and the gateway.
    const fn messages(&self) -> &'static str {
        match self.name {
            Name::Gateway => "/messages",
            Name::Library | Name::Fixture => "/message",
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "name": format!("{:?}", self.name),
            "http": self.http.address.to_string(),
            "sse": self.sse.address.to_string(),
            "websocket": self.websocket.address.to_string(),
            "tcp": self.tcp.address.to_string(),
            "messages": self.messages(),
        })
    }

    /// It did try: this is what came to the listeners.
    fn was_tried(&self, call: &str) {
        let origin = format!("Origin: http://{SITE}");
        self.tcp.heard(&["POST / HTTP/1.1\r\n", call]);
        self.tcp.heard(&["POST /beacon HTTP/1.1\r\n", call]);
        self.tcp.heard(&["POST /form HTTP/1.1\r\n", call]);
        self.tcp.heard(&["GET / HTTP/1.1\r\n", "Upgrade: websocket\r\n", &origin]);
        for path in ["/mcp", "/good/mcp"] {
            self.http.heard(&[&format!("POST {path} HTTP/1.1\r\n"), &origin, call]);
        }
        let messages = format!("POST {}?sessionId=1 HTTP/1.1\r\n", self.messages());
        self.sse.heard(&[&messages, &origin, call]);
        self.http.heard(&["OPTIONS /mcp HTTP/1.1\r\n", &origin]);
        self.http.heard(&["OPTIONS /mcp HTTP/1.1\r\n", &format!("Host: {SITE}")]);
        self.http.heard(&["GET /admin/status HTTP/1.1\r\n", &origin]);
        self.sse.heard(&["GET /sse HTTP/1.1\r\n"]);
        self.websocket.heard(&["GET /mcp HTTP/1.1\r\n", "Upgrade: websocket\r\n", &origin]);
    }

    fn told_nothing(&self) {
        for tap in [&self.http, &self.sse, &self.websocket, &self.tcp] {
            let answers = tap.answers();
            assert!(!answers.contains(ECHO), "a tool of {:?} ran: {answers}", self.name);
        }
    }
}

#[test]
fn a_page_on_the_web_reaches_every_listener_and_no_tool() {
    let Some(chromium) = Chromium::find() else { return };
    let targets = Name::ALL.map(Tapped::start);
    let before = targets.each_ref().map(|tapped| (tapped.target.calls(), tapped.target.sessions()));
    let call = Era::Modern.call("call", ECHO).to_string();
    let (site, told) = serve_page(&call, &targets);
    let options =
        ["--remote-debugging-port=0", &format!("--host-resolver-rules=MAP {SITE} 127.0.0.1")];
    let browser = chromium.open(&folder(), &options, &format!("http://{SITE}:{}/", site.port()));
    let outcomes = told.recv_timeout(BROWSER_MAX).expect("the page did not come to its end");
    drop(browser);

    for (tapped, before) in targets.iter().zip(before) {
        let name = format!("{:?}", tapped.name);
        let after = (tapped.target.calls(), tapped.target.sessions());
        assert_eq!(after, before, "{name}: {outcomes}");
        for attempt in ["asked", "renamed", "administration", "sse", "websocket", "tcp_websocket"] {
            assert_eq!(outcomes[format!("{name} {attempt}")], "refused", "{name}: {outcomes}");
        }
        tapped.was_tried(&call);
        tapped.told_nothing();
        // And this is what it would have done.
        let mut client = Lines::tcp(tapped.tcp.address);
        assert_eq!(text(&client.ask(&serde_json::from_str(&call).unwrap())), ECHO);
        let after = tapped.target.calls();
        assert_eq!(after, before.0.map(|calls| calls + 1), "{name}");
    }
}

/// The page's site, until it has been told what came of everything.
fn serve_page(call: &str, targets: &[Tapped]) -> (SocketAddr, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let targets: Vec<_> = targets.iter().map(Tapped::to_json).collect();
    let page = PAGE
        .replace("CALL", &Value::from(call).to_string().replace('<', "\\u003c"))
        .replace("TARGETS", &Value::from(targets).to_string())
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
