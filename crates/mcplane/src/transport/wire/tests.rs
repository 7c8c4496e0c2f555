use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{DuplexStream, ReadBuf, ReadHalf, WriteHalf, duplex, split};
use tokio::time::timeout;

use super::*;

const READS: Wants = Wants { reads: true, wake: None, drain: None };
const SECOND: Duration = Duration::from_secs(1);

type Ours = Wire<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

/// A peer, and a connection to it with so much room in between.
fn wire(room: usize) -> (DuplexStream, Ours) {
    let (peer, ours) = duplex(room);
    let (reader, writer) = split(ours);
    (peer, Wire::new(reader, writer))
}

fn put(out: &mut Output, bytes: usize) {
    out.line(|line| line.resize(line.len() + bytes, b'x'));
}

/// The lines that are there.
fn taken<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    wire: &mut Wire<R, W>,
    out: &Output,
) -> Vec<Bytes> {
    std::iter::from_fn(|| wire.next_line(out)).map(Result::unwrap).collect()
}

/// The next event within an hour; `None` if there is none.
async fn event<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    wire: &mut Wire<R, W>,
    out: &mut Output,
    wants: Wants,
) -> Option<Event> {
    timeout(3600 * SECOND, wire.next(out, wants)).await.ok()
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_reads_is_read_all_the_same() {
    let (mut peer, mut wire) = wire(64);
    let mut out = Output::new();
    put(&mut out, 1000);
    assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Sent)));
    assert_eq!(out.backlog(), 1001 - 64);
    for _ in 0..3 {
        peer.write_all(b"one\ntwo\n").await.unwrap();
        assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Read)));
        assert_eq!(taken(&mut wire, &out), ["one", "two"]);
    }
    assert!(event(&mut wire, &mut out, READS).await.is_none());
    // And time passes.
    let wake = Some(clock::now() + SECOND);
    let woke = event(&mut wire, &mut out, Wants { wake, ..READS }).await;
    assert!(matches!(woke, Some(Event::Woke)) && wake <= Some(clock::now()));
}

/// Takes everything, and is never done with it.
struct NeverFlushed(Vec<u8>);

impl AsyncWrite for NeverFlushed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn a_flush_that_never_ends_holds_up_neither_reading_nor_writing_nor_the_end() {
    let (mut peer, reader) = duplex(64);
    let mut wire = Wire::new(reader, NeverFlushed(Vec::new()));
    let mut out = Output::new();
    for turn in 1..4 {
        put(&mut out, 9);
        peer.write_all(b"line\n").await.unwrap();
        assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Read)));
        assert_eq!(taken(&mut wire, &out), ["line"]);
        assert_eq!((wire.writer.0.len(), out.is_done()), (turn * 10, false));
    }
    let by = clock::now() + SECOND;
    let drain = Some(Drain { by, is_idle: true });
    let end = event(&mut wire, &mut out, Wants { drain, ..READS }).await;
    assert!(matches!(end, Some(Event::Drained)), "{end:?}");
    assert!(clock::now() >= by);
}

#[tokio::test(start_paused = true)]
async fn a_peer_may_stop_in_the_middle_of_a_line_and_end_without_its_end() {
    let (mut peer, mut wire) = wire(64);
    let mut out = Output::new();
    peer.write_all(b"whole\nha").await.unwrap();
    assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Read)));
    assert!(wire.beginning().is_none(), "there is a whole line");
    assert_eq!(taken(&mut wire, &out), ["whole"]);
    assert_eq!(wire.beginning().unwrap(), "ha");
    assert!(event(&mut wire, &mut out, READS).await.is_none());
    // What is to be sent is sent meanwhile.
    put(&mut out, 3);
    assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Sent)));
    peer.read_exact(&mut [0; 4]).await.unwrap();
    peer.write_all(b"lf\nlast").await.unwrap();
    assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Read)));
    assert_eq!(taken(&mut wire, &out), ["half"]);
    peer.shutdown().await.unwrap();
    assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Over)));
    assert_eq!(wire.last_line().unwrap(), "last");
    assert!(wire.last_line().is_none());
    assert!(event(&mut wire, &mut out, READS).await.is_none(), "the end comes once");
}

#[tokio::test(start_paused = true)]
async fn a_line_beyond_the_limit_and_one_that_is_given_up_leave_the_others_alone() {
    let (mut peer, mut wire) = wire(256);
    wire.lines = Lines::new(8);
    let mut out = Output::new();
    peer.write_all(b"much too long\nfits\n").await.unwrap();
    assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Read)));
    assert_eq!(wire.next_line(&out).unwrap().unwrap_err().len, 13);
    assert_eq!(taken(&mut wire, &out), ["fits"]);
    peer.write_all(b"given").await.unwrap();
    assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Read)));
    assert!(taken(&mut wire, &out).is_empty());
    wire.give_up();
    peer.write_all(b" up\nfits, too\n").await.unwrap();
    assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Read)));
    assert!(wire.next_line(&out).unwrap().is_err(), "nine bytes");
    assert!(wire.next_line(&out).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_peer_for_which_too_much_waits_is_not_read_and_given_up_if_it_takes_nothing() {
    let (mut peer, ours) = wire(64);
    let mut wire = ours.unread_bytes_max(100);
    let mut out = Output::new();
    peer.write_all(b"one\ntwo\n").await.unwrap();
    assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Read)));
    assert!(wire.next_line(&out).is_some());
    put(&mut out, 200);
    assert!(wire.next_line(&out).is_none(), "its answer would find no room");
    peer.write_all(b"three\n").await.unwrap();
    let start = clock::now();
    assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Sent)));
    // It takes some: that is a new beginning.
    timeout(STALL_MAX / 2, wire.next(&mut out, READS)).await.unwrap_err();
    peer.read_exact(&mut [0; 8]).await.unwrap();
    assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Sent)));
    assert!(
        matches!(event(&mut wire, &mut out, READS).await, Some(Event::Woke)),
        "as was set first"
    );
    assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Stalled)));
    assert_eq!(clock::now() - start, STALL_MAX / 2 + STALL_MAX);
    // Below the mark it is heard again.
    peer.read_exact(&mut [0; 64]).await.unwrap();
    assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Sent)));
    assert!(out.backlog() <= 100);
    assert_eq!(taken(&mut wire, &out), ["two"]);
    assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Read)));
    assert_eq!(taken(&mut wire, &out), ["three"]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_drains_when_all_is_sent_or_when_its_time_has_come() {
    let (mut peer, mut wire) = wire(64);
    let mut out = Output::new();
    put(&mut out, 99);
    let by = clock::now() + 5 * SECOND;
    let wants = |is_idle| Wants { drain: Some(Drain { by, is_idle }), ..READS };
    assert!(matches!(event(&mut wire, &mut out, wants(true)).await, Some(Event::Sent)));
    peer.read_exact(&mut [0; 64]).await.unwrap();
    assert!(matches!(event(&mut wire, &mut out, wants(true)).await, Some(Event::Sent)));
    assert!(timeout(SECOND, wire.next(&mut out, wants(false))).await.is_err(), "it works still");
    assert!(matches!(event(&mut wire, &mut out, wants(true)).await, Some(Event::Drained)));
    assert!(clock::now() < by);
    // A peer that reads nothing any more.
    put(&mut out, 99);
    assert!(matches!(event(&mut wire, &mut out, wants(true)).await, Some(Event::Sent)));
    while !matches!(event(&mut wire, &mut out, wants(true)).await, Some(Event::Drained)) {}
    assert_eq!(clock::now(), by);
}

#[tokio::test(start_paused = true)]
async fn when_writing_has_failed_the_last_words_can_be_read() {
    let (mut peer, reader) = duplex(64);
    let (gone, writer) = duplex(64);
    drop(gone);
    let mut wire = Wire::new(reader, writer);
    let mut out = Output::new();
    put(&mut out, 9);
    assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::WriteFailed(_))));
    assert_eq!(out.backlog(), 0);
    put(&mut out, 9);
    peer.write_all(b"bye\n").await.unwrap();
    assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Read)));
    assert_eq!((taken(&mut wire, &out), out.backlog()), (vec![Bytes::from("bye")], 0));
    drop(peer);
    assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Over)));
}

/// Counts the reads and writes that move something.
struct Counted(DuplexStream, Arc<[AtomicUsize; 2]>);

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.0).poll_read(cx, buffer))?;
        self.1[0].fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.1[1].fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_takes_one_read_and_one_write_and_no_more_than_a_turn() {
    let (mut peer, ours) = duplex(64 * 1024);
    let counts = Arc::new([const { AtomicUsize::new(0) }; 2]);
    let (reader, writer) = split(Counted(ours, Arc::clone(&counts)));
    let mut wire = Wire::new(reader, writer);
    let mut out = Output::new();
    peer.write_all("line\n".repeat(LINES_PER_TURN + 5).as_bytes()).await.unwrap();
    assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Read)));
    assert_eq!(taken(&mut wire, &out).len(), LINES_PER_TURN);
    for _ in 0..LINES_PER_TURN {
        put(&mut out, 9);
    }
    assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Sent)));
    assert!(taken(&mut wire, &out).is_empty(), "the others come first");
    // Whatever else is ready, the turn of the others is not over before they had it.
    for _ in 0..3 {
        tokio::select! {
            biased;
            _ = wire.next(&mut out, READS) => panic!("nobody else had a turn"),
            () = std::future::ready(()) => {}
        }
    }
    assert!(matches!(event(&mut wire, &mut out, READS).await, Some(Event::Read)));
    assert_eq!(taken(&mut wire, &out).len(), 5);
    assert_eq!([&counts[0], &counts[1]].map(|count| count.load(Ordering::Relaxed)), [1, 1]);
}
