//! Which call ended a worker, and calls that are refused for it.

use mcplane::proto::error::shorten;
use mcplane::proto::message::Part;
use mcplane::server::relay::Relayed;

use super::blame::Kind;
use super::call::Call;
use super::drive::{Drive, Tag};
use super::model::Pool;
use crate::clock;
use crate::failure::Failure;

impl Pool {
    /// A call was answered.
    pub(super) fn went_well(&self, call: &Call) {
        if !self.shared.blame.is_nobodys()
            && let Some(kind) = kind(call)
        {
            self.shared.blame.went_well(&kind);
        }
    }

    /// Fails a call of a kind that ends its worker. Whether it did.
    pub(super) fn refuses(&self, call: &Call) -> bool {
        if self.shared.blame.is_nobodys() {
            return false;
        }
        let Some(kind) = kind(call) else { return false };
        let pause = self.settings.restart.longest.duration();
        let Some((count, left)) = self.shared.blame.refuses(clock::now(), &kind, pause) else {
            return false;
        };
        let (_, method, name) = kind;
        call.fail(&Failure::Blamed { count, method, name, pause: left });
        true
    }
}

impl Drive<'_> {
    /// The process has ended: it is put down to the call that it was sent last, if any runs. Whether
    /// there is one.
    pub(crate) fn blame(&self) -> bool {
        let calls = self.session.tags().filter_map(|tag| match tag {
            Tag::Call(call) => {
                let number = call.life().sent()?.on.number;
                Some((number, kind(call)?))
            }
            Tag::Gone(_, sent) => Some((sent.on.number, sent.kind.clone()?)),
            Tag::Moved(..) | Tag::Own(_) | Tag::Listen => None,
        });
        let last = calls.max_by_key(|(number, _)| *number);
        last.map(|(_, kind)| self.pool.shared.blame.ended(clock::now(), kind)).is_some()
    }
}

fn kind(call: &Call) -> Option<Kind> {
    let life = call.life();
    let of_request = || life.request().map(|request| call.kind_of(request));
    life.sent().and_then(|sent| sent.kind.clone()).or_else(of_request)
}

impl Call {
    pub(crate) fn kind_of(&self, request: &Relayed) -> Kind {
        let message = request.message();
        let name = message.text(Part::Name).or_else(|| message.text(Part::Uri));
        let name = shorten(&name.unwrap_or_default()).into_owned();
        (self.caller.principal.clone(), self.method, name)
    }
}
