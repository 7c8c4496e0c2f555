//! The lab against servers on the network: every fault lands in its own count, and the bytes are
//! those that the protocol wants.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "fake/net.rs"]
mod net;

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcplane_lab::results::Run;
use mcplane_lab::{
    Address, Control, Error, Errors, Floor, Plan, Remote, Speak, Subject, Target, Until, run,
    run_together,
};
use net::{Act, Kind, Server};

/// The validation makes three calls; the n-th call of the load is number n + 3.
const BEFORE: u64 = 3;

fn plan(calls: u64) -> Plan {
    Plan {
        concurrency: 4,
        until: Until::Calls(calls),
        warmup: Until::Calls(0),
        timeout: Duration::from_millis(500),
        start_timeout: Duration::from_secs(5),
        settle: Duration::ZERO,
        slices: 1,
        ..Plan::default()
    }
}

fn measure(plan: &Plan, server: &Server) -> Result<Run, Error> {
    run(plan, &server.target(), &Floor::Off, &Arc::new(Control::default()))
}

/// The errors of 100 calls, how many succeeded, and the first failure.
fn errors(script: fn(u64) -> Act) -> (Errors, u64, String) {
    let run = measure(&plan(100), &Server::start(Kind::Modern, script)).unwrap();
    assert_eq!((run.results.calls_sent, &run.broken), (100, &None));
    let failure = run.results.first_failure.unwrap_or_default();
    (run.results.errors, run.results.calls_ok, failure)
}

/// One field of the error counts is `count`, the others are 0.
fn only(name: &str, count: u64) -> Errors {
    let mut json = serde_json::to_value(Errors::default()).unwrap();
    json[name] = count.into();
    serde_json::from_value(json).unwrap()
}

#[test]
fn both_eras_of_http_are_spoken_with_their_headers() {
    for (kind, revision) in [(Kind::Modern, "2026-07-28"), (Kind::Legacy, "2025-11-25")] {
        let server = Server::start(kind, |_| Act::Answer);
        let run = measure(&plan(500), &server).unwrap();
        assert!(run.is_clean(), "{:?}", run.results.first_failure);
        assert_eq!((run.results.calls_ok, run.results.in_flight_max), (500, 4));
        assert_eq!(
            (run.target.transport.as_str(), run.target.revision.as_str()),
            ("http", revision)
        );
        assert_eq!(run.target.server.as_deref(), Some("fake"));
        assert!(run.notes.iter().any(|note| note.contains("--pid")), "{:?}", run.notes);
        // Four calls at once are four sockets, whatever was planned; each call has its head and body.
        let sockets = run.results.sockets.unwrap();
        assert_eq!(sockets.open_max, 4, "{sockets:?}");
        let least = 500 * run.target.call_bytes as u64;
        assert!((least..4 * least).contains(&sockets.bytes_sent), "{sockets:?} of {least}");
        assert!(sockets.bytes_received > 500 * run.target.result_bytes as u64, "{sockets:?}");
        let ended = server.count("DELETE /mcp HTTP/1.1");
        assert_eq!(ended, usize::from(kind == Kind::Legacy), "the session is ended");
    }
}

#[test]
fn http_with_sse_is_found_where_streamable_http_is_not_spoken() {
    let server = Server::start(Kind::Sse, |_| Act::Answer);
    let run = measure(&plan(300), &server).unwrap();
    assert!(run.is_clean(), "{:?}", run.results.first_failure);
    assert_eq!((run.results.calls_ok, run.target.transport.as_str()), (300, "sse"));
    assert_eq!(server.count("GET /mcp HTTP/1.1"), 1);
    let forced = server.remote().without_fall_back();
    let target = Target::Remote(Box::new(forced));
    let error = run_one(&plan(1), &target).unwrap_err();
    assert!(error.is_unreachable() && error.to_string().contains("HTTP 405"), "{error}");
}

#[test]
fn lines_over_tcp_share_one_connection() {
    let run = measure(&plan(1000), &Server::start(Kind::Lines, |_| Act::Answer)).unwrap();
    assert!(run.is_clean(), "{:?}", run.results.first_failure);
    assert_eq!((run.results.calls_ok, run.target.transport.as_str()), (1000, "tcp"));
}

#[test]
fn a_web_socket_carries_text_frames() {
    let run = measure(&plan(500), &Server::start(Kind::WebSocket, |_| Act::Answer)).unwrap();
    assert!(run.is_clean(), "{:?}", run.results.first_failure);
    assert_eq!((run.results.calls_ok, run.target.transport.as_str()), (500, "ws"));
    let script = |n| if n == BEFORE + 50 { Act::Nothing } else { Act::Answer };
    let run = measure(&plan(100), &Server::start(Kind::WebSocket, script)).unwrap();
    assert_eq!((run.results.errors, run.results.calls_ok), (only("timeout", 1), 99));
    let script = |n| if n == BEFORE + 50 { Act::WrongId } else { Act::Answer };
    let run = measure(&plan(100), &Server::start(Kind::WebSocket, script)).unwrap();
    assert_eq!((run.results.errors, run.results.calls_ok), (only("transport", 1), 100));
    let script = |n| if n < BEFORE + 50 { Act::Answer } else { Act::Die };
    let run = measure(&plan(100), &Server::start(Kind::WebSocket, script)).unwrap();
    assert_eq!(run.results.calls_ok, 50);
    assert_eq!(run.broken.unwrap(), "the server closed the WebSocket: 1001 enough");
}

#[test]
fn answers_are_the_same_however_they_are_cut() {
    // Every length of a chunk up to that of the body, as JSON and as events.
    let chunks = measure(
        &plan(100),
        &Server::start(Kind::Modern, |n| match n {
            0 => Act::Answer,
            n => Act::Chunks(usize::try_from(n).unwrap()),
        }),
    );
    let chunks = chunks.unwrap();
    assert!(chunks.is_clean(), "{:?}", chunks.results.first_failure);
    let events = Server::start(Kind::Modern, |n| match n {
        0 => Act::Events,
        n => Act::EventChunks(usize::try_from(n).unwrap()),
    });
    let events = measure(&plan(250), &events).unwrap();
    assert!(events.is_clean(), "{:?}", events.results.first_failure);
    assert_eq!((chunks.results.calls_ok, events.results.calls_ok), (100, 250));
}

#[test]
fn wrong_answers_are_counted() {
    let script = |n| if n == BEFORE + 50 { Act::AnswerWith("x") } else { Act::Answer };
    let (counted, ok, _) = errors(script);
    assert_eq!((counted, ok), (only("wrong_content", 1), 99));
    // An answer to somebody else's question, and the own one unanswered: two wrongs.
    let script = |n| if n == BEFORE + 50 { Act::WrongId } else { Act::Answer };
    let (counted, ok, _) = errors(script);
    assert_eq!((counted, ok), (only("transport", 2), 99));
    let script = |n| if n >= BEFORE && n % 10 == 0 { Act::Nothing } else { Act::Answer };
    let (counted, ok, what) = errors(script);
    assert_eq!((counted, ok), (only("transport", 10), 90));
    assert!(what.contains("HTTP 202 Accepted without an answer"), "{what}");
}

#[test]
fn a_status_is_a_transport_error_that_says_which() {
    for (status, said) in [
        ("503 Busy|Retry-After: 7\r\n", "HTTP 503 Service Unavailable, Retry-After: 7"),
        ("404 Not Found", "HTTP 404 Not Found"),
        ("200 OK", "HTTP 200 OK without an answer"),
    ] {
        let script: fn(u64) -> Act = match status.as_bytes()[0] {
            b'5' => |n| {
                if n % 10 == 9 { Act::Status("503 Busy|Retry-After: 7\r\n") } else { Act::Answer }
            },
            b'4' => |n| if n % 10 == 9 { Act::Status("404 Not Found") } else { Act::Answer },
            _ => |n| if n % 10 == 9 { Act::Status("200 OK") } else { Act::Answer },
        };
        let (counted, ok, what) = errors(script);
        assert_eq!((counted, ok), (only("transport", 10), 90), "{status}");
        assert!(what.contains(said), "{what}");
    }
}

#[test]
fn a_json_rpc_error_is_one_unless_the_server_is_too_busy_to_read_the_call() {
    let script = |n| if n % 10 == 9 { Act::Refuse("400 Bad Request") } else { Act::Answer };
    let (counted, ok, what) = errors(script);
    assert_eq!((counted, ok), (only("json_rpc", 10), 90));
    assert!(what.contains("no such argument"), "{what}");

    const BUSY: &str = "503 Busy\r\nRetry-After: 7";
    let (counted, ok, what) = errors(|n| if n % 10 == 9 { Act::Refuse(BUSY) } else { Act::Answer });
    assert_eq!((counted, ok), (only("transport", 10), 90));
    let said = "HTTP 503 Service Unavailable, Retry-After: 7: {";
    assert!(what.contains(said) && what.contains("no such argument"), "{what}");
}

#[test]
fn a_connection_that_breaks_costs_one_call_and_is_opened_again() {
    for script in
        [(|n| if n % 10 == 9 { Act::CutBody } else { Act::Answer }) as fn(u64) -> Act, |n| {
            if n % 10 == 9 { Act::Die } else { Act::Answer }
        }]
    {
        let (counted, ok, what) = errors(script);
        assert_eq!((counted, ok), (only("transport", 10), 90));
        assert!(what.contains("the server closed the connection"), "{what}");
    }
    let (counted, ok, _) = errors(|_| Act::LastWords);
    assert_eq!((counted, ok), (Errors::default(), 100), "a close that was announced is no error");
}

#[test]
fn a_call_that_hangs_is_a_timeout_and_its_connection_is_left() {
    let (counted, ok, _) = errors(|n| if n == BEFORE + 50 { Act::Hang } else { Act::Answer });
    assert_eq!((counted, ok), (only("timeout", 1), 99));
}

#[test]
fn a_server_that_answers_nothing_any_more_is_given_up() {
    let began = Instant::now();
    let script = |n| if n < BEFORE + 40 { Act::Answer } else { Act::Die };
    let run = measure(&plan(1_000_000), &Server::start(Kind::Modern, script)).unwrap();
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(run.results.calls_ok, 40);
    assert!(run.results.errors.transport >= 12, "{:?}", run.results.errors);
    assert_eq!(run.results.calls_ok + run.results.errors.total(), run.results.calls_sent);
    let broken = run.broken.unwrap();
    assert!(broken.contains("12 calls in a row failed: the server closed"), "{broken}");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    // A port that was free a moment ago.
    let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (url, sse) in [
        (format!("http://{at}/mcp"), false),
        (format!("http://{at}/sse"), true),
        (format!("ws://{at}/mcp"), false),
        (format!("tcp://{at}"), false),
        ("unix:/no/such/socket".to_owned(), false),
    ] {
        let target = Target::Remote(Box::new(Remote::new(Address::parse(&url, sse).unwrap())));
        let error = run_one(&plan(1), &target).unwrap_err();
        let text = error.to_string();
        assert!(error.is_unreachable() && text.contains(&url), "{text}");
        assert!(text.contains("cannot connect") && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn a_first_call_that_is_turned_away_refuses_the_run() {
    let server = Server::start(Kind::Modern, |_| Act::Status("503 Busy|Retry-After: 7\r\n"));
    let error = measure(&plan(1), &server).unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert!(error.to_string().contains("Retry-After: 7"), "{error}");
}

#[test]
fn several_targets_are_measured_in_turns_and_one_that_fails_does_not_stop_them() {
    let good = Server::start(Kind::Modern, |_| Act::Answer);
    let lines = Server::start(Kind::Lines, |_| Act::Answer);
    let mortal = Server::start(Kind::Legacy, |n| if n < 60 { Act::Answer } else { Act::Die });
    let nowhere = Remote::new(Address::parse("tcp://127.0.0.1:1", false).unwrap());
    let targets =
        [good.target(), Target::Remote(Box::new(nowhere)), mortal.target(), lines.target()];
    let subject = |target| Subject { target, floor: Floor::Off, speak: Speak::Auto };
    let sliced = Plan { slices: 4, ..plan(400) };
    let control = Arc::new(Control::default());
    let runs = run_together(&sliced, &targets.map(subject), &control).unwrap();
    let [good, nowhere, mortal, lines] = &runs[..] else { panic!("{}", runs.len()) };
    for run in [good, lines] {
        let run = run.as_ref().unwrap();
        assert!(run.is_clean(), "{:?}", run.results.first_failure);
        assert_eq!((run.results.calls_ok, run.results.slices.len()), (400, 4));
    }
    assert!(nowhere.as_ref().unwrap_err().is_unreachable());
    let mortal = mortal.as_ref().unwrap();
    assert_eq!(mortal.results.calls_ok, 57);
    assert!(mortal.broken.is_some());
}

fn run_one(plan: &Plan, target: &Target) -> Result<Run, Error> {
    run(plan, target, &Floor::Off, &Arc::new(Control::default()))
}
