//! What the types read and write, in every revision.

mod down_level;
mod long;
mod results;
mod round_trip;

use serde_json::value::RawValue;

use super::{ResultContext, WireResult};
use crate::version::Revision;

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.into()).unwrap()
}

fn written(result: &impl WireResult, revision: Revision) -> String {
    let mut out = Vec::new();
    result.write(&ResultContext::new(revision), &mut out);
    String::from_utf8(out).unwrap()
}
