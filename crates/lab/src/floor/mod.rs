//! The floor: a null responder that answers every call with the same bytes, the id copied in.
//!
//! It parses nothing, checks nothing and, over byte streams, allocates nothing per call: what it
//! takes is what the transport and the generator take, and nothing that speaks the protocol over
//! the same transport can take less. It is fed the target's own first answer, so that both sides
//! move the same bytes.
//!
//! * [`Floor`], [`serve_stdio`], `Responder` — this file.
//! * `listen` — the floor behind a socket: [`serve_listening`].
//! * `web`    — bare hyper for HTTP and HTTP+SSE, and WebSocket.
//! * `relay`  — the null relay in front of a stdio server, for gateways: [`serve_relay`].

mod listen;
mod relay;
mod web;

use std::io::{self, BufRead, Read, Write};

use bytes::Bytes;
use mcplane_process::Command;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use crate::client::{MEMORY_BYTES, Served, Site, Stream, Target, Transport};
use crate::error::Error;
use crate::plan::Plan;

pub use listen::{serve_listening, socket_path};
pub use relay::{RelayThreads, serve_relay};

/// Bytes that one read may take, as in the generator.
const READ_BYTES: usize = 64 * 1024;

/// Longest answer that is accepted as a template, in bytes.
const TEMPLATE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a target is compared with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Floor {
    /// Nothing.
    Off,
    /// A process that runs [`serve_stdio`]; for targets that listen, one that is given
    /// `--transport NAME --listen ADDRESS` and runs [`serve_listening`].
    Process(Command),
    /// A task on the generator's own thread: for in-memory targets.
    Memory,
}

impl Floor {
    /// Makes a floor reachable, over what the target is reached over, that answers with these bytes
    /// around the id. `None` if there is to be none.
    pub(crate) async fn start(
        &self,
        target: &Site,
        (before, after): (&Bytes, &Bytes),
        plan: &Plan,
    ) -> Result<Option<Site>, Error> {
        let mut template = format!("{} {}\n", before.len(), after.len()).into_bytes();
        template.extend_from_slice(before);
        template.extend_from_slice(after);
        let (target, input) = match self {
            Self::Off => return Ok(None),
            Self::Process(command) => (process(command.clone(), target.listens()), template),
            Self::Memory => {
                let responder = Responder::new(before.to_vec(), after.to_vec());
                let connect = move || {
                    let (near, far) = duplex(MEMORY_BYTES);
                    tokio::spawn(serve_memory(far, responder.clone()));
                    Ok(Stream::from_duplex(near))
                };
                (Target::memory("floor", connect), Vec::new())
            }
        };
        Site::start(&target, input, plan.start_timeout).await.map(Some)
    }
}

fn process(command: Command, transport: Option<Transport>) -> Target {
    let Some(transport) = transport else { return Target::Stdio(command) };
    let listen = match transport {
        Transport::Unix => format!("unix:{}", socket_path("floor").display()),
        _ => "127.0.0.1:0".to_owned(),
    };
    let command = command.args(["--transport", transport.as_str(), "--listen"]).arg(listen);
    Target::Served(Served { command, transport })
}

/// How a floor writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Writes {
    /// One write for all answers to what one read brought: the least that is possible.
    #[default]
    PerRead,
    /// One write for each answer, as a plain loop does. With one call in flight it is the same.
    PerAnswer,
}

/// The floor as a process: reads its template and then calls from stdin, answers on stdout, ends
/// when stdin does.
///
/// # Errors
/// When stdin does not start with a template, or a pipe breaks.
pub fn serve_stdio(writes: Writes) -> io::Result<()> {
    let mut input = io::stdin().lock();
    let responder = Responder::read(&mut input)?;
    serve(responder, writes, &mut input, &mut io::stdout().lock())
}

fn serve(
    mut responder: Responder,
    writes: Writes,
    input: &mut impl Read,
    output: &mut impl Write,
) -> io::Result<()> {
    let (mut chunk, mut out) = (vec![0; READ_BYTES], Vec::new());
    loop {
        let len = input.read(&mut chunk)?;
        if len == 0 {
            return Ok(());
        }
        responder.answer(chunk.get(..len).unwrap_or_default(), &mut out);
        match writes {
            Writes::PerRead => output.write_all(&out)?,
            Writes::PerAnswer => {
                // Standard output is written at the end of each line.
                out.split_inclusive(|&byte| byte == b'\n').try_for_each(|a| output.write_all(a))?;
            }
        }
        output.flush()?;
        out.clear();
    }
}

async fn serve_memory(mut stream: DuplexStream, mut responder: Responder) {
    let (mut chunk, mut out) = (vec![0; READ_BYTES], Vec::new());
    while let Ok(len @ 1..) = stream.read(&mut chunk).await {
        responder.answer(chunk.get(..len).unwrap_or_default(), &mut out);
        if stream.write_all(&out).await.is_err() {
            return;
        }
        out.clear();
    }
}

/// Finds ids in calls and puts them into the template.
#[derive(Clone)]
struct Responder {
    before: Vec<u8>,
    after: Vec<u8>,
    /// The beginning of a call whose end has not come yet.
    partial: Vec<u8>,
}

impl Responder {
    fn new(before: Vec<u8>, mut after: Vec<u8>) -> Self {
        after.push(b'\n');
        Self { before, after, partial: Vec::new() }
    }

    fn read(input: &mut impl BufRead) -> io::Result<Self> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "no template on stdin");
        let mut lengths = Vec::new();
        input.by_ref().take(64).read_until(b'\n', &mut lengths)?;
        let lengths = String::from_utf8(lengths).map_err(|_| wrong())?;
        let mut lengths = lengths.split_whitespace().map(str::parse::<usize>);
        let mut part = || {
            let len = lengths.next().and_then(Result::ok).filter(|len| *len <= TEMPLATE_BYTES_MAX);
            let mut part = vec![0; len.ok_or_else(wrong)?];
            input.read_exact(&mut part).map(|()| part)
        };
        Ok(Self::new(part()?, part()?))
    }

    /// The answer to one message, without a newline; `None` for one without an id.
    fn reply(&self, message: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(self.before.len() + self.after.len() + 20);
        self.answer_one(message, &mut out);
        out.pop()?;
        Some(out)
    }

    /// Appends the answers to the calls that end in `input`.
    fn answer(&mut self, input: &[u8], out: &mut Vec<u8>) {
        let mut rest = input;
        while let Some(line) = next_line(&mut rest) {
            if self.partial.is_empty() {
                self.answer_one(line, out);
            } else {
                let mut whole = std::mem::take(&mut self.partial);
                whole.extend_from_slice(line);
                self.answer_one(&whole, out);
            }
        }
        self.partial.extend_from_slice(rest);
    }

    fn answer_one(&self, line: &[u8], out: &mut Vec<u8>) {
        const KEY: &[u8] = b"\"id\":";
        let Some(at) = line.windows(KEY.len()).position(|window| window == KEY) else { return };
        let rest = line.get(at + KEY.len()..).unwrap_or_default();
        let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        out.extend_from_slice(&self.before);
        out.extend_from_slice(rest.get(..end).unwrap_or_default());
        out.extend_from_slice(&self.after);
    }
}

/// Takes the next complete line off `rest`, newline included.
fn next_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let all = *rest;
    // The standard library's fast search for one byte is behind this function alone.
    let len = rest.skip_until(b'\n').unwrap_or(0);
    let line = all.get(..len).filter(|line| line.ends_with(b"\n"));
    if line.is_none() {
        *rest = all;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLS: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\"}\n\
        {\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":7}}\n\
        {\"jsonrpc\":\"2.0\",\"id\":12345,\"params\":{\"arguments\":{\"id\":1}}}\n";
    const ANSWERS: &[u8] = b"{\"id\":7,\"result\":{}}\n{\"id\":12345,\"result\":{}}\n";

    #[test]
    fn every_split_gives_the_same_answers() {
        for at in 0..CALLS.len() {
            let mut responder = Responder::new(b"{\"id\":".to_vec(), b",\"result\":{}}".to_vec());
            let mut out = Vec::new();
            responder.answer(&CALLS[..at], &mut out);
            responder.answer(&CALLS[at..], &mut out);
            assert_eq!(out, ANSWERS, "split at {at}");
        }
    }

    #[test]
    fn the_template_comes_first() {
        let mut input = b"6 13\n{\"id\":,\"result\":{}}".to_vec();
        input.extend_from_slice(CALLS);
        for writes in [Writes::PerRead, Writes::PerAnswer] {
            let mut out = Vec::new();
            let mut input = input.as_slice();
            let responder = Responder::read(&mut input).unwrap();
            serve(responder, writes, &mut input, &mut out).unwrap();
            assert_eq!(out, ANSWERS);
        }
        for bad in ["", "hello\n", "6\n{\"id\":", "99999999999 1\n", "5 5\nabc"] {
            assert!(Responder::read(&mut bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn one_message_has_one_reply() {
        let responder = Responder::new(b"<".to_vec(), b">".to_vec());
        assert_eq!(responder.reply(br#"{"id":42}"#).as_deref(), Some(&b"<42>"[..]));
        assert_eq!(responder.reply(b"{}"), None);
    }
}
