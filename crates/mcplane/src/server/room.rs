//! What is said to peers whose messages find no room.

use mcplane_proto::error::{Code, ErrorObject};
use serde_json::json;
use serde_json::value::RawValue;

/// A request that is too long for what is left.
pub(super) fn no_room_for_request(len: usize) -> ErrorObject {
    overloaded(format!(
        "there is no room for this request of {len} bytes, and it was not carried out; try again \
         when others have been answered"
    ))
}

/// An answer that is too long for what is left.
pub(super) fn no_room_for_answer(len: usize) -> ErrorObject {
    overloaded(format!(
        "the request was carried out, but there is no room for its answer of {len} bytes: read the \
         answers that wait, then ask again"
    ))
}

/// A question to the client that is too long for what is left.
pub(super) fn no_room_for_question(len: usize) -> ErrorObject {
    overloaded(format!("there is no room for this question of {len} bytes to the client"))
}

/// An answer that its batch has no place for.
pub(super) fn no_room_in_batch(max: usize) -> ErrorObject {
    overloaded(format!(
        "the request was carried out, but the answers of a batch may have {max} bytes together: \
         send it by itself"
    ))
}

/// A request of a batch that is not carried out.
pub(super) fn batch_is_full(max: usize) -> ErrorObject {
    let why = format!(
        "the answers of a batch may have {max} bytes together, and those before have as many; this \
         request was not carried out: send it by itself"
    );
    ErrorObject::new(Code::INVALID_REQUEST, why)
}

fn overloaded(why: String) -> ErrorObject {
    ErrorObject::new(Code::OVERLOADED, why).with_data(&json!({"retry": true}))
}

/// The id of an answer that our own writer wrote, as JSON text.
pub(super) fn id_of(answer: &[u8]) -> Option<&[u8]> {
    let rest = answer.strip_prefix(br#"{"jsonrpc":"2.0","id":"#)?;
    let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<&RawValue>();
    Some(values.next()?.ok()?.get().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_an_answer_is_found_without_reading_the_rest() {
        for id in ["7", r#""a,\"}b""#, "null", "-1"] {
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"#);
            assert_eq!(id_of(answer.as_bytes()), Some(id.as_bytes()));
        }
        assert_eq!(id_of(br#"{"jsonrpc":"2.0","method":"x"}"#), None);
    }
}
