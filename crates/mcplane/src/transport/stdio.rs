//! This process's own standard input and output as a transport.
//!
//! The server takes the two descriptors for itself: anything else that the process prints to
//! standard output goes to standard error, since one stray line would break the protocol. Reads and
//! writes go straight to the pipe; `tokio::io::stdin` would go through a thread pool for each.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use super::Transport;
use crate::error::{Error, Result};
use crate::stages::{self, Stage};

/// Standard input and output of this process. Open it once.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Stdio;

/// Standard input and output of this process.
#[must_use]
pub const fn stdio() -> Stdio {
    Stdio
}

impl Transport for Stdio {
    type Reader = StdioReader;
    type Writer = StdioWriter;

    fn open(self) -> Result<(Self::Reader, Self::Writer)> {
        let taken = take()
            .and_then(|(input, output)| Ok((StdioReader::new(input)?, StdioWriter::new(output)?)));
        taken.map_err(|error| Error::io("cannot take over standard input and output", error))
    }
}

/// Our own copies of descriptors 0 and 1. In their place come nothing to read and standard error.
fn take() -> io::Result<(OwnedFd, OwnedFd)> {
    let input = rustix::stdio::stdin().try_clone_to_owned()?;
    let output = rustix::stdio::stdout().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((input, output))
}

/// The reading half.
#[derive(Debug)]
pub struct StdioReader(ReadEnd, #[allow(dead_code, reason = "restores the flags")] Option<Flags>);

#[derive(Debug)]
enum ReadEnd {
    Pipe(pipe::Receiver),
    Socket(UnixStream),
    Thread(DuplexStream),
}

impl StdioReader {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(match kind(&fd)? {
            FileType::Fifo => {
                let flags = Flags::unblock(&fd)?;
                Self(ReadEnd::Pipe(pipe::Receiver::from_owned_fd_unchecked(fd)?), Some(flags))
            }
            FileType::Socket => {
                let flags = Flags::unblock(&fd)?;
                Self(ReadEnd::Socket(UnixStream::from_std(fd.into())?), Some(flags))
            }
            _ => Self(ReadEnd::Thread(read_in_thread(fd)), None),
        })
    }
}

impl AsyncRead for StdioReader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let start = stages::now();
        let outcome = match &mut self.get_mut().0 {
            ReadEnd::Pipe(end) => Pin::new(end).poll_read(cx, buffer),
            ReadEnd::Socket(end) => Pin::new(end).poll_read(cx, buffer),
            ReadEnd::Thread(end) => Pin::new(end).poll_read(cx, buffer),
        };
        if outcome.is_ready() {
            Stage::Read.since(start);
        }
        outcome
    }
}

/// The writing half.
#[derive(Debug)]
pub struct StdioWriter(WriteEnd, #[allow(dead_code, reason = "restores the flags")] Option<Flags>);

#[derive(Debug)]
enum WriteEnd {
    Pipe(pipe::Sender),
    Socket(UnixStream),
    Thread(DuplexStream, Option<thread::JoinHandle<()>>),
}

impl StdioWriter {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(match kind(&fd)? {
            FileType::Fifo => {
                let flags = Flags::unblock(&fd)?;
                Self(WriteEnd::Pipe(pipe::Sender::from_owned_fd_unchecked(fd)?), Some(flags))
            }
            FileType::Socket => {
                let flags = Flags::unblock(&fd)?;
                Self(WriteEnd::Socket(UnixStream::from_std(fd.into())?), Some(flags))
            }
            _ => {
                let (end, thread) = write_in_thread(fd)?;
                Self(WriteEnd::Thread(end, Some(thread)), None)
            }
        })
    }
}

impl AsyncWrite for StdioWriter {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let end = &mut self.get_mut().0;
        Stage::Write.of(|| match end {
            WriteEnd::Pipe(end) => Pin::new(end).poll_write(cx, bytes),
            WriteEnd::Socket(end) => Pin::new(end).poll_write(cx, bytes),
            WriteEnd::Thread(end, _) => Pin::new(end).poll_write(cx, bytes),
        })
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            WriteEnd::Pipe(end) => Pin::new(end).poll_flush(cx),
            WriteEnd::Socket(end) => Pin::new(end).poll_flush(cx),
            WriteEnd::Thread(end, _) => Pin::new(end).poll_flush(cx),
        }
    }

    /// For files and terminals this waits, blocking, until the last byte is written: it is called
    /// once, when the conversation is over.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            WriteEnd::Pipe(end) => Pin::new(end).poll_shutdown(cx),
            WriteEnd::Socket(end) => Pin::new(end).poll_shutdown(cx),
            WriteEnd::Thread(end, thread) => {
                std::task::ready!(Pin::new(end).poll_shutdown(cx))?;
                if let Some(thread) = thread.take() {
                    let _ = thread.join();
                }
                Poll::Ready(Ok(()))
            }
        }
    }
}

fn kind(fd: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(fd)?.st_mode))
}

/// Makes a descriptor non-blocking and puts its flags back in the end: they belong to the open
/// file, which a parent or a shell may share with us.
#[derive(Debug)]
struct Flags {
    fd: OwnedFd,
    before: OFlags,
}

impl Flags {
    fn unblock(fd: &OwnedFd) -> io::Result<Self> {
        let before = fcntl_getfl(fd)?;
        fcntl_setfl(fd, before | OFlags::NONBLOCK)?;
        Ok(Self { fd: fd.try_clone()?, before })
    }
}

impl Drop for Flags {
    fn drop(&mut self) {
        let _ = fcntl_setfl(&self.fd, self.before);
    }
}

/// Bytes between the thread of a file or a terminal and the connection.
const THREAD_BUFFER_BYTES: usize = 64 * 1024;

/// Files and terminals cannot be waited for: a thread reads them.
fn read_in_thread(fd: OwnedFd) -> DuplexStream {
    let (ours, theirs) = tokio::io::duplex(THREAD_BUFFER_BYTES);
    let runtime = tokio::runtime::Handle::current();
    let mut file = std::fs::File::from(fd);
    let work = move || {
        let mut theirs = theirs;
        let mut buffer = vec![0; THREAD_BUFFER_BYTES];
        while let Ok(len @ 1..) = file.read(&mut buffer) {
            let bytes = buffer.get(..len).unwrap_or_default();
            let sent = tokio::io::AsyncWriteExt::write_all(&mut theirs, bytes);
            if runtime.block_on(sent).is_err() {
                break;
            }
        }
    };
    // Without a thread there is no input: the reader sees the end of the stream.
    let _ = thread::Builder::new().name("mcplane-stdin".into()).spawn(work);
    ours
}

/// Files and terminals are written by a thread, so that a slow one never stops the reader.
fn write_in_thread(fd: OwnedFd) -> io::Result<(DuplexStream, thread::JoinHandle<()>)> {
    let (ours, theirs) = tokio::io::duplex(THREAD_BUFFER_BYTES);
    let runtime = tokio::runtime::Handle::current();
    let mut file = std::fs::File::from(fd);
    let work = move || {
        let mut theirs = theirs;
        let mut buffer = vec![0; THREAD_BUFFER_BYTES];
        loop {
            let read = tokio::io::AsyncReadExt::read(&mut theirs, &mut buffer);
            let Ok(len @ 1..) = runtime.block_on(read) else { break };
            if file.write_all(buffer.get(..len).unwrap_or_default()).is_err() {
                break;
            }
        }
    };
    let thread = thread::Builder::new().name("mcplane-stdout".into()).spawn(work)?;
    Ok((ours, thread))
}
