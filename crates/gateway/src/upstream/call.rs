//! One request on its way: what does not change about it, and its life.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mcplane::budget::Charge;
use mcplane::proto::message::Part;
use mcplane::proto::method::Method;
use mcplane::proto::version::Revision;
use mcplane::server::relay::{Caller, Cancel, Relayed};

use super::clients::is_one_client;
use super::life::{Asks, Beside, Ended, Life, On, Parts, Sent as SentOf};
use super::model::{Place, Pool, Turn, Worker};
use crate::clock;
use crate::era::asked::{How, Kept, Parked};
use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::settle::{Reply, Way, fail, is_traced, settle};

/// What the lives of a gateway's calls are made of.
pub(crate) struct Real;

impl Parts for Real {
    type Request = Relayed;
    type Turn = Turn;
    type Place = Place;
    type Questions = Box<Parked>;
    type End = Kept;
}

/// What a call holds while its upstream works on it.
pub(crate) type Sent = SentOf<Real>;

/// One request of a client, from the pipeline to its answer.
pub(crate) struct Call {
    pub(crate) method: Method,
    /// The client's revision.
    pub(crate) revision: Revision,
    pub(crate) caller: Caller,
    /// What the upstream calls it, if that is not what the client calls it.
    pub(crate) name: Option<Arc<str>>,
    /// The number of its tool, if that has a limit of its own.
    pub(crate) tool: Option<usize>,
    /// It may be sent a second time: reading it twice does no harm.
    pub(crate) repeatable: bool,
    /// The client sees the tool's structured result as `{"result": …}`.
    pub(crate) wraps: bool,
    pub(crate) pool: Arc<Pool>,
    life: Mutex<Life<Real>>,
}

/// What is known of a call from its route.
pub(crate) struct Known {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) tool: Option<usize>,
    pub(crate) repeatable: bool,
    pub(crate) wraps: bool,
    /// What goes with it when it is sent.
    pub(crate) retry: Vec<u8>,
}

impl Call {
    pub(crate) fn new(request: Relayed, known: Known, pool: Arc<Pool>) -> Arc<Self> {
        let Known { name, tool, repeatable, wraps, retry } = known;
        let (method, revision) = (request.method(), request.revision());
        let caller = request.caller().clone();
        let life = Mutex::new(Life::new(request, retry));
        Arc::new(Self { method, revision, caller, name, tool, repeatable, wraps, pool, life })
    }

    /// Whether it and another call are two of one client.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        is_one_client(&self.caller, &other.caller) && !std::ptr::eq(self, other)
    }

    /// What its upstream calls what is called; `None` once its request has gone.
    pub(super) fn own_name(&self) -> Option<String> {
        match &self.name {
            Some(name) => Some(name.to_string()),
            None => Some(self.life().request()?.message().text(Part::Name)?.into_owned()),
        }
    }

    /// Its life. What is taken out of it is dropped when this is gone: to free a place or a turn
    /// is to send other calls.
    pub(crate) fn life(&self) -> MutexGuard<'_, Life<Real>> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it waits to be sent, and somebody for it.
    pub(crate) fn is_to_be_sent(&self) -> bool {
        self.life().is_to_be_sent()
    }

    /// Whether its client waits for it now.
    pub(crate) fn is_open(&self) -> bool {
        self.life().request().is_some()
    }

    /// Has it sent, with the place that it has at a worker. The place comes back if nobody waits for it any more.
    pub(super) fn send(
        &self,
        place: Place,
        on: On,
        write: impl FnOnce(&Relayed, &[u8]),
    ) -> Result<(), Place> {
        let mut life = self.life();
        let (request, retry) = life.send(place, on)?;
        write(request, retry);
        Ok(())
    }

    /// Notes that its upstream says something in it, which came whole now, or began then.
    pub(super) fn hears(&self, began: Option<Instant>) {
        if is_traced()
            && let Some(sent) = self.life().sent_mut()
        {
            sent.first_byte.get_or_insert_with(|| began.unwrap_or_else(clock::now));
        }
    }

    /// Ends it with an error, unless it has ended already.
    pub(crate) fn fail(&self, failure: &Failure) {
        drop(self.fail_at_worker(failure));
    }

    /// The same; what it held at a worker that has it still comes back.
    pub(crate) fn fail_at_worker(&self, failure: &Failure) -> Option<Box<Sent>> {
        let ended = self.end(|| (Err(failure.clone()), Charge::default()));
        let way = self.way(&ended);
        let Ended { request, sent, .. } = ended;
        let sent = sent.map(|sent| Box::new(self.remember(request.as_ref(), sent)));
        if let Some(request) = request {
            fail(request, failure, way);
        }
        sent
    }

    /// The way that it has come.
    pub(crate) fn way(&self, ended: &Ended<Real>) -> Way<'_> {
        Way {
            to: &self.pool.shared.tally,
            waited: ended.waited,
            sent: ended.sent.as_ref().map(|sent| sent.on.at),
            first_byte: ended.sent.as_ref().and_then(|sent| sent.first_byte),
        }
    }

    /// Ends it. How it did is kept if its client is away.
    pub(crate) fn end(&self, how: impl FnOnce() -> (How, Charge)) -> Ended<Real> {
        let mut life = self.life();
        let ended = life.finish(|| {
            let (how, _charge) = how();
            Kept { at: clock::now(), how, _charge }
        });
        if let Some((parked, _)) = life.kept() {
            parked.ended(&self.caller);
        }
        ended
    }

    /// Gives a call up whose client did not come back.
    pub(crate) fn abandon(&self) {
        let abandoned = self.life().abandon();
        if let Some((mut parked, sent)) = abandoned {
            if let Some(sent) = sent {
                Worker::cancel(sent);
            }
            parked.close(&self.caller);
        }
    }

    /// Whether it is to have a worker to itself from now on, and was not before.
    pub(super) fn set_alone(&self) -> bool {
        std::mem::replace(&mut self.life().beside, Beside::Nobody) != Beside::Nobody
    }

    /// Whether it is known that its upstream will ask in it, if it has not yet.
    pub(super) fn expect_questions(&self, is_known: bool) {
        let asks = &mut self.life().asks;
        if *asks != Asks::Asked {
            *asks = if is_known { Asks::Expected } else { Asks::Unknown };
        }
    }

    pub(super) fn asks(&self) -> Asks {
        self.life().asks
    }

    /// Its request goes, and a worker has it for longer.
    pub(crate) fn remember(&self, request: Option<&Relayed>, mut sent: Sent) -> Sent {
        if let (Some(request), None) = (request, &sent.kind) {
            sent.kind = Some(self.kind_of(request));
        }
        sent
    }
}

impl Cancel for Call {
    fn cancel(&self) {
        // Its turn goes to the next one behind the lock.
        let ended = self.life().cancel();
        let way = self.way(&ended);
        let Ended { request, sent, .. } = ended;
        let Some(request) = request else { return };
        match sent {
            Some(sent) => Worker::cancel(self.remember(Some(&request), sent)),
            None => self.pool.is_given_up(),
        }
        // Nothing may be sent for it: its client may use the id again.
        settle(request, Reply::Nothing, Outcome::Cancelled, way);
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("method", &self.method)
            .field("caller", &self.caller)
            .finish_non_exhaustive()
    }
}
