//! `Mcp-*` headers: any text survives a header, what a client mirrors a server accepts, and another
//! value is refused.

use mcplane_proto::headers::{self, Body};
use serde_json::value::RawValue;

/// Any bytes.
pub fn run(data: &[u8]) {
    let _ = headers::decode(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    let value = headers::encode(text);
    assert!(value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')), "{value:?}");
    assert_eq!(headers::decode(value.as_bytes()).as_deref(), Ok(text));

    // A schema, and arguments for it.
    let (schema, arguments) = text.split_once('\n').unwrap_or((text, "{}"));
    let Ok(params) = headers::param_headers(schema) else { return };
    let Ok(json) = serde_json::from_str::<&RawValue>(arguments) else { return };
    let body = Body {
        version: "2026-07-28",
        method: "tools/call",
        name: Some(text),
        arguments: Some(json.get()),
    };
    let Ok(mirrored) = headers::mirror(&params, Some(json)) else { return };
    let mut sent: Vec<(String, Vec<u8>)> = headers::standard(&body)
        .map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()))
        .chain(mirrored.into_iter().map(|(name, value)| (name, value.into_bytes())))
        .collect();
    assert_eq!(judge(&sent, &body, &params), Ok(()), "what is mirrored is accepted");
    // No header may be left out, sent twice, or say something else.
    for at in 0..sent.len() {
        let kept = sent[at].clone();
        sent.push(kept.clone());
        assert!(judge(&sent, &body, &params).is_err(), "{:?} twice", kept.0);
        sent.pop();
        sent[at].1.push(b'x');
        assert!(judge(&sent, &body, &params).is_err(), "{:?} changed", kept.0);
        sent.remove(at);
        assert!(judge(&sent, &body, &params).is_err(), "{:?} left out", kept.0);
        sent.insert(at, kept);
    }
}

fn judge(
    sent: &[(String, Vec<u8>)],
    body: &Body<'_>,
    params: &[headers::ParamHeader],
) -> Result<(), headers::HeaderError> {
    headers::validate(sent.iter().map(|(name, value)| (&**name, &**value)), body, params)
}
