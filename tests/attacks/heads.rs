//! Heads of requests that a browser sends for a page which is none of ours, and guesses: refused by
//! their status, before a body is read. Each goes to everything that listens for HTTP.

use crate::{
    door::{Door, Era, answered, said, upgrade},
    gateway::{Gateway, good},
    target::{Name, Target},
};

/// What a tool would say that ran.
const ECHO: &str = "this was carried out";

/// The doors behind which is HTTP.
const DOORS: [Door; 3] = [Door::Http, Door::Sse, Door::WebSocket];

/// Heads that give a page away, and what they are refused with.
const FOREIGN: [(&str, u16); 18] = [
    ("Origin: http://evil.example\r\n", 403),
    ("Origin: https://evil.example\r\n", 403),
    ("Origin: null\r\n", 403),
    ("Origin: file://\r\n", 403),
    ("Origin: http://localhost.evil.example\r\n", 403),
    ("Origin: http://127.0.0.1.evil.example\r\n", 403),
    ("Origin: http://evil.example:80/http://localhost\r\n", 403),
    ("Origin: http://localhost@evil.example\r\n", 403),
    ("Origin: chrome-extension://aaaaaaaa\r\n", 403),
    ("Origin: http://localhost\r\nOrigin: http://evil.example\r\n", 403),
    ("Host: evil.example\r\n", 421),
    ("Host: evil.example:80\r\n", 421),
    ("Host: localhost.evil.example\r\n", 421),
    ("Host: 127.0.0.1.evil.example\r\n", 421),
    ("Host: 169.254.169.254\r\n", 421),
    ("Host: 0.0.0.0\r\n", 421),
    ("Host: localhost@evil.example\r\n", 400),
    ("Host: localhost\r\nHost: evil.example\r\n", 400),
];

/// Names of sessions, and of places in them, that nobody was given.
const GUESSES: [&str; 6] =
    ["1", "0", "00000000-0000-0000-0000-000000000000", "../../admin", "%00", "' or 1=1 --"];

/// What is asked of administrators.
const ADMINISTRATION: [(&str, &str); 3] =
    [("GET", "/admin/status"), ("POST", "/admin/negotiate"), ("OPTIONS", "/admin/negotiate")];

/// Pages that anybody may ask for, or that are not there.
const PAGES: [&str; 5] =
    ["/healthz", "/", "/nowhere", "/.well-known/oauth-protected-resource", "/favicon.ico"];

/// How often something is tried.
pub const ATTEMPTS: usize = DOORS.len() * Name::ALL.len() * (FOREIGN.len() + GUESSES.len()) * 2
    + ADMINISTRATION.len() * FOREIGN.len()
    + PAGES.len() * Name::ALL.len();

/// The status of a response.
#[track_caller]
fn status(answer: &str) -> u16 {
    let status = answer.strip_prefix("HTTP/1.1 ").and_then(|answer| answer.get(..3));
    status.and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no status: {answer:?}"))
}

/// `headers` with a host, if they name none.
fn hosted(headers: &str) -> String {
    let host = if headers.contains("Host:") { "" } else { "Host: localhost\r\n" };
    format!("{host}{headers}")
}

/// A whole call in a POST.
fn post(path: &str, headers: &str, era: Era) -> String {
    let call = era.call("call", ECHO).to_string();
    let headers = hosted(headers);
    let own = match era {
        Era::Legacy => "MCP-Protocol-Version: 2025-11-25\r\n",
        Era::Modern => {
            "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"
        }
    };
    format!(
        "POST {path} HTTP/1.1\r\n{headers}{own}Connection: close\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Content-Length: {}\r\n\r\n{call}",
        call.len()
    )
}

/// The beginning of a stream of events.
fn stream(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\n{}Accept: text/event-stream\r\n\r\n", hosted(headers))
}

/// As it may stand in a path.
fn plain(guess: &str) -> String {
    guess.replace(' ', "+").replace('\'', "%27")
}

#[test]
fn no_foreign_head_opens_a_door() {
    for name in Name::ALL {
        let target = Target::start(name);
        let before = target.calls();
        for door in DOORS {
            let address = target.place(door).address();
            for (headers, expected) in FOREIGN {
                let what = format!("{headers:?} at {door:?} of {name:?}");
                let opening = match door {
                    Door::WebSocket => upgrade("/mcp", headers),
                    Door::Sse => stream("/sse", headers),
                    _ => stream("/mcp", headers),
                };
                let answer = answered(address, &opening);
                assert_eq!(status(&answer), expected, "{what}: {answer}");
                let answer = said(address, post("/mcp", headers, Era::Modern).as_bytes());
                assert_eq!(status(&answer), expected, "{what}: {answer}");
                assert!(!answer.contains(ECHO), "{what}: {answer}");
            }
            for guess in GUESSES {
                let own = format!("Mcp-Session-Id: {guess}\r\nLast-Event-ID: {guess}\r\n");
                let messages = match name {
                    Name::Gateway => "/messages",
                    Name::Library | Name::Fixture => "/message",
                };
                let first = match door {
                    Door::Sse => {
                        let path = format!("{messages}?sessionId={}", plain(guess));
                        post(&path, &own, Era::Legacy)
                    }
                    Door::WebSocket => {
                        stream("/mcp", &own).replacen("GET", "DELETE", 1).replace("Accept", "X")
                    }
                    _ => post("/mcp", &own, Era::Legacy),
                };
                for request in [first, stream("/mcp", &own)] {
                    let answer = answered(address, &request);
                    assert!((400..500).contains(&status(&answer)), "{request}: {answer}");
                }
            }
        }
        assert_eq!(target.calls(), before, "{name:?}");
        let well =
            said(target.place(Door::Http).address(), post("/mcp", "", Era::Modern).as_bytes());
        assert!(status(&well) == 200 && well.contains(ECHO), "from a client: {well}");
    }
}

#[test]
fn no_foreign_head_opens_administration() {
    let gateway = Gateway::serve(&good());
    for (method, path) in ADMINISTRATION {
        let ask = |headers: &str| {
            let need = r#"{"tools": ["echo"]}"#;
            let request = format!(
                "{method} {path} HTTP/1.1\r\n{}Connection: close\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{need}",
                hosted(headers),
                need.len()
            );
            said(gateway.address(), request.as_bytes())
        };
        for (headers, expected) in FOREIGN {
            let answer = ask(headers);
            assert_eq!(status(&answer), expected, "{headers:?} at {path}: {answer}");
            let answer = answer.to_ascii_lowercase();
            assert!(!answer.contains("access-control-allow-origin"), "{headers:?}: {answer}");
            assert!(!answer.contains("good"), "{headers:?}: {answer}");
        }
        let answer = ask("");
        assert!(status(&answer) < 300 || method == "OPTIONS", "{path}: {answer}");
    }
}

/// Nothing is read of what comes with a question that anybody may ask.
#[test]
fn open_pages_read_no_body() {
    for name in Name::ALL {
        let target = Target::start(name);
        for page in PAGES {
            let head = format!(
                "POST {page} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                 Content-Length: 4000000\r\n\r\n"
            );
            // The body does not come, and the answer does.
            let answer = answered(target.place(Door::Http).address(), &head);
            assert!((200..500).contains(&status(&answer)), "{page} of {name:?}: {answer}");
        }
    }
}
