//! Both session machines against a peer that says anything, at any time: what they write are
//! messages, what they keep is bounded by what was said, and when all is over nothing is left.

use std::time::{Duration, Instant};

use mcplane_proto::Message;
use mcplane_proto::frame::Output;
use mcplane_proto::message::Kind;
use mcplane_proto::method::Method;
use mcplane_proto::session::client::{Call, ClientConfig, ClientEvent, ClientSession};
use mcplane_proto::session::listen::Offered;
use mcplane_proto::session::server::{Features, ServerConfig, ServerEvent, ServerSession};
use mcplane_proto::session::{EraChoice, Ids};
use mcplane_proto::types::{Cache, ClientCapabilities, Implementation, ServerCapabilities};
use mcplane_proto::version::Revision;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Any bytes.
pub fn run(data: &[u8]) {
    let [choice, data @ ..] = data else { return };
    let lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').take(64).collect();
    serve(&lines);
    call(*choice, &lines);
}

/// What is written is nothing, or one message.
fn check(out: &mut Output) {
    if !out.is_empty() {
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
        let message = Message::scan(out.take()).expect("a message");
        assert!(message.kind() != Kind::Request || message.id().is_some());
    }
}

fn serve(lines: &[&[u8]]) {
    let features =
        Features { tools: true, resources: true, prompts: true, completions: true, logging: true };
    let mut session: ServerSession<u32, u32> = ServerSession::new(ServerConfig {
        info: Implementation::new("fuzz", "1"),
        capabilities: ServerCapabilities::new(),
        instructions: None,
        revisions: Revision::ALL.to_vec(),
        unsupported: None,
        features,
        offered: Offered::default(),
        cache: Cache::default(),
    });
    let (mut out, mut now) = (Output::new(), Instant::now());
    for line in lines {
        let message = match Message::scan(line.to_vec()) {
            Ok(message) => message,
            Err(failure) => {
                session.refuse(&failure, &mut out);
                check(&mut out);
                now += TIMEOUT;
                session.expire(now);
                continue;
            }
        };
        let event = session.receive(now, &message, &mut out);
        check(&mut out);
        if let (ServerEvent::Request(..), Some(id)) = (event, message.id()) {
            assert!(!session.is_in_flight(&id), "one request under one id");
            session.begin(id, 0);
            let _ = session.ask(now, Method::Ping, None, TIMEOUT, 0, &mut out);
            check(&mut out);
        }
        assert!(session.in_flight() <= lines.len() * 2);
    }
    session.drain();
    session.expire(now + TIMEOUT * 2);
    session.end_listens(&mut out);
    assert_eq!(session.listens(), 0);
}

fn call(choice: u8, lines: &[&[u8]]) {
    let choice = match choice % 4 {
        0 => EraChoice::Auto,
        1 => EraChoice::Legacy,
        2 => EraChoice::Only(Revision::LATEST),
        _ => EraChoice::Only(Revision::ALL[0]),
    };
    let config = ClientConfig {
        info: Implementation::new("fuzz", "1"),
        capabilities: ClientCapabilities::new().with_elicitation_form().with_roots(false),
        choice,
        timeout: TIMEOUT,
        ids: Ids::InOrder,
    };
    let (mut out, mut now) = (Output::new(), Instant::now());
    let mut session: ClientSession<usize> = ClientSession::start(now, config, &mut out);
    check(&mut out);
    let (mut opened, mut ended) = (0, 0);
    for (number, line) in lines.iter().enumerate() {
        let mut events = Vec::new();
        match Message::scan(line.to_vec()) {
            Ok(message) => events.push(session.receive(now, &message, &mut out)),
            Err(failure) => {
                events.push(session.refuse(now, &failure, &mut out));
                check(&mut out);
                now += TIMEOUT;
                while let Some(event) = session.expire(now, &mut out) {
                    check(&mut out);
                    events.push(event);
                }
            }
        }
        for event in events {
            match event {
                ClientEvent::Answered(..) => ended += 1,
                ClientEvent::Respawn => {
                    check(&mut out);
                    session.respawned(now, &mut out);
                }
                ClientEvent::Failed(_) => return,
                _ => {}
            }
        }
        check(&mut out);
        if session.peer().is_some() {
            let request = Call {
                method: Method::ToolsCall,
                params: Some(b"{\"name\":\"x\"}"),
                members: &[],
                meta: None,
                log_level: None,
                progress: true,
                timeout: Some(TIMEOUT),
            };
            opened += usize::from(session.call(now, &request, number, &mut out).is_ok());
            check(&mut out);
        }
    }
    let closed = session.closed();
    ended += closed.iter().filter(|event| matches!(event, ClientEvent::Answered(..))).count();
    assert_eq!(opened, ended, "each request ends once");
}
