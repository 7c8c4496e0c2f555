//! Questions in the middle of a call, for the stateless era (2026-07-28, SEP-2322).
//!
//! A handler that asks is stopped; the call ends with `input_required`. When the client sends the
//! call again with its answers, the handler runs again from its start and finds them. The answers
//! of earlier rounds travel inside `requestState`, sealed: an HMAC over them, the request that they
//! belong to, the principal, and when the seal expires. The server keeps nothing.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use mcplane_proto::error::ErrorObject;
use mcplane_proto::limits::REQUEST_STATE_BYTES_MAX;
use mcplane_proto::message::{Message, Part};
use mcplane_proto::types::{InputRequest, InputRequired, InputResponses};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::random;

/// How long a client may take between two rounds: a person may have to think.
pub(super) const SEAL_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// The key that seals are made with.
#[derive(Clone)]
pub(crate) struct SealKey([u8; 32]);

impl SealKey {
    /// A key that nobody else has. Seals of one process are then void in every other.
    ///
    /// # Errors
    /// If the operating system has no randomness to give.
    pub(crate) fn random() -> Result<Self> {
        let mut key = [0; 32];
        random::fill(&mut key, "the key of seals")?;
        Ok(Self(key))
    }

    pub(crate) const fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    pub(super) fn mac(&self, payload: &[u8]) -> Hmac<Sha256> {
        // A key shorter than the block of the hash is padded with zeros (RFC 2104 §2).
        let mut block = [0; 64];
        block.iter_mut().zip(self.0).for_each(|(padded, byte)| *padded = byte);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        mac.update(payload);
        mac
    }
}

/// The rounds of one call, as far as they have come.
pub(crate) struct Rounds {
    answers: BTreeMap<String, Box<RawValue>>,
    questions: Mutex<Vec<(String, InputRequest)>>,
}

/// What `requestState` holds.
#[derive(Serialize, Deserialize)]
struct Sealed<'a> {
    /// Seconds since 1970 at which the seal is void.
    expires_s: u64,
    /// Who asked; empty where the transport knows no principals.
    principal: &'a str,
    /// SHA-256 of method, target and arguments.
    request: String,
    answers: BTreeMap<String, Box<RawValue>>,
}

impl Rounds {
    /// Reads the rounds that a request brings along.
    ///
    /// # Errors
    /// -32602 for a state that this server did not seal for this request and this principal, or
    /// that has expired.
    pub(crate) fn open(
        message: &Message,
        key: &SealKey,
        principal: &str,
    ) -> Result<Self, ErrorObject> {
        let mut answers = BTreeMap::new();
        if message.part(Part::RequestState).is_some() {
            let state = message.text(Part::RequestState);
            let opened = state.as_deref().and_then(|state| unseal(state, key, principal, message));
            let void = "`requestState` is not one that this server gave for this request, or it \
                        has expired: send the call again without it";
            answers = opened.ok_or_else(|| ErrorObject::invalid_params(void))?;
        }
        if let Some(given) = message.part(Part::InputResponses) {
            let given: InputResponses = serde_json::from_slice(given).map_err(|error| {
                ErrorObject::invalid_params(format!("`inputResponses`: {error}"))
            })?;
            answers.extend(given.0.iter().map(|(key, answer)| (key.to_owned(), answer.clone())));
        }
        Ok(Self { answers, questions: Mutex::default() })
    }

    /// The answer to a question. If there is none yet, the question is noted and the future stays
    /// pending: whoever drives the handler sees the question and stops it.
    pub(crate) async fn answer(&self, key: &str, question: &InputRequest) -> Result<Bytes> {
        // Two questions under one name are told apart by their order, which a handler repeats.
        let key = {
            let mut asked =
                self.questions.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let taken = |name: &str| asked.iter().any(|(other, _)| other == name);
            let mut name = key.to_owned();
            let mut number = 1;
            while taken(&name) {
                number += 1;
                name = format!("{key}-{number}");
            }
            asked.push((name.clone(), question.clone()));
            name
        };
        match self.answers.get(&key) {
            Some(answer) => Ok(Bytes::copy_from_slice(answer.get().as_bytes())),
            None => std::future::pending().await,
        }
    }

    /// Whether the handler waits for an answer that only another round can bring.
    pub(crate) fn is_asking(&self) -> bool {
        let asked = self.questions.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        asked.iter().any(|(key, _)| !self.answers.contains_key(key))
    }

    /// The questions of this round with everything known so far, sealed.
    ///
    /// # Errors
    /// If the answers so far do not fit into a state.
    pub(crate) fn close(
        &self,
        message: &Message,
        key: &SealKey,
        principal: &str,
    ) -> Result<InputRequired, ErrorObject> {
        let asked = self.questions.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut round = InputRequired::new();
        for (key, question) in asked.iter().filter(|(key, _)| !self.answers.contains_key(key)) {
            round = round.ask(key, question.clone());
        }
        let sealed = Sealed {
            expires_s: now_s() + SEAL_LIFETIME.as_secs(),
            principal,
            request: digest(message),
            answers: self.answers.clone(),
        };
        let payload = serde_json::to_vec(&sealed).unwrap_or_default();
        let mac = key.mac(&payload).finalize().into_bytes();
        let state = format!("{}.{}", BASE64.encode(&payload), BASE64.encode(mac));
        if state.len() > REQUEST_STATE_BYTES_MAX {
            let why = format!("the answers so far exceed {REQUEST_STATE_BYTES_MAX} bytes");
            return Err(ErrorObject::invalid_params(why));
        }
        Ok(round.state(state))
    }
}

/// The answers in a state, if it is genuine, for this request and in time.
fn unseal(
    state: &str,
    key: &SealKey,
    principal: &str,
    message: &Message,
) -> Option<BTreeMap<String, Box<RawValue>>> {
    let (payload, mac) = state.split_once('.')?;
    let (payload, mac) = (BASE64.decode(payload).ok()?, BASE64.decode(mac).ok()?);
    key.mac(&payload).verify_slice(&mac).ok()?;
    let sealed: Sealed<'_> = serde_json::from_slice(&payload).ok()?;
    let fits = sealed.principal == principal
        && sealed.request == digest(message)
        && sealed.expires_s > now_s();
    fits.then_some(sealed.answers)
}

/// What makes two rounds the same call: method, target and arguments.
pub(super) fn digest(message: &Message) -> String {
    let mut hash = Sha256::new();
    for part in [Part::Method, Part::Name, Part::Uri, Part::Arguments] {
        let json = message.part(part).unwrap_or_default();
        hash.update(json.len().to_le_bytes());
        hash.update(json);
    }
    BASE64.encode(hash.finalize())
}

pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(extra: &str) -> Message {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{{"a":1}}{extra}}}}}"#
        );
        Message::scan(text).unwrap()
    }

    fn retry(state: &str, answers: &str) -> Message {
        call(&format!(r#","requestState":"{state}","inputResponses":{answers}"#))
    }

    /// One round that asks `key`; its state.
    async fn ask(rounds: &Rounds, key: &str) -> Option<Bytes> {
        let question = InputRequest::roots();
        let answer = rounds.answer(key, &question);
        tokio::time::timeout(Duration::from_millis(1), answer).await.ok().map(Result::unwrap)
    }

    #[tokio::test]
    async fn answers_of_earlier_rounds_travel_in_the_state() {
        let key = SealKey::random().unwrap();
        let first = Rounds::open(&call(""), &key, "p").unwrap();
        assert!(ask(&first, "one").await.is_none());
        assert!(first.is_asking());
        let state = first.close(&call(""), &key, "p").unwrap().request_state.unwrap();

        let message = retry(&state, r#"{"one":{"roots":[]},"stray":1}"#);
        let second = Rounds::open(&message, &key, "p").unwrap();
        assert_eq!(ask(&second, "one").await.unwrap(), r#"{"roots":[]}"#);
        assert!(!second.is_asking());
        assert!(ask(&second, "two").await.is_none());
        let round = second.close(&message, &key, "p").unwrap();
        let asked: Vec<_> =
            round.input_requests.unwrap().iter().map(|(key, _)| key.to_owned()).collect();
        assert_eq!(asked, ["two"]);

        let message = retry(&round.request_state.unwrap(), r#"{"two":{"x":2}}"#);
        let third = Rounds::open(&message, &key, "p").unwrap();
        assert_eq!(ask(&third, "one").await.unwrap(), r#"{"roots":[]}"#);
        assert_eq!(ask(&third, "two").await.unwrap(), r#"{"x":2}"#);
    }

    #[tokio::test]
    async fn a_state_is_void_for_another_key_principal_request_or_when_changed() {
        let key = SealKey::random().unwrap();
        let first = Rounds::open(&call(""), &key, "p").unwrap();
        ask(&first, "one").await;
        let state = first.close(&call(""), &key, "p").unwrap().request_state.unwrap();
        let message = retry(&state, "{}");
        assert!(Rounds::open(&message, &key, "p").is_ok());
        assert!(Rounds::open(&message, &SealKey::random().unwrap(), "p").is_err());
        assert!(Rounds::open(&message, &key, "q").is_err());
        let other =
            String::from_utf8(message.bytes().to_vec()).unwrap().replace(r#""a":1"#, r#""a":2"#);
        assert!(Rounds::open(&Message::scan(other).unwrap(), &key, "p").is_err());
        for tampered in [state.to_lowercase(), format!("{state}A"), String::new()] {
            assert!(Rounds::open(&retry(&tampered, "{}"), &key, "p").is_err(), "{tampered}");
        }
    }

    #[tokio::test]
    async fn two_questions_under_one_name_are_two_questions() {
        let key = SealKey::random().unwrap();
        let rounds = Rounds::open(&call(""), &key, "").unwrap();
        ask(&rounds, "q").await;
        ask(&rounds, "q").await;
        let round = rounds.close(&call(""), &key, "").unwrap();
        let asked: Vec<_> =
            round.input_requests.unwrap().iter().map(|(key, _)| key.to_owned()).collect();
        assert_eq!(asked, ["q", "q-2"]);
    }
}
