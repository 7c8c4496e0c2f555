//! Servers in Go, whose parsers fold the case of keys: nothing but what the gateway saw reaches them.
//! The first test shows that they do fall for it when nobody stands before them.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{peers::Peer, site::Site};

const LIMIT: Duration = Duration::from_secs(60);

const SERVERS: [&str; 2] = ["plain", "mark3labs"];

/// Members beside `"name":"read_file"`, and beside `params`, that some parser takes for another call.
const IN_PARAMS: [&str; 5] = [
    r#""Name":"write_file""#,
    r#""NAME":"write_file""#,
    r#""n\u0041me":"write_file""#,
    r#""name\u0000":"write_file""#,
    r#""na\u0001me":"write_file""#,
];
const BESIDE_PARAMS: [&str; 9] = [
    r#""Params":{"name":"write_file"}"#,
    r#""param\u017f":{"name":"write_file"}"#,
    "\"param\u{17f}\":{\"name\":\"write_file\"}",
    r#""Method":"tools/list""#,
    r#""ID":2"#,
    r#""Id":2"#,
    r#""iD":2"#,
    r#""id\u0000":2"#,
    r#""\u0131d":2"#,
];

const READ: &str = r#""name":"read_file""#;

fn call(id: u32, params: &str, beside: &str) -> String {
    let comma = if beside.is_empty() { "" } else { "," };
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{{params}}}{comma}{beside}}}"#
    )
}

fn initialize() -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string()
}

fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}"))
}

#[test]
fn without_a_gateway_they_are_fooled() {
    if !Peer::Go.is_there() {
        return;
    }
    for server in SERVERS {
        let mut command = Command::new(&Peer::Go.program(server)[0]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut ask = |line: &str| {
            writeln!(input, "{line}").unwrap();
            serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap()
        };
        ask(&initialize());
        let folded = ask(&call(2, &format!("{READ},{}", IN_PARAMS[0]), ""));
        assert_eq!(text(&folded), "wrote", "{server}");
        let other = ask(&call(3, READ, BESIDE_PARAMS[4]));
        assert_eq!((&other["id"], text(&other)), (&json!(2), "read"), "{server}");
        drop(input);
        child.wait().unwrap();
    }
}

#[test]
fn behind_a_gateway_they_are_not() {
    if !Peer::Go.is_there() {
        return;
    }
    let servers = SERVERS.map(|server| {
        let program = &Peer::Go.program(server)[0];
        format!("[servers.{server}]\ncommand = {program:?}\ntools.deny = [\"write_*\"]\n")
    });
    let gateway = Site::gateway(&servers.concat());
    for server in SERVERS {
        let mut client = Client::open(&gateway.url.replace("/mcp", &format!("/{server}/mcp")));
        let read = client.ask(&call(2, READ, ""));
        assert_eq!(text(&read), "read", "{server}");
        let calls = IN_PARAMS.iter().map(|near| call(3, &format!("{READ},{near}"), ""));
        let calls =
            calls.chain(IN_PARAMS.iter().map(|near| call(3, &format!("{near},{READ}"), "")));
        let calls = calls.chain(BESIDE_PARAMS.iter().map(|near| call(3, READ, near)));
        for attack in calls {
            let response = client.ask(&attack);
            let why = response["error"]["message"].as_str().unwrap_or_default();
            assert!(why.contains("passes for"), "{server}: {attack}: {response}");
        }
        // Arguments may be called as they like.
        let own =
            format!(r#"{READ},"arguments":{{"name":"a","Name":"b","ID":2,"name\u0000":"c"}}"#);
        assert_eq!(text(&client.ask(&call(4, &own, ""))), "read", "{server}");
        let denied = client.ask(&call(5, r#""name":"write_file""#, ""));
        assert!(denied["error"].is_object(), "{server}: {denied}");
        assert_eq!(text(&client.ask(&call(6, r#""name":"written""#, ""))), "0", "{server}");
    }
    gateway.interrupt();
}

/// A session over HTTP whose messages are sent as they are written.
struct Client {
    address: String,
    path: String,
    session: String,
}

impl Client {
    fn open(url: &str) -> Self {
        let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let mut client =
            Self { address: address.into(), path: format!("/{path}"), session: String::new() };
        let (head, _) = client.post(&initialize());
        let session = head.lines().filter_map(|line| line.split_once(": "));
        let mut session = session.filter(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id"));
        client.session = session.next().unwrap().1.to_owned();
        client.post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        client
    }

    fn ask(&mut self, message: &str) -> Value {
        let (_, body) = self.post(message);
        let json = body.lines().find_map(|line| line.strip_prefix("data: {"));
        let json = json.map_or_else(|| body.clone(), |rest| format!("{{{rest}"));
        serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    /// The head and the body of the response.
    fn post(&self, message: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let session = match self.session.as_str() {
            "" => String::new(),
            id => format!("Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-11-25\r\n"),
        };
        // HTTP/1.0: a body without chunks that ends with the connection.
        let head = format!(
            "POST {} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{session}Content-Length: {}\r\n\r\n",
            self.path,
            message.len()
        );
        stream.write_all((head + message).as_bytes()).unwrap();
        let all = std::io::read_to_string(stream).unwrap();
        let (head, body) = all.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }
}
