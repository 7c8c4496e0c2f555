//! Between the revisions: whatever comes in, what goes on is one message on one line, with the id of
//! the next hop and nothing of the other era's envelope.

use mcplane_proto::message::{Kind, Part};
use mcplane_proto::method::Method;
use mcplane_proto::translate::{self, Back, Onward};
use mcplane_proto::types::Entries;
use mcplane_proto::version::{Era, Revision};
use mcplane_proto::{Id, Message};
use serde_json::value::RawValue;

/// Any bytes.
pub fn run(data: &[u8]) {
    let [from, to, data @ ..] = data else { return };
    let [from, to] = [from, to].map(|byte| Revision::ALL[usize::from(*byte) % Revision::ALL.len()]);
    let Ok(message) = Message::scan(data.to_vec()) else { return };
    match message.kind() {
        Kind::Request => request(&message, from, to),
        Kind::Notification => notes(&message),
        Kind::Response | Kind::ErrorResponse => response(&message, from, to),
    }
}

/// What was written, read again.
fn read(out: Vec<u8>) -> Message {
    assert!(!out.contains(&b'\n') && !out.contains(&b'\r'), "one line");
    Message::scan(out).expect("a message")
}

fn request(message: &Message, from: Revision, to: Revision) {
    for name in [None, Some("a \"name\"\n")] {
        let mut onward = Onward::new(to, 7_777_777);
        onward.name = name;
        let mut out = Vec::new();
        translate::request(message, from, &onward, &mut out);
        let on = read(out);
        assert_eq!(on.kind(), Kind::Request);
        assert_eq!(on.id(), Some(Id::Integer(7_777_777)));
        assert_eq!(on.method_name(), message.method_name());
        assert_eq!(
            on.part(Part::ProgressToken).is_some(),
            message.part(Part::ProgressToken).is_some()
        );
        if to.era() == Era::Legacy {
            assert_eq!(
                on.part(Part::ProtocolVersion),
                None,
                "no legacy server is told of 2026-07-28"
            );
        }
        if let (Some(name), Some(_)) = (name, message.text(Part::Name)) {
            let is_named = matches!(message.method(), Some(Method::ToolsCall | Method::PromptsGet));
            assert!(!is_named || on.text(Part::Name).as_deref() == Some(name));
        }
    }
    let _ = translate::question_to_modern(message);
    let _ = translate::question(message, from, to, Some(7));
}

fn notes(message: &Message) {
    for write in [
        |note: &Message, out: &mut Vec<u8>| translate::progress(note, b"\"token\"", out),
        |note: &Message, out: &mut Vec<u8>| translate::log(note, out),
        |note: &Message, out: &mut Vec<u8>| translate::change(note, Some(b"9"), out),
        |note: &Message, out: &mut Vec<u8>| translate::change(note, None, out),
    ] {
        let mut out = Vec::new();
        write(message, &mut out);
        assert_eq!(read(out).kind(), Kind::Notification);
    }
}

fn response(message: &Message, from: Revision, to: Revision) {
    let _ = translate::hop_error(message);
    for method in Method::ALL {
        for wraps in [false, true] {
            let mut out = Vec::new();
            let back = Back { wraps, ..Back::new(to, b"\"id\"") };
            translate::response(*method, message, from, &back, &mut out);
            let back = read(out);
            assert_eq!(back.id(), Some(Id::from("id")));
            assert!(matches!(back.kind(), Kind::Response | Kind::ErrorResponse));
        }
    }
    let Some(result) = message.part(Part::Result) else { return };
    for json in [
        translate::answer_to_modern(result),
        translate::answer_to_legacy(result, Method::ElicitationCreate, from),
        translate::answer_to_legacy(result, Method::CreateMessage, from),
    ] {
        serde_json::from_slice::<&RawValue>(&json).expect("an answer is JSON");
    }
    for method in [Method::ToolsList, Method::PromptsList, Method::ResourcesList] {
        let mut out = Vec::new();
        translate::entry(method, result, from, to, &mut out);
        serde_json::from_slice::<&RawValue>(&out).expect("an entry is JSON");
    }
    let _ = serde_json::from_slice::<Entries<Box<RawValue>>>(result);
}
