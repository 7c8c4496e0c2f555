//! The questions of one upstream to clients: those that wait for an answer, and parked calls.

use std::collections::HashMap;
use std::hash::RandomState;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use mcplane::budget::{Budget, Charge};
use mcplane::proto::id::Id;
use mcplane::proto::message::Message;
use mcplane::proto::method::Method;
use mcplane::proto::session::Peer;
use mcplane::proto::version::Revision;
use tokio::sync::oneshot;

use super::completions::Completions;
use crate::failure::Failure;
use crate::upstream::call::Call;
use crate::upstream::client::Client;
use crate::upstream::model::Worker;

/// The questions of one upstream that wait for an answer.
#[derive(Default)]
pub(crate) struct Questions {
    /// Those to legacy clients: a task waits for the answer to each, or until it is withdrawn.
    pub(super) asked: Mutex<AllAsked>,
    pub(crate) parking: Arc<Parking>,
    pub(crate) completions: Completions,
    /// For what its upstream has sent and no client has received yet.
    pub(super) memory: OnceLock<Budget>,
}

/// One of them.
pub(super) struct Asked {
    pub(super) take_back: oneshot::Sender<String>,
    pub(super) of: Of,
    pub(super) worker: Arc<Worker>,
    pub(super) life: u32,
    pub(super) since: Instant,
    /// What the client's progress names, and what that is for the upstream, as JSON.
    pub(super) token: Option<(u64, Vec<u8>)>,
}

/// By the worker that asked, and its id there.
pub(super) type AllAsked = HashMap<(usize, Id), Asked>;

/// Whose it is.
#[derive(Clone)]
pub(super) enum Of {
    Call(Arc<Call>),
    /// The client that has the worker to itself, for a question outside of any call.
    Client(Arc<Client>),
}

/// The parked calls of one upstream, by their state. The upstream that has its name after a reload
/// goes on with them.
#[derive(Default)]
pub(crate) struct Parking {
    pub(super) calls: Mutex<HashMap<String, ParkedCall>>,
    pub(super) hasher: RandomState,
}

/// A call whose client is away.
pub(super) struct ParkedCall {
    pub(super) call: Arc<Call>,
    pub(super) since: Instant,
    /// Of what makes two rounds the same call.
    pub(super) digest: u64,
}

/// What a parked call waits for.
#[derive(Default)]
pub(crate) struct Parked {
    pub(super) questions: Vec<Question>,
    pub(super) last_key: usize,
}

/// One question of an upstream.
pub(super) struct Question {
    pub(super) worker: Arc<Worker>,
    /// On which of the worker's connections it was asked.
    pub(super) life: u32,
    pub(super) id: Id,
    pub(super) method: Method,
    pub(super) message: Message,
    pub(super) _charge: Charge,
    pub(super) upstream: Revision,
    pub(super) key: String,
    /// Its entry of `inputRequests`.
    pub(super) entry: Vec<u8>,
    /// The client was told, and may come back with the answer.
    pub(super) is_told: bool,
}

/// How a call ended while its client was away.
pub(crate) struct Kept {
    pub(crate) at: Instant,
    pub(crate) how: How,
    /// For what is kept.
    pub(crate) _charge: Charge,
}

/// What its upstream answered, or why there is no answer.
pub(crate) type How = Result<(Message, Peer), Failure>;
