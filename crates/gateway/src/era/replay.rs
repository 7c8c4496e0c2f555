//! What an upstream of 2026-07-28 asks: a client of its own era gets the round as it is; an older
//! one is asked with requests, and the call is sent again with its answers.

use std::sync::Arc;

use mcplane::proto::limits::INPUT_ROUNDS_MAX;
use mcplane::proto::message::{self, Message, Part, write};
use mcplane::proto::session::Peer;
use mcplane::proto::session::rounds::{InputRequired, retry_members};
use mcplane::proto::translate;
use mcplane::proto::types::{Entries, InputRequest};
use mcplane::proto::version::Era;
use mcplane::server::relay::Relayed;
use serde_json::value::RawValue;

use super::park::AGAIN;
use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::settle::{Reply, Way, fail, settle};
use crate::upstream::call::Call;
use crate::upstream::model::Pool;

/// Most questions in one round.
const QUESTIONS_MAX: usize = 64;

/// Handles one `input_required` result.
pub(crate) fn round(call: &Arc<Call>, round: InputRequired, message: &Message, peer: &Peer) {
    if call.revision.era() == Era::Modern {
        let mut ended = super::take(call, message, peer);
        let way = call.way(&ended);
        if let Some(request) = ended.request.take() {
            match round.request_state.as_deref() {
                Some(state) => pass_on(request, call, state, (message, way)),
                None => super::respond(request, call, (message, peer), false, way),
            }
        }
        return;
    }
    if u32::from(call.life().sends()) > INPUT_ROUNDS_MAX {
        return call.fail(&Failure::Rounds);
    }
    // Its place and its turn are for others while the client is asked.
    let sent = call.life().replay();
    if sent.is_none() {
        return;
    }
    drop(sent);
    let call = Arc::clone(call);
    tokio::spawn(async move {
        match answers(&call, &round).await {
            Ok(answers) => {
                let retry = retry_members(&answers, round.request_state.as_deref());
                if call.life().again(retry) {
                    Arc::clone(&call.pool).submit(call);
                }
            }
            Err(failure) => call.fail(&failure),
        }
    });
}

/// Passes a round on to a client of the same era, with the state sealed for it alone.
fn pass_on(request: Relayed, call: &Call, state: &RawValue, (message, way): (&Message, Way<'_>)) {
    let members = message.part(Part::Result).unwrap_or_default();
    let members: Entries<&RawValue> = serde_json::from_slice(members).unwrap_or_default();
    let Some(sealed) = call.pool.shared.seal.close(state.get(), &call.pool.shared.name, &request)
    else {
        return fail(request, &Failure::StateTooLong, way);
    };
    let mut out = Vec::with_capacity(message.bytes().len() + sealed.len());
    write::begin_result(&mut out, request.id_json());
    for (at, (name, value)) in members.iter().enumerate() {
        out.push(if at == 0 { b'{' } else { b',' });
        write::string(&mut out, name);
        out.push(b':');
        match name {
            "requestState" => write::string(&mut out, &sealed),
            _ => out.extend_from_slice(value.get().as_bytes()),
        }
    }
    out.push(b'}');
    write::end(&mut out);
    settle(request, Reply::Line(out, message::Outcome::Result), Outcome::Answered, way);
}

/// The members of a retry, as a client of 2026-07-28 sends them to a server of its era.
///
/// # Errors
/// The state is not one that was given to this principal for this request.
pub(crate) fn reopen(pool: &Pool, request: &Relayed) -> Result<Vec<u8>, Failure> {
    let message = request.message();
    let state = message.text(Part::RequestState);
    let Some(state) =
        state.filter(|state| state != AGAIN && request.revision().era() == Era::Modern)
    else {
        return Ok(Vec::new());
    };
    let state = pool.shared.seal.open(&state, &pool.shared.name, request).ok_or(Failure::State)?;
    let mut retry = Vec::new();
    if let Some(given) = message.part(Part::InputResponses) {
        retry.extend_from_slice(b",\"inputResponses\":");
        retry.extend_from_slice(given);
    }
    retry.extend_from_slice(b",\"requestState\":");
    retry.extend_from_slice(state.as_bytes());
    Ok(retry)
}

/// Asks the client what the upstream asks, in the upstream's order.
async fn answers(call: &Call, round: &InputRequired) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let questions = round.input_requests.as_deref().map_or("{}", RawValue::get);
    let questions: Entries<InputRequest> = serde_json::from_str(questions)
        .map_err(|error| Failure::InputRequests(error.to_string()))?;
    if questions.len() > QUESTIONS_MAX {
        return Err(Failure::Questions(questions.len()));
    }
    let mut asking = Vec::with_capacity(questions.len());
    for (key, question) in questions.iter() {
        asking.push((key.to_owned(), ask(call, question)?));
    }
    let mut answers = Vec::with_capacity(asking.len());
    for (key, asking) in asking {
        let answer = asking.answer().await.map_err(Failure::Declined)?;
        answers.push((key, translate::answer_to_modern(&answer)));
    }
    Ok(answers)
}

fn ask(call: &Call, question: &InputRequest) -> Result<mcplane::server::relay::Asking, Failure> {
    let id = super::unguessable().map_err(Failure::NoRandomness)?;
    let (method, params) = translate::question_to_legacy(question, call.revision, Some(&id))
        .map_err(Failure::Question)?;
    let life = call.life();
    let request = life.request().ok_or(Failure::ClientGone)?;
    translate::can_answer(method, Some(&params), request.capabilities())
        .map_err(Failure::Undeclared)?;
    request.ask(method, params).map_err(|_| Failure::ClientGone)
}
