//! Whom a worker speaks for: a session that has a worker of its own is introduced to an upstream of
//! `initialize` by its own name and with its own capabilities.
//!
//! So a spare worker of `per_session` is started and connected, and waits with its handshake until a
//! session comes. One worker more speaks for the gateway: it reads the lists and hears of their
//! changes, and no session gets it.

use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcplane::proto::message::Message;
use mcplane::proto::session::{ClientConfig, Ids};
use mcplane::proto::translate;
use mcplane::proto::types::{ClientCapabilities, Implementation};
use mcplane::server::relay::Caller;

use super::call::Call;
use super::client::Client;
use super::model::{Command, Pool, Side, Worker};
use super::state::State;
use crate::config::Mode;

/// How long the handshake may take, unless a person must approve the server first.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(30);

/// How long it may take where the upstream has been met in the other era.
const TRIAL_TIME_MAX: Duration = Duration::from_secs(10);

/// A handshake that takes longer waits for somebody, most likely a person: where the settings expect
/// one, and where they do not.
const APPROVAL_AFTER: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(15));

impl Pool {
    /// Whether sessions are introduced to this upstream, or may be once it is known.
    pub(super) fn introduces(&self) -> bool {
        self.settings.mode == Mode::PerSession && self.learned.may_be_legacy()
    }

    /// The client of a call that has workers of its own.
    pub(super) fn client_of(&self, call: &Call) -> Option<Arc<Client>> {
        if !self.introduces() {
            return None;
        }
        call.life().request().and_then(Client::of).map(Arc::new)
    }

    /// A spare worker for a session.
    pub(super) fn take_spare(&self, client: Option<&Arc<Client>>) -> Option<Arc<Worker>> {
        if !self.introduces() {
            return self.common.take(|_| true);
        }
        let may_be = |worker: &Worker| !self.learned.is_met_as_legacy() || self.is_spare(worker);
        self.common.take(|worker| may_be(worker) && worker.greeting.decide(client.cloned()))
    }

    /// Whether a worker waits with its handshake for a session: one has to speak for the gateway, to
    /// find out what the upstream speaks and offers.
    pub(super) fn waits_for_client(&self, worker: &Worker) -> bool {
        self.introduces() && self.learned.is_met_as_legacy() && self.is_spare(worker)
    }

    /// Whether nobody was decided on for a worker, and another one speaks for the gateway where one has
    /// to. The first that does not wait yet is about to.
    fn is_spare(&self, worker: &Worker) -> bool {
        let speaks = |other: &Arc<Worker>| {
            let is_about_to = other.greeting.of.get().is_none()
                && other.state() != State::Spare
                && other.number < worker.number;
            other.state() != State::Leaving && (other.greeting.is_of_gateway() || is_about_to)
        };
        worker.greeting.of.get().is_none()
            && (!matches!(self.side, Side::Own) || self.common.workers.load().iter().any(speaks))
    }

    /// A worker is ready: if one has to speak for the gateway from now on, there is to be one more.
    pub(super) fn make_room_for_speaker(self: &Arc<Self>) {
        if self.speakers() > 0 && !self.has_speaker.swap(true, Ordering::AcqRel) {
            self.places.add_permits(1);
            self.restock(&self.keyed());
        }
    }

    /// Passes a notification of a client on to the workers that speak for it: to others it is not theirs.
    pub(crate) fn tell_workers_of(&self, caller: &Caller, note: &Message) {
        let mut out = Vec::new();
        translate::change(note, None, &mut out);
        for worker in self.workers_of(caller) {
            if worker.greeting.client().is_some() && worker.peer.load().is_some() {
                let _ = worker.send(Command::Note(worker.life(), out.clone()));
            }
        }
    }

    /// How many workers there are that sessions have not, but for those that none may have.
    pub(super) fn spares(&self) -> usize {
        let is_lost = self.introduces() && !matches!(self.side, Side::Own);
        let workers = self.common.workers.load();
        workers.iter().filter(|worker| !is_lost || !worker.greeting.is_of_gateway()).count()
    }

    /// Spare workers that there are to be beside those for `workers`.
    pub(super) fn speakers(&self) -> usize {
        let is_met = matches!(self.side, Side::Own) && self.learned.is_met_as_legacy();
        usize::from(self.introduces() && is_met)
    }

    /// What an upstream hears of whom it serves: the client that has the worker to itself, or the gateway.
    /// That declares all that some client may be able to do; a question that the client at hand cannot
    /// answer is refused.
    pub(super) fn client_config(&self, client: Option<&Arc<Client>>) -> ClientConfig {
        let gateway = || {
            let capabilities = ClientCapabilities::new()
                .with_elicitation_form()
                .with_elicitation_url()
                .with_sampling()
                .with_sampling_tools()
                .with_roots(false);
            (Implementation::new("mcplane", env!("CARGO_PKG_VERSION")), capabilities)
        };
        let known = |client: &Arc<Client>| (client.info.clone(), client.capabilities.clone());
        let (info, mut capabilities) = client.map_or_else(gateway, known);
        if !self.settings.roots.is_empty() && !capabilities.roots() {
            capabilities = capabilities.with_roots(false);
        }
        let approval = self.settings.approval.duration();
        let usual = match self.side {
            Side::Own => HANDSHAKE_TIME_MAX,
            // Clients wait for it that can be served otherwise.
            Side::Legacy(_) | Side::Alone(..) => TRIAL_TIME_MAX,
        };
        ClientConfig {
            info,
            capabilities,
            choice: self.learned.choice(),
            timeout: if approval.is_zero() { usual } else { approval },
            // Clients share the connection, and servers can be talked into many things.
            ids: Ids::Keyed(RandomState::new()),
        }
    }

    /// How long a handshake may take before somebody has to approve the upstream, most likely.
    pub(crate) const fn approval_after(&self) -> Duration {
        if self.settings.approval.is_zero() { APPROVAL_AFTER.1 } else { APPROVAL_AFTER.0 }
    }

    /// A healthy worker to read the lists from: rather one that speaks for the gateway, since what a
    /// client is offered may depend on what it can do.
    pub(super) fn reader(&self) -> Option<Arc<Worker>> {
        let mut workers = self.workers();
        workers.retain(|worker| worker.state() == State::Healthy);
        let general = workers.iter().position(|worker| worker.greeting.client().is_none());
        (!workers.is_empty()).then(|| workers.swap_remove(general.unwrap_or(0)))
    }
}
