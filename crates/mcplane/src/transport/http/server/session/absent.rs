//! What a session keeps for a client that went away.

use http::StatusCode;

use super::super::keep::{Keep, kept_max};
use super::super::log::Log;
use super::super::refusal::Refusal;
use super::{ALONE, Session, State};

impl Session {
    /// Counts what is kept for a client that went away, and forgets the oldest of what is too much.
    pub(super) fn tend(&self) {
        let Some(sessions) = self.sessions.upgrade() else { return };
        let mut state = self.lock();
        let (mut kept, max) = (state.abandoned(), kept_max(state.connection.budget()));
        while kept > max && state.forget_oldest(true) {
            kept = state.abandoned();
        }
        let has_grown = kept > state.kept.bytes();
        self.kept.set(&sessions.keep, &mut state.kept, kept);
        drop(state);
        if has_grown {
            sessions.relieve();
        }
    }

    /// Forgets the oldest of what is kept for a client that went away; `false` if there is nothing.
    pub(in super::super) fn forget_oldest(&self, keep: &Keep) -> bool {
        let mut state = self.lock();
        let forgets = state.forget_oldest(false);
        let kept = state.abandoned();
        self.kept.set(keep, &mut state.kept, kept);
        forgets
    }
}

impl State {
    /// Bytes that are kept for clients that are away.
    fn abandoned(&self) -> usize {
        self.logs.unread().map(|(_, log)| log.bytes()).sum()
    }

    /// Forgets the oldest stream that nobody reads and that keeps something, the one of what belongs
    /// to no request last. `false` if there is none, or only one and `but_one` is to stay.
    fn forget_oldest(&mut self, but_one: bool) -> bool {
        let keeps = |(route, log): (u64, &Log)| (log.bytes() > 0).then_some(route);
        let mut keeping = self.logs.unread().filter_map(keeps);
        let first_two = (keeping.next(), keeping.next());
        drop(keeping);
        match first_two {
            (None, _) => return false,
            (Some(_), None) if but_one => return false,
            (Some(ALONE), Some(route)) | (Some(route), _) => drop(self.logs.remove(route)),
        }
        true
    }
}

/// There was more, but it is no longer kept.
pub(super) fn forgotten() -> Refusal {
    let why = "what followed `Last-Event-ID` is no longer kept, because too much was waiting, or it \
               was too long ago: send the request again if it may be carried out twice";
    Refusal::new(StatusCode::GONE, why)
}
