//! What comes back on a wire, or why nothing does.

use std::io;

use bytes::Bytes;
use mcplane_proto::Message;

/// What has arrived.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// A message.
    Message(Bytes),
    /// The exchange that carried this request is over: what it has not brought never comes.
    Over(i64),
    /// The same, and why.
    Failed(i64, Lost),
    /// Something that is not a message.
    Noise(String),
}

/// Why a request has no answer, while the server may be well.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The connection that carried it failed.
    Connection(String),
    /// An HTTP status, and all that is known about it.
    Status(u16, String),
    /// A JSON-RPC error that came with an HTTP status.
    Refused(Box<Message>),
}

/// Why nothing comes any more.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The server closed its output.
    Closed,
    /// Something else.
    Why(String),
}

impl Broken {
    pub(super) fn reading(error: &io::Error) -> Self {
        Self::Why(format!("reading failed: {error}"))
    }

    /// It in a sentence.
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Closed => "the server closed its output".to_owned(),
            Self::Why(why) => why,
        }
    }
}

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) enum Silence {
    /// The other end closed the stream.
    Closed,
    /// The connection failed.
    Broken(String),
    /// An HTTP status in place of an answer.
    Status(u16, String),
    /// The time limit passed.
    Timeout,
}

impl From<Broken> for Silence {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Closed => Self::Closed,
            Broken::Why(why) => Self::Broken(why),
        }
    }
}
