//! A stream whose peer may be silent or slow, but not forever.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

use super::{Limits, Place};
use crate::stages::{self, Stage};
use crate::transport::end::End;

/// How long, and for how many bytes, what the peer still sends is thrown away once we have said the
/// last word: to close at once would reset the connection, and the reset may overtake that word.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes that are thrown away at once.
const LINGER_READ_BYTES: usize = 8 * 1024;

thread_local! {
    /// The stream that this thread read last.
    static LAST_READ: Cell<u64> = const { Cell::new(0) };
}

/// Reads fail with `TimedOut` after too long a silence, writes when the peer takes nothing; reads
/// end when the connection should end.
///
/// Where a thread serves several streams, the first write after a read lets the others read first:
/// answers to what came together go out together. Writing each at once would wake a client, and
/// perhaps give it the core, for every single one.
///
/// Shutting down lingers where the peer has more to say, so that it gets to read what it was told.
#[derive(Debug)]
pub(crate) struct Patient<S> {
    stream: S,
    id: u64,
    /// Other streams may have been given something to read when this one was.
    in_company: bool,
    end: End,
    /// Told when the peer has closed its side.
    closed: Option<oneshot::Sender<()>>,
    silence: Option<Pin<Box<Sleep>>>,
    spoken: bool,
    idle: Option<Duration>,
    active: Instant,
    stall: Option<Pin<Box<Sleep>>>,
    stall_max: Duration,
    /// Says whether the peer is still sending what nobody will read.
    unread: Option<Arc<AtomicBool>>,
    lingers: Option<Lingers>,
    /// The connection's place until the first line has come.
    newcomer: Option<Arc<Place>>,
}

/// Our side is shut down; the peer's is not.
#[derive(Debug)]
struct Lingers {
    bytes: usize,
    end: Pin<Box<Sleep>>,
}

impl<S> Patient<S> {
    /// The stream, and what comes when the peer has closed its side.
    pub(crate) fn new(stream: S, limits: &Limits, end: End) -> (Self, oneshot::Receiver<()>) {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let (closed, peer_closed) = oneshot::channel();
        let patient = Self {
            stream,
            id: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            in_company: false,
            end,
            closed: Some(closed),
            silence: Some(Box::pin(sleep(limits.first_byte))),
            spoken: false,
            idle: limits.idle,
            active: Instant::now(),
            stall: None,
            stall_max: limits.stall,
            unread: None,
            lingers: None,
            newcomer: None,
        };
        (patient, peer_closed)
    }

    /// Lingers, too, where nothing has come yet but `unread` says that something will.
    #[cfg(feature = "http")]
    pub(crate) fn lingering_if(mut self, unread: Arc<AtomicBool>) -> Self {
        self.unread = Some(unread);
        self
    }

    /// Settles in its place with the first line.
    pub(crate) fn settling(mut self, place: Arc<Place>) -> Self {
        self.newcomer = Some(place);
        self
    }

    fn heard(&mut self, bytes: &[u8]) {
        if let Some(place) = self.newcomer.take_if(|_| memchr::memchr(b'\n', bytes).is_some()) {
            place.settle();
        }
        if !self.spoken {
            self.spoken = true;
            self.silence = self.idle.map(|idle| Box::pin(sleep(idle)));
        }
        self.in_company = LAST_READ.replace(self.id) != self.id;
        self.active();
    }

    /// Whether the others of this thread come first, once.
    fn gives_way(&mut self, cx: &Context<'_>) -> bool {
        if self.in_company {
            cx.waker().wake_by_ref();
        }
        std::mem::take(&mut self.in_company)
    }

    fn active(&mut self) {
        if self.idle.is_some() {
            self.active = Instant::now();
        }
    }

    /// Ready when the connection was silent for too long.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(silence) = &mut self.silence else { return Poll::Pending };
        while silence.as_mut().poll(cx).is_ready() {
            match self.idle.filter(|_| self.spoken).map(|idle| self.active + idle) {
                Some(then) if then > Instant::now() => silence.as_mut().reset(then),
                _ => return Poll::Ready(()),
            }
        }
        Poll::Pending
    }

    /// What came of a write: waiting for the peer has a limit.
    fn wrote<T>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.stall = None;
            self.active();
            return outcome;
        }
        let limit = self.stall_max;
        let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(limit)));
        stall.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let start = stages::now();
        match Pin::new(&mut this.stream).poll_read(cx, buffer) {
            Poll::Ready(Ok(())) => {
                Stage::Read.since(start);
                if buffer.filled().len() > before {
                    this.heard(buffer.filled().get(before..).unwrap_or_default());
                } else if let Some(closed) = this.closed.take() {
                    let _ = closed.send(());
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(error) => Poll::Ready(error),
            Poll::Pending if Pin::new(&mut this.end).poll(cx).is_ready() => Poll::Ready(Ok(())),
            Poll::Pending => this.poll_silence(cx).map(|()| Err(io::ErrorKind::TimedOut.into())),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.gives_way(cx) {
            return Poll::Pending;
        }
        let outcome = Stage::Write.of(|| Pin::new(&mut this.stream).poll_write(cx, bytes));
        this.wrote(cx, outcome)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.gives_way(cx) {
            return Poll::Pending;
        }
        let stream = Pin::new(&mut this.stream);
        let outcome = Stage::Write.of(|| stream.poll_write_vectored(cx, pieces));
        this.wrote(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_flush(cx);
        this.wrote(cx, outcome)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.lingers.is_none() {
            let outcome = Pin::new(&mut this.stream).poll_shutdown(cx);
            ready!(this.wrote(cx, outcome))?;
            if this.closed.is_none() {
                // The peer is done, too.
                return Poll::Ready(Ok(()));
            }
            this.lingers = Some(Lingers { bytes: 0, end: Box::pin(sleep(LINGER)) });
        }
        this.poll_linger(cx).map(Ok)
    }
}

impl<S: AsyncRead + Unpin> Patient<S> {
    /// Throws away what comes until the peer closes its side, or there is too much of it.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(lingers) = &mut self.lingers else { return Poll::Ready(()) };
        let mut room = [0; LINGER_READ_BYTES];
        while lingers.bytes <= LINGER_BYTES_MAX {
            let mut piece = ReadBuf::new(&mut room);
            match Pin::new(&mut self.stream).poll_read(cx, &mut piece) {
                Poll::Ready(Ok(())) if !piece.filled().is_empty() => {
                    lingers.bytes += piece.filled().len();
                }
                Poll::Ready(_) => break,
                Poll::Pending => {
                    let unread = self.unread.as_ref().is_some_and(|is| is.load(Ordering::Relaxed));
                    if lingers.bytes == 0 && !unread {
                        break;
                    }
                    return lingers.end.as_mut().poll(cx);
                }
            }
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn patient(limits: &Limits) -> (DuplexStream, Patient<DuplexStream>) {
        let (peer, ours) = duplex(4);
        let never = End::new(std::future::pending());
        (peer, Patient::new(ours, limits, never).0)
    }

    #[tokio::test(start_paused = true)]
    async fn who_never_speaks_is_given_up_and_who_spoke_may_be_silent() {
        let (mut peer, mut ours) = patient(&Limits::default().first_byte(SECOND));
        let start = Instant::now();
        assert_eq!(ours.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed().as_secs(), 1);

        let (mut second, mut ours) = patient(&Limits::default().first_byte(SECOND));
        second.write_all(b"x").await.unwrap();
        assert_eq!(ours.read_u8().await.unwrap(), b'x');
        let later = tokio::time::timeout(3600 * SECOND, ours.read_u8()).await;
        assert!(later.is_err(), "nothing came, and that is not an error");
        peer.shutdown().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn idle_counts_from_the_last_byte_in_either_direction() {
        let (mut peer, mut ours) = patient(&Limits::default().idle(Some(10 * SECOND)));
        let start = Instant::now();
        peer.write_all(b"x").await.unwrap();
        assert_eq!(ours.read_u8().await.unwrap(), b'x');
        sleep(6 * SECOND).await;
        ours.write_all(b"y").await.unwrap();
        assert_eq!(ours.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed().as_secs(), 16);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (mut peer, mut ours) = patient(&Limits::default().stall(SECOND));
        let error = ours.write_all(b"more than four").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        peer.read_exact(&mut [0; 4]).await.unwrap();
        ours.write_all(b"more").await.unwrap();
    }

    #[tokio::test]
    async fn what_came_together_is_read_before_it_is_answered() {
        let steps = Arc::new(Mutex::new(String::new()));
        let (mut peers, mut tasks) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let (mut peer, mut ours) = patient(&Limits::default());
            peer.write_all(b"x").await.unwrap();
            peers.push(peer);
            let steps = Arc::clone(&steps);
            tasks.push(tokio::spawn(async move {
                for _ in 0..2 {
                    ours.read_u8().await.unwrap();
                    steps.lock().unwrap().push('r');
                    ours.write_u8(b'y').await.unwrap();
                    steps.lock().unwrap().push('w');
                }
            }));
        }
        for peer in &mut peers {
            assert_eq!(peer.read_u8().await.unwrap(), b'y');
        }
        assert_eq!(*steps.lock().unwrap(), "rrrwww");

        // One that is alone waits for nobody.
        let last = peers.pop().unwrap();
        tasks.iter().take(2).for_each(tokio::task::JoinHandle::abort);
        drop(peers);
        let (mut peer, mut ours) = patient(&Limits::default());
        for turn in 0..3 {
            peer.write_all(b"x").await.unwrap();
            ours.read_u8().await.unwrap();
            let written = std::future::poll_fn(|cx| {
                Poll::Ready(Pin::new(&mut ours).poll_write(cx, b"y").is_ready())
            });
            assert_eq!(written.await, turn > 0, "{turn}");
            ours.write_all(b"z").await.unwrap();
            peer.read_u8().await.unwrap();
        }
        drop(last);
    }

    #[tokio::test]
    async fn at_the_end_reads_end_and_writes_go_on() {
        let (mut peer, ours) = duplex(4);
        let (mut ours, mut closed) =
            Patient::new(ours, &Limits::default(), End::new(std::future::ready(())));
        assert_eq!(ours.read(&mut [0; 4]).await.unwrap(), 0);
        assert!(closed.try_recv().is_err(), "it was not the peer");
        ours.write_all(b"last").await.unwrap();
        peer.read_exact(&mut [0; 4]).await.unwrap();
    }

    #[cfg(feature = "http")]
    #[tokio::test(start_paused = true)]
    async fn who_still_sends_is_heard_out_for_a_while_and_who_is_silent_is_not() {
        let (mut peer, mut ours) = patient(&Limits::default());
        let start = Instant::now();
        ours.shutdown().await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO, "the peer has nothing to say");

        let (mut sending, mut ours) = patient(&Limits::default());
        let sent = tokio::spawn(async move {
            for _ in 0..100 {
                sending.write_all(b"four").await.unwrap();
            }
            sending
        });
        tokio::task::yield_now().await;
        let closing = tokio::spawn(async move { ours.shutdown().await });
        let mut sending = sent.await.unwrap();
        assert!(!closing.is_finished(), "more may come");
        assert_eq!(sending.read(&mut [0; 4]).await.unwrap(), 0, "the last word came at once");
        drop(sending);
        closing.await.unwrap().unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);

        let (_late, ours) = patient(&Limits::default());
        let mut ours = ours.lingering_if(Arc::new(AtomicBool::new(true)));
        ours.shutdown().await.unwrap();
        assert_eq!(start.elapsed(), LINGER, "nothing came, but it was to be expected");
        assert_eq!(peer.read(&mut [0; 4]).await.unwrap(), 0);
    }
}
