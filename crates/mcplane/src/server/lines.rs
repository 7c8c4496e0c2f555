//! The one loop of a connection that carries lines: bytes in, messages, handlers, bytes out.

use std::future::{pending, poll_fn};
use std::io;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use mcplane_proto::frame::lines::Lines;
use mcplane_proto::limits::{LINES_PER_TURN, MESSAGE_BYTES_MAX};
use mcplane_proto::message::ScanError;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::sleep_until;

use super::Service;
use super::connection::Connection;
use crate::error::{Error, Result};
use crate::transport::poll_send;

/// Bytes asked for in one read: as much as a pipe of Linux holds.
const READ_BYTES: usize = 64 * 1024;

/// Lines longer than this leave a buffer behind that others need more than an idle connection does, in
/// bytes.
const LONG_LINE_BYTES: usize = 512 * 1024;

/// How long requests in flight may still run when the peer has closed its side.
const DRAIN: Duration = Duration::from_secs(5);

/// What becomes of a connection on which something else than JSON comes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Noise {
    /// It is refused and goes on: whatever runs beside a client may print into its pipe.
    IsRefused,
    /// It ends, and nothing after that line is read. On a socket the peer is something else than a
    /// client: a browser, say, that a page sends here with a call as the body of a POST.
    Ends,
}

/// Serves one connection until the peer closes it.
pub(super) async fn serve(
    service: &Service,
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    noise: Noise,
) -> Result<()> {
    let mut changes = service.changes();
    let mut connection = Connection::new(service.clone()).lasting();
    let mut input = BytesMut::with_capacity(READ_BYTES);
    let mut lines = Lines::new(MESSAGE_BYTES_MAX);
    let mut drained_by: Option<Instant> = None;
    let mut turn = LINES_PER_TURN;
    let mut is_long = false;
    loop {
        match take_lines(&mut connection, &mut lines, &mut input, &mut turn, noise) {
            Taken::Noise => {
                input.clear();
                drained_by.get_or_insert_with(|| Instant::now() + DRAIN);
                connection.session.end_listens(&mut connection.out);
            }
            Taken::All if !connection.holds(&mut input) => lines.give_up(&mut input),
            Taken::All | Taken::Some => {}
        }
        is_long |= input.len() > LONG_LINE_BYTES;
        if is_long && input.is_empty() {
            connection.budget().keep_input(&mut input);
            is_long = false;
        }
        if connection.has_room() {
            connection.send_notes();
        }
        if let Some(deadline) = drained_by {
            let idle = connection.is_idle();
            if connection.out.is_done() && idle || deadline <= Instant::now() {
                connection.stop();
                return ended(writer.shutdown().await);
            }
        }
        let room = connection.has_room();
        let reading = drained_by.is_none() && room && turn > 0;
        let wake = [connection.session.deadline(), drained_by].into_iter().flatten().min();
        tokio::select! {
            biased;
            // Nothing is awaited in an arm: a stream may take long to flush.
            sent = poll_fn(|cx| poll_send(&mut connection.out, &mut writer, cx)),
                if !connection.out.is_done() =>
            {
                if sent.is_err() {
                    return ended(sent);
                }
                connection.sent();
            }
            read = read_some(&mut reader, &mut input), if reading => match read {
                Ok(0) => {
                    drained_by = Some(Instant::now() + DRAIN);
                    if let Some(last) = lines.finish(&mut input) {
                        connection.take(Instant::now(), last);
                    }
                    connection.session.end_listens(&mut connection.out);
                }
                Ok(_) => {}
                Err(error) => return ended(Err(error)),
            },
            event = connection.events.recv(), if room => connection.event(event),
            change = changes.recv() => connection.change(change),
            () = sleep_until(wake.unwrap_or_else(Instant::now).into()), if wake.is_some() => {
                connection.expire(Instant::now());
            }
            () = rest(&mut turn) => {}
        }
    }
}

/// Looked at when nothing else comes: whoever waits leaves the others their turn, and so begins a new
/// one. Comes at once where the turn is over, when the others had theirs.
async fn rest(turn: &mut usize) {
    match std::mem::replace(turn, LINES_PER_TURN) {
        0 => tokio::task::yield_now().await,
        _ => pending().await,
    }
}

/// What came of a look at the input.
enum Taken {
    /// Every complete line: what is left is the beginning of one.
    All,
    /// As many lines as there was room or time for.
    Some,
    /// No more than noise, which ends the connection.
    Noise,
}

/// The complete lines of the input, while their answers find room and `turn`, in lines, lasts.
fn take_lines(
    connection: &mut Connection,
    lines: &mut Lines,
    input: &mut BytesMut,
    turn: &mut usize,
    noise: Noise,
) -> Taken {
    if input.is_empty() {
        return Taken::All;
    }
    let now = Instant::now();
    let mut taken = Taken::Some;
    while *turn > 0 && connection.has_room() {
        match lines.next(input) {
            Some(Ok(line)) => {
                if !connection.take(now, line) && noise == Noise::Ends {
                    return Taken::Noise;
                }
            }
            Some(Err(error)) => {
                let error = ScanError::TooLong { len: error.len, max: error.max };
                connection.refuse(&error.into());
            }
            None => {
                taken = Taken::All;
                break;
            }
        }
        *turn -= 1;
    }
    // What is left begins a line. A handshake of TLS may never end one.
    let is_noise = |byte: &u8| !matches!(byte, b'{' | b'[') && !byte.is_ascii_whitespace();
    if noise == Noise::Ends && input.first().is_some_and(is_noise) {
        connection.refuse(&ScanError::NotObject.into());
        return Taken::Noise;
    }
    taken
}

/// Reads what there is. Cancel safe: what was read is in `input`.
async fn read_some(
    reader: &mut (impl AsyncRead + Unpin),
    input: &mut BytesMut,
) -> io::Result<usize> {
    input.reserve(READ_BYTES / 2);
    reader.read_buf(input).await
}

/// A peer that goes away ends the connection; it does not break it.
fn ended(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error)
            if !matches!(
                error.kind(),
                io::ErrorKind::BrokenPipe
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::NotConnected
                    | io::ErrorKind::WriteZero
                    | io::ErrorKind::UnexpectedEof
            ) =>
        {
            Err(Error::io("the connection broke", error))
        }
        _ => Ok(()),
    }
}
