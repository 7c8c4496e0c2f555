//! A server that listens somewhere already, or that a command makes listen.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use mcplane_process::Command;

use super::address::{Address, Transport};

/// Most headers that a user may add.
const HEADERS_MAX: usize = 64;

/// Headers that the transport itself writes.
const OWN_HEADERS: [&str; 12] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "sec-websocket-protocol",
    "transfer-encoding",
    "upgrade",
];

/// A server at an address.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Remote {
    pub(crate) address: Address,
    pub(crate) headers: Headers,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) pid: Option<u32>,
    /// Whether HTTP+SSE is tried where Streamable HTTP is not spoken.
    pub(crate) falls_back: bool,
}

impl Remote {
    /// The server at this address.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self { address, headers: Headers::default(), ca: None, pid: None, falls_back: true }
    }

    /// Adds a header, `Name: value`, to every HTTP request and to the WebSocket handshake.
    ///
    /// # Errors
    /// A sentence that names the header, never its value.
    pub fn header(mut self, line: &str) -> Result<Self, String> {
        let wrong = |what: &str| Err(what.to_owned());
        let Some((name, value)) = line.split_once(':') else {
            return wrong("it takes 'Name: value'");
        };
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        if HeaderName::try_from(&name).is_err() {
            return wrong("that is not a header name; it takes 'Name: value'");
        }
        if OWN_HEADERS.contains(&name.as_str()) {
            return wrong(&format!("{name} is written by the transport itself"));
        }
        if HeaderValue::try_from(value).is_err() {
            return wrong(&format!(
                "the value of {name} has characters that a header must not have"
            ));
        }
        if self.headers.0.len() >= HEADERS_MAX {
            return wrong(&format!("at most {HEADERS_MAX}"));
        }
        Arc::make_mut(&mut self.headers.0).push((name, value.to_owned()));
        Ok(self)
    }

    /// Trusts the authorities of this PEM file in place of the system's.
    #[must_use]
    pub fn ca(mut self, file: Option<PathBuf>) -> Self {
        self.ca = file;
        self
    }

    /// Observes the process tree under this process, which serves the address. Otherwise it is the
    /// one that listens there, if that is on this machine and can be seen.
    #[must_use]
    pub const fn pid(mut self, pid: Option<u32>) -> Self {
        self.pid = pid;
        self
    }

    /// Speaks Streamable HTTP or nothing.
    #[must_use]
    pub const fn without_fall_back(mut self) -> Self {
        self.falls_back = false;
        self
    }

    /// Where it is.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }
}

/// A command that listens and prints its address as the first line of its stdout.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller builds")]
pub struct Served {
    /// The command.
    pub command: Command,
    /// How it is spoken to.
    pub transport: Transport,
}

/// Headers of the user. Their values are secrets and never shown.
#[derive(Clone, Default)]
pub(crate) struct Headers(Arc<Vec<(String, String)>>);

impl Headers {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(line: &str) -> Result<Remote, String> {
        Remote::new(Address::parse("http://a/", false).unwrap()).header(line)
    }

    #[test]
    fn headers_are_kept_and_never_shown() {
        let remote = with("Authorization: Bearer s3cret").unwrap().header("X-A: b: c").unwrap();
        let kept: Vec<_> = remote.headers.iter().collect();
        assert_eq!(kept, [("authorization", "Bearer s3cret"), ("x-a", "b: c")]);
        let shown = format!("{remote:?}");
        assert!(shown.contains("authorization") && !shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn a_wrong_header_is_named_without_its_value() {
        for (line, part) in [
            ("nothing", "'Name: value'"),
            ("a b: hunter2", "not a header name"),
            ("x: hunter2\u{1}", "the value of x"),
            ("Host: hunter2", "host is written by the transport"),
        ] {
            let error = with(line).unwrap_err();
            assert!(error.contains(part) && !error.contains("hunter2"), "{error}");
        }
    }
}
