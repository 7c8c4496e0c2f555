//! How the servers of this process spend their time, stage by stage.
//!
//! Off until an observer is set; then every stage of every message costs two reads of the clock and
//! one call. `mcplane bench --profile stages` asks `mcplane fixture` for it; a server of your own
//! can keep its own figures:

#![cfg_attr(
    feature = "stages",
    doc = r#"
```no_run
# use mcplane::Server;
# async fn run() -> mcplane::Result<()> {
mcplane::stages::observe(|stage, took| eprintln!("{}: {took:?}", stage.as_str()));
Server::new("demo", "1.0.0").serve(mcplane::stdio()).await?;
# Ok(())
# }
```
"#
)]
#![cfg_attr(
    not(feature = "stages"),
    allow(dead_code, unreachable_pub, reason = "nobody can observe what is private")
)]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What a server does with a message, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// A read of a descriptor that returned data: part of a message, or many.
    Read,
    /// The scan of a message.
    Parse,
    /// Arguments against their schema, and headers of 2026-07-28 against the body.
    Validate,
    /// From there to the start of a handler that waits or blocks. Inline handlers do not queue.
    Queue,
    /// The handler of a tool, a resource, a prompt or a completion.
    Handler,
    /// Its result becomes the text of an answer.
    Encode,
    /// A write to a descriptor: part of an answer, or many.
    Write,
}

type Observer = Box<dyn Fn(Stage, Duration) + Send + Sync>;

static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// Calls `observer` after every stage from now on, in the whole process, on the thread that did it:
/// the time that it takes delays that message. `false` if there is an observer already.
pub fn observe(observer: impl Fn(Stage, Duration) + Send + Sync + 'static) -> bool {
    OBSERVER.set(Box::new(observer)).is_ok()
}

/// The time, if somebody observes.
#[inline]
pub(crate) fn now() -> Option<Instant> {
    OBSERVER.get().map(|_| Instant::now())
}

impl Stage {
    /// Its name, in one lower-case word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Parse => "parse",
            Self::Validate => "validate",
            Self::Queue => "queue",
            Self::Handler => "handler",
            Self::Encode => "encode",
            Self::Write => "write",
        }
    }

    /// This stage, begun then, ends now.
    #[inline]
    pub(crate) fn since(self, start: Option<Instant>) {
        if let (Some(start), Some(observer)) = (start, OBSERVER.get()) {
            observer(self, start.elapsed());
        }
    }

    /// Observes `work` as this stage.
    #[inline]
    pub(crate) fn of<T>(self, work: impl FnOnce() -> T) -> T {
        let start = now();
        let value = work();
        self.since(start);
        value
    }
}
