//! What an upstream of 2026-07-28 asks: a client of its own era gets the round as it is; an older
//! one is asked with requests, and the call is sent again with its answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mcplane::proto::error::{Code, ErrorObject};
use mcplane::proto::limits::INPUT_ROUNDS_MAX;
use mcplane::proto::message::Message;
use mcplane::proto::session::Peer;
use mcplane::proto::session::rounds::{InputRequired, retry_members};
use mcplane::proto::translate;
use mcplane::proto::types::{Entries, InputRequest};
use mcplane::proto::version::Era;
use serde_json::value::RawValue;

use crate::upstream::call::Call;

/// Most questions in one round.
const QUESTIONS_MAX: usize = 64;

/// Takes one round on.
pub(crate) fn round(call: &Arc<Call>, round: InputRequired, message: &Message, peer: &Peer) {
    if call.revision.era() == Era::Modern {
        if let Some(request) = call.seat().request.take() {
            super::respond(request, call, message, peer, false);
        }
        return;
    }
    if u32::from(call.sent.load(Ordering::Relaxed)) > INPUT_ROUNDS_MAX {
        let why = format!("the server still asks for input after {INPUT_ROUNDS_MAX} rounds");
        return call.fail(&ErrorObject::new(Code::INTERNAL_ERROR, why));
    }
    let call = Arc::clone(call);
    tokio::spawn(async move {
        match answers(&call, &round).await {
            Ok(answers) => {
                call.seat().retry = retry_members(&answers, round.request_state.as_deref());
                if call.is_wanted() {
                    Arc::clone(&call.pool).submit(call, None);
                }
            }
            Err(error) => call.fail(&error),
        }
    });
}

/// Asks the client what the upstream asks, in the upstream's order.
async fn answers(
    call: &Call,
    round: &InputRequired,
) -> Result<Vec<(String, Vec<u8>)>, ErrorObject> {
    let questions = round.input_requests.as_deref().map_or("{}", RawValue::get);
    let questions: Entries<InputRequest> = serde_json::from_str(questions).map_err(|error| {
        ErrorObject::new(
            Code::INTERNAL_ERROR,
            format!("bad `inputRequests` of the server: {error}"),
        )
    })?;
    if questions.len() > QUESTIONS_MAX {
        let why = format!("the server asks {} questions at once", questions.len());
        return Err(ErrorObject::new(Code::INTERNAL_ERROR, why));
    }
    let mut asking = Vec::with_capacity(questions.len());
    for (key, question) in questions.iter() {
        asking.push((key.to_owned(), ask(call, question)?));
    }
    let mut answers = Vec::with_capacity(asking.len());
    for (key, asking) in asking {
        let answer = asking.answer().await?;
        answers.push((key, translate::answer_to_modern(&answer)));
    }
    Ok(answers)
}

fn ask(
    call: &Call,
    question: &InputRequest,
) -> Result<mcplane::server::relay::Asking, ErrorObject> {
    let id = super::unguessable()?;
    let (method, params) = translate::question_to_legacy(question, call.revision, Some(&id))
        .map_err(|why| ErrorObject::new(Code::INVALID_REQUEST, why))?;
    let seat = call.seat();
    let gone = || ErrorObject::new(Code::INTERNAL_ERROR, "the client is gone");
    let request = seat.request.as_ref().ok_or_else(gone)?;
    translate::can_answer(method, Some(&params), request.capabilities()).map_err(|lacking| {
        let lacking = serde_json::json!(lacking);
        let why = format!("the server asks for what this client does not declare: {lacking}");
        ErrorObject::new(Code::INVALID_REQUEST, why)
    })?;
    request.ask(method, params).map_err(|_| gone())
}
