//! What an upstream says that names no call: whose it is.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mcplane::proto::message::{Message, Part};
use mcplane::proto::method::Method;
use mcplane::server::relay::Caller;

use super::call::Call;
use super::cause::Broken;
use super::drive::{Drive, End, Tag};
use super::model::WorkerEvent;
use crate::era::declined::Declined;
use crate::failure::Failure;
use crate::{clock, era};

impl Drive<'_> {
    /// A question of a legacy upstream. Nothing says which call it belongs to, so it is passed on
    /// only where there is no doubt: to nobody else than `before`, if it was put to a caller already.
    pub(super) fn asked(&mut self, method: Method, message: &Message, before: Option<&Caller>) {
        let Some(id) = message.id() else { return };
        let owner = self.owner();
        if let Some(client) = self.worker.greeting.client() {
            if method == Method::RootsList && !client.capabilities.roots() {
                return self.tell_roots(message);
            }
            if !matches!(owner, Owner::Call(_)) {
                let questions = &self.pool.shared.questions;
                let asked = questions.ask_client(self.worker, client, &id, method, message);
                return self.refuse_question(message, asked);
            }
        }
        let is_put = !matches!(owner, Owner::Nobody if method == Method::RootsList);
        self.pool.asks.fetch_or(is_put && self.of.is_none(), Ordering::Relaxed);
        if is_put && !matches!(owner, Owner::Call(_)) {
            self.nobodys(&owner);
        }
        if self.of.is_none() && !matches!(owner, Owner::Nobody | Owner::Gone) {
            self.learn_who_asks();
        }
        if matches!(owner, Owner::Several(_)) {
            self.voices.blur(clock::now());
        }
        let asked = match owner {
            Owner::Call(call) if before.is_some_and(|before| !is_same(before, &call.caller)) => {
                Err(Declined::Ended)
            }
            Owner::Nobody if method == Method::RootsList => return self.tell_roots(message),
            Owner::Gone => Err(Declined::Cancelled),
            Owner::Late => Err(Declined::MaybeAnothers),
            Owner::Nobody => Err(Declined::NoCall),
            Owner::Several(_) if self.ask_again_elsewhere() => Err(Declined::Repeated),
            Owner::Several(calls) => Err(Declined::Ambiguous { calls }),
            Owner::Call(call) => {
                call.hears(self.began);
                let share = self.pool.question_share();
                let questions = &self.pool.shared.questions;
                questions.ask(self.worker, &call, &id, method, message, share)
            }
        };
        self.refuse_question(message, asked);
    }

    /// Answers with the roots of the settings.
    fn tell_roots(&mut self, question: &Message) {
        let id = question.part(Part::Id).unwrap_or(b"null");
        self.out.result(id, &self.pool.roots());
    }

    /// Answers a question that was not put to a client.
    fn refuse_question(&mut self, question: &Message, asked: Result<(), Declined>) {
        if let Err(declined) = asked {
            self.out.error(question.part(Part::Id), &declined.into());
        }
    }

    /// Whose question or log message it is that names no call.
    fn owner(&mut self) -> Owner {
        if let Some(id) = self.of {
            return match self.session.tag(id) {
                Some(Tag::Call(call)) => Owner::Call(Arc::clone(call)),
                Some(Tag::Own(_) | Tag::Listen) => Owner::Nobody,
                Some(Tag::Gone(..) | Tag::Moved(..)) | None => Owner::Gone,
            };
        }
        let mut caller: Option<&Caller> = None;
        let mut youngest: Option<&Arc<Call>> = None;
        for tag in self.session.tags() {
            let whose = match tag {
                Tag::Call(call) | Tag::Gone(call, _) if call.method.takes_input() => &call.caller,
                Tag::Moved(caller, _) => caller,
                _ => continue,
            };
            if !caller.is_none_or(|other| is_same(other, whose)) {
                return Owner::Several(self.session.tags().count());
            }
            caller = Some(whose);
            let Tag::Call(call) = tag else { continue };
            // One whose client is away with a question has less to ask.
            let rank = |call: &Call| {
                let life = call.life();
                (life.request().is_some(), life.sent().map(|sent| sent.on.number))
            };
            if youngest.is_none_or(|other| rank(other) < rank(call)) {
                youngest = Some(call);
            }
        }
        match (youngest, caller) {
            (Some(call), _) if self.voices.are_foreign(clock::now(), &call.caller) => Owner::Late,
            (Some(call), _) => Owner::Call(Arc::clone(call)),
            (None, Some(_)) => Owner::Gone,
            (None, None) => Owner::Nobody,
        }
    }

    /// Something was said that is passed on to nobody.
    fn nobodys(&mut self, owner: &Owner) {
        self.pool.shared.unowned.fetch_add(1, Ordering::Relaxed);
        if matches!(owner, Owner::Nobody) {
            self.voices.caught();
        }
    }

    pub(super) fn heard(&mut self, method: Method, message: &Message) {
        match method {
            Method::ListenAcknowledged => self.listen_acknowledged(message),
            Method::LogMessage => match self.owner() {
                Owner::Call(call) => {
                    call.hears(self.began);
                    era::note_log(&call, message);
                }
                owner => match self.worker.greeting.client() {
                    Some(client) => era::note_log_to(&client.line, message),
                    None => self.nobodys(&owner),
                },
            },
            Method::ResourcesUpdated => {
                if let Some(uri) = message.text(Part::Uri) {
                    let worker = Arc::clone(self.worker);
                    self.pool.hear(WorkerEvent::Updated(worker, uri.into_owned()));
                }
            }
            Method::ElicitationComplete => {
                self.pool.shared.questions.completions.done(self.worker.number, message);
            }
            Method::ToolsListChanged
            | Method::PromptsListChanged
            | Method::ResourcesListChanged => {
                self.pool.hear(WorkerEvent::ListsChanged(Arc::clone(self.worker), method));
            }
            _ => {}
        }
    }

    /// A message for which there was no room. Whose it was its beginning tells, as servers write it.
    pub(super) fn no_room(&mut self, begin: &[u8]) {
        let is_call = |id: &i64| matches!(self.session.tag(*id), Some(Tag::Call(_)));
        let Some(id) = begun(begin).filter(is_call) else {
            return self.unread(Broken::NoRoom);
        };
        let failure = Failure::NoRoom;
        let cancelled = self.session.cancel(id, &failure.to_string(), &mut self.out);
        if let Some(Tag::Call(call)) = cancelled {
            call.fail(&failure);
            self.voices.cut(id, &call);
        }
    }

    /// A message that could not be read. Whose it was can only be told if there is one.
    pub(super) fn unread(&mut self, broken: Broken) {
        let mut calls: Vec<Arc<Call>> = Vec::new();
        for tag in self.session.tags() {
            if let Tag::Call(call) = tag {
                calls.push(Arc::clone(call));
            }
        }
        match calls.as_slice() {
            [] => self.stray(),
            [call] => {
                // One without is being taken back.
                let id = call.life().sent().map(|sent| sent.on.id);
                let why = broken.to_string();
                call.fail(&Failure::Unreadable(why.clone()));
                if let Some(id) = id
                    && let Some(Tag::Call(call)) = self.session.cancel(id, &why, &mut self.out)
                {
                    self.voices.cut(id, &call);
                }
            }
            // One of them would wait for ever: better that all of them know.
            _ => self.end = Some(End::Broken(broken)),
        }
    }
}

/// Whether both are one client, as far as can be told: requests of 2026-07-28 over HTTP have no
/// connection, and only a principal has them belong together.
pub(super) fn is_same(one: &Caller, other: &Caller) -> bool {
    one == other && (one.connection.is_some() || one.principal.is_some())
}

enum Owner {
    Nobody,
    /// A call that has ended here.
    Gone,
    Call(Arc<Call>),
    /// A call, or what another client's call has left behind.
    Late,
    Several(usize),
}

/// The id of a message of which there is only the beginning.
fn begun(begin: &[u8]) -> Option<i64> {
    const KEY: &[u8] = b"\"id\":";
    let at = begin.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let rest = begin.get(at..)?;
    let len = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(rest.get(..len)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_message_is_in_its_beginning() {
        assert_eq!(begun(br#"{"jsonrpc":"2.0","id":12,"result":{"#), Some(12));
        for none in [r#"{"jsonrpc":"2.0","id":12"#, r#"{"id":"a""#, r#"{"result":{"a":1"#, ""] {
            assert_eq!(begun(none.as_bytes()), None, "{none}");
        }
    }
}
