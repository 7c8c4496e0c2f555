//! A request that the scan accepts means the same to parsers that are not ours, before and after the
//! splice for the next hop.

use bytes::Bytes;
use mcplane_proto::Message;
use mcplane_proto::message::{Kind, Part};
use mcplane_proto::translate::{self, Onward};
use mcplane_proto::version::Revision;

#[path = "../../../crates/proto/tests/foreign/readers.rs"]
mod readers;

const PARTS: [Part; 8] = [
    Part::Id,
    Part::Method,
    Part::Name,
    Part::Uri,
    Part::RefType,
    Part::RefName,
    Part::RefUri,
    Part::ProgressToken,
];

/// Any bytes.
pub fn run(data: &[u8]) {
    let Ok(message) = Message::scan(Bytes::copy_from_slice(data)) else { return };
    // What is syntax and yet no text or no number has no meaning to compare.
    if message.kind() != Kind::Request || serde_json::from_slice::<serde_json::Value>(data).is_err()
    {
        return;
    }
    agree(&message);
    for from in [Revision::V2025_11_25, Revision::LATEST] {
        for to in [Revision::V2025_11_25, Revision::LATEST] {
            let mut onward = Onward::new(to, 77);
            onward.name = Some("renamed");
            let mut out = Vec::new();
            translate::request(&message, from, &onward, &mut out);
            let sent = Message::scan(out).expect("what is sent is a message");
            assert_eq!(sent.part(Part::Id), Some(&b"77"[..]));
            agree(&sent);
        }
    }
}

fn agree(message: &Message) {
    let ours = |path: &[&str]| {
        let place = readers::DECIDES.iter().position(|known| *known == path)?;
        Some(String::from_utf8_lossy(message.part(PARTS[place])?).into_owned())
    };
    readers::agree(message.bytes(), ours).expect("all read the same");
}
