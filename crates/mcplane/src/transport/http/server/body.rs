//! Bodies: reading one within its limits, and the ones that are sent.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body as _, Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::Permit;
use super::refusal::Refusal;
use super::session::Reader;
use crate::budget::{Budget, Charge, FREE_BYTES};

/// How long a request's body may take to arrive.
const BODY_WAIT: Duration = Duration::from_secs(30);

/// A silent stream is kept open with a comment this often: proxies give up after about a minute.
pub(super) const BEAT: Duration = Duration::from_secs(15);

/// Bytes of an answer that are handed over at once: its connection is not idle before the last of
/// them is on its way, however slowly the client reads. What is handed over is charged no more.
const PIECE_BYTES_MAX: usize = 64 * 1024;

/// How many times what has come of a body the room for it has, where that much is announced.
const GROWTH: usize = 4;

/// Bytes by which what has come of a body is charged.
const STEP_BYTES: usize = 64 * 1024;

/// The whole body; without a copy if it came in one piece. What has come is charged until all of it
/// is there: then it is a message, and charged as that.
pub(super) async fn collect<B>(body: B, bytes_max: usize, budget: &Budget) -> Result<Bytes, Refusal>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: fmt::Display,
{
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large(bytes_max));
    }
    let mut body = pin!(body);
    let first = match at_once(next(&mut body)).await {
        Some(None) => return Ok(Bytes::new()),
        Some(Some(piece)) => piece?,
        None => Bytes::new(),
    };
    if body.is_end_stream() && first.len() <= bytes_max {
        return Ok(first);
    }
    // What is not here yet gets a timer, on the heap: most bodies are here already.
    let rest = Box::pin(timeout(BODY_WAIT, rest(&mut body, &first, bytes_max, budget)));
    rest.await.map_err(|_| too_slow())?
}

async fn rest<B>(
    body: &mut Pin<&mut B>,
    first: &[u8],
    bytes_max: usize,
    budget: &Budget,
) -> Result<Bytes, Refusal>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: fmt::Display,
{
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(0);
    let announced = first.len() + announced.min(bytes_max);
    let (mut whole, mut charge) = (first.to_vec(), Charge::default());
    while whole.len() <= bytes_max {
        let Some(piece) = next(body).await.transpose()? else {
            return Ok(budget.lend(whole));
        };
        let more = room_for(&whole, piece.len(), announced);
        budget.make_room(&mut whole, more, &mut charge);
        // A short one.
        whole.reserve_exact(more);
        whole.extend_from_slice(&piece);
        if whole.len() > charge.bytes().max(FREE_BYTES)
            && !charge.cover(budget, whole.len() + STEP_BYTES)
        {
            let why = "there is no room for this request while others are being answered";
            return Err(Refusal::overloaded(why, 1));
        }
    }
    Err(too_large(bytes_max))
}

/// How much room is made where the next piece finds none. A client that has sent as much as it has gets
/// no more than some times that: what it has announced may never come.
fn room_for(whole: &Vec<u8>, piece: usize, announced: usize) -> usize {
    let len = whole.len() + piece;
    if len <= whole.capacity() {
        return piece;
    }
    (GROWTH * len).min(announced).max(2 * whole.len()).max(len) - whole.len()
}

fn too_large(bytes_max: usize) -> Refusal {
    let why = format!("the body is longer than {bytes_max} bytes");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, why)
}

fn too_slow() -> Refusal {
    let why = format!("the body took longer than {} s", BODY_WAIT.as_secs());
    Refusal::new(StatusCode::REQUEST_TIMEOUT, why)
}

fn broken(error: impl fmt::Display) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, format!("the body broke off: {error}"))
}

/// The next piece of a body.
async fn next<B>(body: &mut Pin<&mut B>) -> Option<Result<Bytes, Refusal>>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: fmt::Display,
{
    poll_fn(|cx| body.as_mut().poll_frame(cx).map(|frame| frame.map(data))).await
}

/// What a future gives at once, if it does.
async fn at_once<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

fn data<E: fmt::Display>(frame: Result<Frame<Bytes>, E>) -> Result<Bytes, Refusal> {
    let frame = frame.map_err(broken)?;
    Ok(frame.into_data().unwrap_or_default())
}

/// The body of a response: nothing, one answer, or a stream of events.
pub struct Body(Kind);

enum Kind {
    Full(Bytes),
    Stream(Box<Stream>),
}

struct Stream {
    source: Source,
    beat: Pin<Box<Sleep>>,
    _permit: Permit,
}

/// Where the events of a stream come from, each chunk a whole number of events.
pub(super) enum Source {
    /// The task of a request of 2026-07-28, which ends when this is dropped.
    Task(mpsc::Receiver<Bytes>),
    /// A session.
    Session(Reader),
}

impl Body {
    pub(super) const fn empty() -> Self {
        Self(Kind::Full(Bytes::new()))
    }

    pub(super) const fn full(bytes: Bytes) -> Self {
        Self(Kind::Full(bytes))
    }

    pub(super) fn stream(source: Source, permit: Permit) -> Self {
        Self(Kind::Stream(Box::new(Stream {
            source,
            beat: Box::pin(sleep(BEAT)),
            _permit: permit,
        })))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut self.0 {
            Kind::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            Kind::Full(bytes) => {
                let piece = bytes.split_to(bytes.len().min(PIECE_BYTES_MAX));
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Kind::Stream(stream) => stream.poll(cx).map(|chunk| Some(Ok(Frame::data(chunk?)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Kind::Full(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Stream(_) => SizeHint::default(),
        }
    }
}

impl Stream {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let chunk = match &mut self.source {
            Source::Task(events) => events.poll_recv(cx),
            Source::Session(reader) => reader.poll(cx),
        };
        if chunk.is_pending() && self.beat.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.beat.as_mut().reset(Instant::now() + BEAT);
        match chunk {
            // The timer has to be set by a poll before it can wake anybody.
            Poll::Pending => {
                let _ = self.beat.as_mut().poll(cx);
                Poll::Ready(Some(Bytes::from_static(b":\n\n")))
            }
            ready => ready,
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Full(bytes) => f.debug_tuple("Full").field(&bytes.len()).finish(),
            Kind::Stream(_) => f.write_str("Stream"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;

    use super::*;

    /// A body that comes piece by piece.
    struct Pieces(VecDeque<Bytes>);

    impl Pieces {
        fn of(lengths: &[usize]) -> Self {
            Self(lengths.iter().map(|length| vec![b'x'; *length].into()).collect())
        }
    }

    impl http_body::Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
        }

        fn is_end_stream(&self) -> bool {
            self.0.is_empty()
        }
    }

    #[tokio::test]
    async fn bodies_together_have_a_bound_and_what_is_read_is_free_again() {
        const KIB: usize = 1024;
        let budget = Budget::new(400 * KIB);
        let long = || collect(Pieces::of(&[100 * KIB, 100 * KIB]), KIB * KIB, &budget);
        assert_eq!(long().await.ok().unwrap().len(), 200 * KIB);
        assert_eq!(budget.used(), 0);

        let mut other = Charge::default();
        assert!(other.cover(&budget, 300 * KIB));
        let refused = long().await.err().unwrap();
        assert_eq!(refused.response().status(), StatusCode::SERVICE_UNAVAILABLE);
        // What is short, or there already, costs nothing.
        assert!(collect(Pieces::of(&[1024, 1024]), KIB * KIB, &budget).await.is_ok());
        drop(other);
        assert!(long().await.is_ok());
    }
}
