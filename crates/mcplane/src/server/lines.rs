//! The one loop of a connection that carries lines: bytes in, messages, handlers, bytes out.

use std::io;
use std::time::{Duration, Instant};

use mcplane_proto::message::ScanError;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Service;
use super::connection::Connection;
use crate::clock;
use crate::error::{Error, Result};
use crate::transport::wire::{Drain, Event, Wants, Wire};

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
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
    noise: Noise,
) -> Result<()> {
    let mut changes = service.changes();
    let mut connection = Connection::new(service.clone()).lasting();
    let mut wire = Wire::new(reader, writer);
    let mut drained_by: Option<Instant> = None;
    let mut is_long = false;
    loop {
        if take_lines(&mut connection, &mut wire, noise) {
            wire.stop_reading();
            drained_by.get_or_insert_with(|| clock::now() + DRAIN);
            connection.session.end_listens(&mut connection.out);
        }
        if let Some(input) = wire.beginning() {
            is_long |= input.len() > LONG_LINE_BYTES;
            if !connection.holds(input) {
                wire.give_up();
            } else if is_long && input.is_empty() {
                connection.budget().keep_input(input);
                is_long = false;
            }
        }
        if connection.has_room() {
            connection.send_notes();
        }
        let room = connection.has_room();
        let drain = drained_by.map(|by| Drain { by, is_idle: connection.is_idle() });
        let wants = Wants { reads: room, wake: connection.session.deadline(), drain };
        tokio::select! {
            biased;
            event = wire.next(&mut connection.out, wants) => match event {
                Event::Sent => connection.sent(),
                Event::Over => {
                    drained_by = Some(clock::now() + DRAIN);
                    if let Some(last) = wire.last_line() {
                        connection.take(clock::now(), last);
                    }
                    connection.session.end_listens(&mut connection.out);
                }
                Event::ReadFailed(error) | Event::WriteFailed(error) => return ended(Err(error)),
                Event::Drained => {
                    connection.stop();
                    return ended(wire.shutdown().await);
                }
                Event::Woke => connection.expire(clock::now()),
                // How long a peer may be silent is for the stream to say; nobody asks for losses.
                Event::Read | Event::Stalled | Event::Lost(_) => {}
            },
            event = connection.events.recv(), if room => connection.event(event),
            change = changes.recv() => connection.change(change),
        }
    }
}

/// The complete lines of the input, while their answers find room and the turn lasts. `true` if no more
/// than noise has come, which ends the connection.
fn take_lines<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    connection: &mut Connection,
    wire: &mut Wire<R, W>,
    noise: Noise,
) -> bool {
    if wire.input().is_empty() {
        return false;
    }
    let now = clock::now();
    while connection.has_room()
        && let Some(line) = wire.next_line(&connection.out)
    {
        match line {
            Ok(line) => {
                if !connection.take(now, line) && noise == Noise::Ends {
                    return true;
                }
            }
            Err(error) => {
                let error = ScanError::TooLong { len: error.len, max: error.max };
                connection.refuse(&error.into());
            }
        }
    }
    // What is left begins a line. A handshake of TLS may never end one.
    let is_noise = |byte: &u8| !matches!(byte, b'{' | b'[') && !byte.is_ascii_whitespace();
    if noise == Noise::Ends && wire.input().first().is_some_and(is_noise) {
        connection.refuse(&ScanError::NotObject.into());
        return true;
    }
    false
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, duplex, split};

    use mcplane_proto::limits::LINES_PER_TURN;

    use super::*;
    use crate::server::context::ASK_TIMEOUT;
    use crate::{Context, NoArguments, Server, Tool};

    /// How often the connection may be polled for a handshake, a call and a question.
    const POLLS_MAX: usize = 1000;

    #[tokio::test]
    async fn a_turn_that_ends_with_the_input_is_not_the_last() {
        let service = Server::new("turns", "1").start().unwrap();
        let (peer, ours) = duplex(256 * 1024);
        let (reader, writer) = split(ours);
        let serving = serve(&service, reader, writer, Noise::IsRefused);
        let asking = async {
            let (reader, mut writer) = split(peer);
            let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
            let mut lines = BufReader::new(reader).lines();
            for pings in [LINES_PER_TURN, 1] {
                writer.write_all(ping.repeat(pings).as_bytes()).await.unwrap();
                for _ in 0..pings {
                    assert!(lines.next_line().await.unwrap().is_some());
                }
            }
            writer.shutdown().await.unwrap();
            assert_eq!(lines.next_line().await.unwrap(), None);
        };
        let both = async { tokio::join!(serving, asking) };
        tokio::time::timeout(Duration::from_secs(10), both).await.unwrap().0.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_nobody_answers_ends_by_the_clock_of_the_runtime() {
        let tool = Tool::waiting("asks", async |context: Context, NoArguments {}| {
            context.roots().await.map(|roots| format!("{} roots", roots.len()))
        });
        let service = Server::new("clock", "1").tool(tool).start().unwrap();
        let (peer, ours) = duplex(64 * 1024);
        let (reader, writer) = split(ours);
        let mut serving = pin!(serve(&service, reader, writer, Noise::IsRefused));
        let mut polls = 0;
        let serving = poll_fn(|cx| {
            polls += 1;
            assert!(polls < POLLS_MAX, "it spins");
            serving.as_mut().poll(cx)
        });
        let asking = async {
            let (reader, mut writer) = split(peer);
            let mut lines = BufReader::new(reader).lines();
            for line in [
                r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}"#,
                r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"asks","arguments":{}}}"#,
            ] {
                writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
                assert!(lines.next_line().await.unwrap().is_some());
            }
            let asked = tokio::time::Instant::now();
            let cancelled = lines.next_line().await.unwrap().unwrap();
            assert!(cancelled.contains("notifications/cancelled"), "{cancelled}");
            assert!(lines.next_line().await.unwrap().unwrap().contains(r#""id":2"#));
            asked.elapsed()
        };
        tokio::select! {
            ended = serving => panic!("{ended:?}"),
            waited = asking => assert_eq!(waited.as_secs(), ASK_TIMEOUT.as_secs()),
        }
    }
}
