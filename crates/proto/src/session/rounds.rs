//! Multi-round trips of 2026-07-28 (SEP-2322): a server that needs an answer from the user returns
//! `input_required`; the client answers by sending the same call again with the answers in it.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::limits::REQUEST_STATE_BYTES_MAX;
use crate::message::write;

/// What a server asks for in one round.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct InputRequired {
    /// Questions by key, in the order sent: an object of `{method, params}`.
    pub input_requests: Option<Box<RawValue>>,
    /// To be sent back byte for byte; the JSON text of a string.
    pub request_state: Option<Box<RawValue>>,
}

impl InputRequired {
    /// Reads a result whose `resultType` is `input_required`.
    ///
    /// # Errors
    /// A sentence that says what is wrong: neither requests nor state, or a state that is not a
    /// string or longer than [`REQUEST_STATE_BYTES_MAX`].
    pub fn parse(result: &[u8]) -> Result<Self, String> {
        let round: Self = serde_json::from_slice(result).map_err(|error| error.to_string())?;
        if let Some(state) = &round.request_state {
            if !state.get().starts_with('"') {
                return Err("`requestState` is not a string".into());
            }
            if state.get().len() > REQUEST_STATE_BYTES_MAX {
                return Err(format!(
                    "`requestState` is longer than {REQUEST_STATE_BYTES_MAX} bytes"
                ));
            }
        }
        if round.input_requests.is_none() && round.request_state.is_none() {
            return Err("neither `inputRequests` nor `requestState`".into());
        }
        Ok(round)
    }
}

/// The members that a retry adds to the parameters of the first call, as JSON text that begins with
/// a comma: this round's answers (not those of earlier rounds) and the state, if there was one.
#[must_use]
pub fn retry_members(answers: &[(String, Vec<u8>)], state: Option<&RawValue>) -> Vec<u8> {
    let mut out = Vec::new();
    if !answers.is_empty() {
        out.extend_from_slice(b",\"inputResponses\":{");
        for (at, (key, answer)) in answers.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            write::string(&mut out, key);
            out.push(b':');
            out.extend_from_slice(answer);
        }
        out.push(b'}');
    }
    if let Some(state) = state {
        out.extend_from_slice(b",\"requestState\":");
        out.extend_from_slice(state.get().as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_comes_back_byte_for_byte() {
        let text = br#"{"resultType":"input_required","requestState":"a\u0062\/","inputRequests":{"b":{"method":"roots/list"},"a":{}}}"#;
        let round = InputRequired::parse(text).unwrap();
        let members = retry_members(
            &[("b".into(), b"{}".to_vec()), ("a\"".into(), b"1".to_vec())],
            round.request_state.as_deref(),
        );
        assert_eq!(
            String::from_utf8(members).unwrap(),
            r#","inputResponses":{"b":{},"a\"":1},"requestState":"a\u0062\/""#
        );
        assert_eq!(retry_members(&[], None), b"");
    }

    #[test]
    fn rounds_that_ask_nothing_are_refused() {
        assert!(InputRequired::parse(br#"{"resultType":"input_required"}"#).is_err());
        assert!(InputRequired::parse(br#"{"requestState":5}"#).is_err());
        let long = format!(r#"{{"requestState":"{}"}}"#, "x".repeat(REQUEST_STATE_BYTES_MAX));
        assert!(InputRequired::parse(long.as_bytes()).is_err());
    }
}
