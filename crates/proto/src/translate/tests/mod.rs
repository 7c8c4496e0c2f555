//! The bridge, cell by cell.

mod any;
mod questions;
mod requests;
mod results;

use bytes::Bytes;
use serde_json::Value;

use crate::message::{Message, Outcome};
use crate::version::Revision;

const OLDEST: Revision = Revision::V2024_11_05;
const SPRING: Revision = Revision::V2025_03_26;
const SUMMER: Revision = Revision::V2025_06_18;
const AUTUMN: Revision = Revision::V2025_11_25;
const MODERN: Revision = Revision::V2026_07_28;

fn scan(text: &str) -> Message {
    Message::scan(Bytes::copy_from_slice(text.as_bytes())).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// What was written, which must be one message.
fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = b"before".to_vec();
    write(&mut out);
    let text = String::from_utf8(out).unwrap();
    let text = text.strip_prefix("before").unwrap();
    scan(text);
    assert!(!text.contains(['\n', '\r']), "more than one line: {text:?}");
    text.to_owned()
}

/// The same of an answer, which must end its request as it says.
fn replied(write: impl FnOnce(&mut Vec<u8>) -> Outcome) -> String {
    let mut outcome = None;
    let text = written(|out| outcome = Some(write(out)));
    assert_eq!(scan(&text).outcome(), outcome, "{text}");
    text
}

fn value(text: impl AsRef<[u8]>) -> Value {
    serde_json::from_slice(text.as_ref())
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(text.as_ref())))
}
