//! Lines that have more than one way back to their client: over HTTP each belongs to an exchange.

#[cfg(feature = "http")]
use bytes::Bytes;

#[cfg(feature = "http")]
use super::Connection;
#[cfg(feature = "http")]
/// Up to this length copying a line costs less than another buffer for the next one.
const LINE_BYTES_COPIED: usize = 4096;

/// Where the lines of a connection go that has more than one way back to its client.
#[derive(Default)]
pub(super) struct Routes {
    /// The exchange whose message is being taken in.
    pub(super) current: Option<u64>,
    pub(super) cuts: Vec<Cut>,
}

/// The end of a line in the output, and where it goes.
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "lines need no sorting"))]
pub(crate) struct Cut {
    pub(crate) end: usize,
    /// `None` if the line belongs to no exchange.
    pub(crate) route: Option<u64>,
    pub(crate) then: Then,
}

/// What follows a line on its exchange. The line may be empty.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    More,
    /// The client's answer to it.
    Answer,
    /// Nothing: the answer is complete.
    End,
    /// The client should come back for the rest.
    ComeBack,
}

#[cfg(feature = "http")]
impl Connection {
    /// With a record of where each line goes, for [`Connection::take_cuts`].
    pub(crate) fn routed(mut self) -> Self {
        self.routes = Some(Routes::default());
        self
    }

    /// Takes something in that came on the exchange `route`.
    pub(crate) fn on(&mut self, route: u64, take: impl FnOnce(&mut Self)) {
        self.send_notes();
        if let Some(routes) = &mut self.routes {
            routes.current = Some(route);
        }
        take(self);
        if let Some(routes) = &mut self.routes {
            routes.current = None;
        }
    }

    /// Whether something that came on the exchange `route` is still being answered.
    pub(crate) fn awaits(&self, route: u64) -> bool {
        self.session.any_running(|running| running.route == Some(route))
    }

    /// The output so far, and where its lines end and go.
    pub(crate) fn take_cuts(&mut self) -> (Bytes, Vec<Cut>) {
        let cuts = self.routes.as_mut().map(|routes| std::mem::take(&mut routes.cuts));
        (self.take_out(), cuts.unwrap_or_default())
    }

    /// The output so far, charged for as long as anybody has a part of it.
    fn take_out(&mut self) -> Bytes {
        self.held.cover_anyway(&self.budget, self.out.len());
        std::mem::take(&mut self.held).hold(self.out.take())
    }

    /// The whole answer of the exchange `route`, without the end of its line, if nothing else was
    /// said.
    pub(crate) fn take_answer(&mut self, route: u64) -> Option<Bytes> {
        let cuts = &mut self.routes.as_mut()?.cuts;
        let [Cut { route: Some(of), then: Then::End, .. }] = *cuts.as_slice() else { return None };
        if of != route {
            return None;
        }
        cuts.clear();
        Some(self.take_line())
    }

    /// The output, which is one line, without its end. A small one is copied, so that the buffer
    /// stays for the next.
    pub(crate) fn take_line(&mut self) -> Bytes {
        if self.out.len() > LINE_BYTES_COPIED {
            let line = self.take_out();
            return line.slice(..line.len() - 1);
        }
        let line = Bytes::copy_from_slice(self.out.strip_suffix(b"\n").unwrap_or(&self.out));
        self.out.clear();
        line
    }
}
