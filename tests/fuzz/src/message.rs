//! `Message`: the scan agrees with serde_json on what is JSON and on what is in it, and a splice
//! changes nothing but what it should.

use bytes::Bytes;
use mcplane_proto::message::{Kind, Part, ScanError, is_batch, split_batch};
use mcplane_proto::{Id, Message};
use serde::de::IgnoredAny;
use serde_json::Value;

/// Every noted part with its path.
const PARTS: [(Part, &[&str]); 34] = [
    (Part::JsonRpc, &["jsonrpc"]),
    (Part::Id, &["id"]),
    (Part::Method, &["method"]),
    (Part::Params, &["params"]),
    (Part::Result, &["result"]),
    (Part::Error, &["error"]),
    (Part::Name, &["params", "name"]),
    (Part::Uri, &["params", "uri"]),
    (Part::Arguments, &["params", "arguments"]),
    (Part::Meta, &["params", "_meta"]),
    (Part::Cursor, &["params", "cursor"]),
    (Part::RequestId, &["params", "requestId"]),
    (Part::ProgressOf, &["params", "progressToken"]),
    (Part::InputResponses, &["params", "inputResponses"]),
    (Part::RequestState, &["params", "requestState"]),
    (Part::TaskId, &["params", "taskId"]),
    (Part::Ref, &["params", "ref"]),
    (Part::RefType, &["params", "ref", "type"]),
    (Part::RefName, &["params", "ref", "name"]),
    (Part::RefUri, &["params", "ref", "uri"]),
    (Part::ProgressToken, &["params", "_meta", "progressToken"]),
    (Part::ProtocolVersion, &["params", "_meta", "io.modelcontextprotocol/protocolVersion"]),
    (Part::ClientCapabilities, &["params", "_meta", "io.modelcontextprotocol/clientCapabilities"]),
    (Part::ClientInfo, &["params", "_meta", "io.modelcontextprotocol/clientInfo"]),
    (Part::LogLevel, &["params", "_meta", "io.modelcontextprotocol/logLevel"]),
    (Part::SubscriptionId, &["params", "_meta", "io.modelcontextprotocol/subscriptionId"]),
    (Part::TraceParent, &["params", "_meta", "traceparent"]),
    (Part::ResultType, &["result", "resultType"]),
    (Part::IsError, &["result", "isError"]),
    (Part::ResultMeta, &["result", "_meta"]),
    (Part::NextCursor, &["result", "nextCursor"]),
    (Part::TtlMs, &["result", "ttlMs"]),
    (Part::CacheScope, &["result", "cacheScope"]),
    (Part::ErrorCode, &["error", "code"]),
];

/// Any bytes.
pub fn run(data: &[u8]) {
    // `IgnoredAny` judges syntax alone: no bound on depth, numbers or surrogates.
    let is_json = std::str::from_utf8(data)
        .is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    match Message::scan(Bytes::copy_from_slice(data)) {
        Ok(message) => {
            assert!(is_json, "accepted what is no JSON");
            parts(&message);
            splices(&message, data);
        }
        Err(failure) => match failure.error {
            ScanError::NotJson { at, .. } => assert!(!is_json && at <= data.len()),
            ScanError::NotUtf8 { at } => assert!(!is_json && at < data.len()),
            // Stricter than JSON, and found before the rest was looked at.
            ScanError::TooDeep { .. } | ScanError::TooLong { .. } => {}
            _ => assert!(is_json, "{:?} for what is no JSON", failure.error),
        },
    }
    if is_batch(data) {
        batch(data, is_json);
    }
}

/// Each part is what serde_json finds at its path.
fn parts(message: &Message) {
    let whole: Option<Value> = serde_json::from_slice(message.bytes()).ok();
    for (part, path) in PARTS {
        let found = message.part(part);
        if let Some(json) = found {
            serde_json::from_slice::<IgnoredAny>(json).expect("a part is JSON");
        }
        // A number beyond f64 or half a surrogate pair is syntax, but no `Value`.
        let Some(whole) = &whole else { continue };
        let expected = path.iter().try_fold(whole, |value, key| value.get(key));
        let value = found.map(|json| serde_json::from_slice::<Value>(json).expect("a value"));
        assert_eq!(value.as_ref(), expected, "{part:?}");
        let text = message.text(part);
        assert_eq!(text.as_deref(), expected.and_then(Value::as_str), "{part:?}");
    }
    match message.kind() {
        Kind::Request | Kind::Response => assert!(message.id().is_some()),
        Kind::Notification => assert!(message.id().is_none()),
        Kind::ErrorResponse => {}
    }
    if let Some(id) = message.id() {
        let mut json = Vec::new();
        id.write_json(&mut json);
        assert_eq!(Id::from_json(&json), Some(id));
    }
}

/// A replaced part can be put back, and only its own bytes were touched in between.
fn splices(message: &Message, data: &[u8]) {
    for (part, _) in PARTS {
        let Some(old) = message.share(part) else { continue };
        let start = old.as_ptr() as usize - message.bytes().as_ptr() as usize;
        let new: &[u8] = match part {
            Part::Id => b"\"a much longer id\"",
            Part::Method | Part::ProgressToken | Part::RequestId | Part::Cursor => b"\"x\"",
            Part::Params | Part::Meta | Part::Result | Part::Error => b"{}",
            _ => continue,
        };
        let spliced = message.splice(&[(part, new)]);
        assert_eq!(spliced, [&data[..start], new, &data[start + old.len()..]].concat());
        let again = Message::scan(spliced).expect("a spliced message is a message");
        assert_eq!(again.part(part), Some(new));
        assert_eq!(again.splice(&[(part, &old)]), data);
    }
}

fn batch(data: &[u8], is_json: bool) {
    match split_batch(&Bytes::copy_from_slice(data)) {
        Ok(elements) => {
            assert!(is_json && !elements.is_empty());
            if let Ok(values) = serde_json::from_slice::<Vec<Value>>(data) {
                let split: Vec<Value> =
                    elements.iter().map(|json| serde_json::from_slice(json).unwrap()).collect();
                assert_eq!(split, values);
            }
        }
        Err(failure) => match failure.error {
            ScanError::NotJson { .. } | ScanError::NotUtf8 { .. } => assert!(!is_json),
            ScanError::TooDeep { .. } | ScanError::BadBatch(_) => {}
            error => panic!("{error:?} for a batch"),
        },
    }
}
