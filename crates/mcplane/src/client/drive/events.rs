//! What messages and the end mean for those who wait: handles, handlers, listeners.

use std::sync::Arc;
use std::task::{Context, Poll};

use mcplane_proto::error::{Code, ErrorObject};
use mcplane_proto::id::Id;
use mcplane_proto::message::{Message, Part};
use mcplane_proto::method::Method;
use mcplane_proto::session::ClientEvent;
use mcplane_proto::session::client::Answer;

use super::{ASKED_MAX, Command, Drive, Pending, Signal, Tag};
use crate::client::call::Reply;
use crate::client::handler::Notification;
use crate::client::listen::{Change, Listener, own};
use crate::error::{Error, Kind, Result};

impl Drive {
    /// Acts on what the session makes of a message or of the time.
    pub(super) fn on(&mut self, event: ClientEvent<Box<Pending>>, message: Option<&Message>) {
        match (event, message) {
            (ClientEvent::Ready, _) => self.signal = Some(Signal::Ready),
            (ClientEvent::Respawn, _) => self.signal = Some(Signal::Respawn),
            (ClientEvent::Failed(error), _) => self.signal = Some(Signal::Failed(error)),
            (ClientEvent::Answered(_, pending, answer), _) => {
                self.ids.remove(&pending.key);
                let closed = || self.state.end().unwrap_or_else(|| Error::closed("it ended"));
                let answer = pending.judge(answer).unwrap_or_else(|| Err(closed()));
                pending.tag.end(answer);
            }
            (ClientEvent::Progress(id), Some(message)) => self.progress(id, message),
            (ClientEvent::Asked(method), Some(message)) => self.ask(method, message),
            (ClientEvent::Withdrawn(id), _) => self.withdrawn(&id),
            (ClientEvent::Notification(method, listen), Some(message)) => {
                self.notification(method, listen.as_ref(), message);
            }
            (ClientEvent::Handled, _) | (_, None) => {}
        }
    }

    fn progress(&mut self, id: i64, message: &Message) {
        let Some(pending) = self.session.tag(id) else { return };
        let Some(progress) = &pending.progress else { return };
        if let Ok(figures) = serde_json::from_slice(message.part(Part::Params).unwrap_or(b"{}")) {
            let _ = progress.try_send(figures);
        }
    }

    /// A question of the server: answered in a task of its own.
    fn ask(&mut self, method: Method, message: &Message) {
        let (Some(id), Some(peer)) = (message.id(), self.session.peer()) else { return };
        if self.asks.len() >= ASKED_MAX {
            let why = format!("{ASKED_MAX} questions are being answered already; try again later");
            return self.reply(&id, &Err(ErrorObject::new(Code::OVERLOADED, why)));
        }
        let (state, revision) = (Arc::clone(&self.state), peer.revision);
        let params = message.share(Part::Params);
        let answer =
            async move { state.handlers.answer(revision, method, params.as_deref()).await };
        let handle = self.asked.spawn(answer);
        self.asks.insert(handle.id(), (id, handle));
    }

    fn withdrawn(&mut self, id: &Id) {
        if let Some((&task, _)) = self.asks.iter().find(|(_, (asked, _))| asked == id) {
            if let Some((_, handle)) = self.asks.remove(&task) {
                handle.abort();
            }
            return;
        }
        let Some(id) = own(id) else { return };
        if !matches!(self.session.tag(id), Some(pending) if matches!(pending.tag, Tag::Listen(_))) {
            return;
        }
        if let Some(pending) = self.session.forget(id) {
            self.ids.remove(&pending.key);
            pending.tag.end(Err(Error::closed("the server took back the subscription")));
        }
    }

    fn notification(&mut self, method: Method, listen: Option<&Id>, message: &Message) {
        self.state.cache.outdated_by(method);
        if let Some(notify) = &self.notify {
            let _ = notify.try_send(Notification::new(method, message.share(Part::Params)));
        }
        let on = listen.and_then(own);
        let tag = on.and_then(|id| self.session.tag(id)).map(|pending| &mut pending.tag);
        match (method, Change::of(method, message), tag, on) {
            (Method::ListenAcknowledged, _, Some(Tag::Listen(listener)), Some(id)) => {
                listener.acknowledged(message);
                self.session.hold(id);
            }
            (_, Some(change), Some(Tag::Listen(listener)), _) => listener.push(change),
            (_, Some(change), None, None) => {
                let wanted = |listener: &&Listener| change.is_wanted(&listener.filter);
                self.listeners.values().filter(wanted).for_each(|l| l.push(change.clone()));
            }
            _ => {}
        }
    }

    /// Everybody who waits is told that the connection has ended.
    pub(super) fn fail_all(&mut self) {
        for event in self.session.closed() {
            self.on(event, None);
        }
        for (_, listener) in self.listeners.drain() {
            listener.end(self.state.end());
        }
        while let Ok(command) = self.commands.try_recv() {
            match (command, self.state.end()) {
                (Command::Call(call), Some(end)) => {
                    call.tag.end(Err(end));
                }
                (Command::Listen(_, listener), end) => listener.end(end),
                _ => {}
            }
        }
    }

    /// Sends the answers that handlers have found.
    pub(super) fn poll_answers(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(joined)) = self.asked.poll_join_next_with_id(cx) {
            let (task, answer) = match joined {
                Ok((task, answer)) => (task, answer),
                Err(error) => {
                    let failed = ErrorObject::new(Code::INTERNAL_ERROR, "the handler failed");
                    (error.id(), Err(failed))
                }
            };
            // Withdrawn meanwhile: the server wants no answer any more.
            let Some((id, _)) = self.asks.remove(&task) else { continue };
            self.reply(&id, &answer);
        }
    }

    fn reply(&mut self, id: &Id, answer: &Result<Vec<u8>, ErrorObject>) {
        let mut id_json = Vec::new();
        id.write_json(&mut id_json);
        match answer {
            Ok(result) => self.out.result(&id_json, result),
            Err(error) => self.out.error(Some(&id_json), error),
        }
    }
}

impl Pending {
    /// What an answer means to whoever waits for it; `None` for the end of the connection.
    fn judge(&self, answer: Answer) -> Option<Result<Reply>> {
        Some(match answer {
            Answer::Complete(result) => Ok(Reply::Complete(result)),
            Answer::InputRequired(asked) => Ok(Reply::InputRequired(asked)),
            Answer::Error(error) => Err(error.into()),
            Answer::Malformed(why) => Err(Error::malformed(why)),
            Answer::TimedOut => {
                let what = format!("`{}` after {} s", self.method, self.timeout.as_secs_f64());
                Err(Error::new(Kind::TimedOut(what)))
            }
            Answer::Closed => return None,
        })
    }
}

impl Tag {
    /// Tells whoever waits.
    pub(super) fn end(self, answer: Result<Reply>) {
        match self {
            Self::Call { answer: waiting } => {
                let _ = waiting.send(answer);
            }
            Self::Listen(listener) => listener.end(answer.err()),
        }
    }
}
