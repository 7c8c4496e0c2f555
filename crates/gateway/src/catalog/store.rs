//! The last good offers on disk, so that a restart is not an outage: one JSON file per server.
//!
//! Blocking, and meant for a thread that may block. Whatever is wrong with a file, the worst that
//! happens is a list that has to be fetched first.

use std::ffi::OsStr;
use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mcplane::proto::types::{Implementation, ServerCapabilities};
use mcplane::proto::version::Revision;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Fingerprint;
use super::offer::{Asking, Kind, Offer};
use crate::private;

/// The form of the files. Others are ignored.
const FORMAT: u32 = 1;
/// Largest file, in bytes: larger offers are not kept, larger files not read.
pub const FILE_BYTES_MAX: u64 = 64 << 20;
/// No write takes as long: a half-written file of this age was left behind.
const WRITE_MAX: Duration = Duration::from_secs(3600);

/// A folder of offers.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// What became of a read.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums, reason = "the caller has to look at each")]
pub enum Loaded {
    /// The offer, as of when it was kept.
    Offer(Box<Offer>),
    /// Nothing was kept for this server.
    Nothing,
    /// There is a file and it is of no use: one sentence for the log.
    Ignored(String),
}

/// What a file says beside its lists, which have the form of list results and are read as such.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    format: u32,
    server: String,
    identity: String,
    seen_ms: u64,
    revision: Option<String>,
    info: Option<Implementation>,
    capabilities: ServerCapabilities,
    instructions: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    asks: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    silent: Vec<String>,
}

impl Store {
    /// A store in this folder, which is made when something is first kept.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Keeps an offer. `identity` stands for what the server is (its command or URL, say): a
    /// server with another one has other lists. A reader sees the old file or the new one, never a
    /// part.
    ///
    /// # Errors
    /// When the disk refuses, or the offer is larger than [`FILE_BYTES_MAX`]; what was kept before
    /// is kept still.
    pub fn save(&self, server: &str, identity: &str, offer: &Offer) -> io::Result<()> {
        let text = text(server, identity, offer)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            let why =
                format!("the lists of server {server:?} take more than {FILE_BYTES_MAX} bytes");
            return Err(io::Error::other(why));
        }
        private::make(&self.folder)?;
        let path = self.path(server);
        let fresh = path.with_extension(format!("{}.tmp", unique()));
        let written = write_private(&fresh, &text).and_then(|()| fs::rename(&fresh, &path));
        if written.is_err() {
            // The error that counts is the first one.
            let _ = fs::remove_file(&fresh);
        }
        written
    }

    /// The offer that was kept for a server of this identity.
    #[must_use]
    pub fn load(&self, server: &str, identity: &str) -> Loaded {
        let path = self.path(server);
        let ignored = |why: String| Loaded::Ignored(format!("ignoring {}: {why}", path.display()));
        let read = || {
            private::check(&self.folder)?;
            sweep(&path);
            read(&path)
        };
        let text = match read() {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Loaded::Nothing,
            Err(error) => return ignored(error.to_string()),
        };
        match parse(&text, server, identity) {
            Ok(offer) => Loaded::Offer(Box::new(offer)),
            Err(why) => ignored(why),
        }
    }

    /// Forgets a server.
    ///
    /// # Errors
    /// When the disk refuses. That there was nothing is no error.
    pub fn forget(&self, server: &str) -> io::Result<()> {
        match fs::remove_file(self.path(server)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// A file of its own for each name, whatever characters it has.
    fn path(&self, server: &str) -> PathBuf {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let name: String = server.chars().map(plain).take(64).collect();
        self.folder.join(format!("{name}-{:016x}.json", Fingerprint::of(&[server])))
    }
}

fn text(server: &str, identity: &str, offer: &Offer) -> io::Result<Vec<u8>> {
    let head = Head {
        format: FORMAT,
        server: server.into(),
        identity: identity.into(),
        seen_ms: offer.seen_ms,
        revision: offer.revision.map(|revision| revision.as_str().into()),
        info: offer.info.clone(),
        capabilities: offer.capabilities.clone(),
        instructions: offer.instructions.clone(),
        asks: offer.asking.asks.clone(),
        silent: offer.asking.silent.clone(),
    };
    let mut text = serde_json::to_vec(&head)?;
    text.pop();
    for kind in Kind::ALL {
        let entries: Vec<&RawValue> = offer.entries(kind).iter().map(|entry| &*entry.raw).collect();
        write!(text, ",{:?}:", kind.member())?;
        serde_json::to_writer(&mut text, &entries)?;
    }
    text.push(b'}');
    Ok(text)
}

fn parse(text: &[u8], server: &str, identity: &str) -> Result<Offer, String> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let damaged = |error: serde_json::Error| format!("it is damaged: {error}");
    let Format { format } = serde_json::from_slice(text).map_err(damaged)?;
    if format != FORMAT {
        return Err(format!("its format is {format}, and this version reads {FORMAT}"));
    }
    let head: Head = serde_json::from_slice(text).map_err(damaged)?;
    if head.server != server {
        return Err(format!("it is of another server, {:?}", head.server));
    }
    if head.identity != identity {
        return Err("the server's command or address has changed since".into());
    }
    let revision = match head.revision {
        Some(name) => Some(Revision::parse(&name).ok_or("its revision is unknown")?),
        None => None,
    };
    let mut offer = Offer::new(revision, head.capabilities);
    offer.info = head.info;
    offer.instructions = head.instructions;
    offer.seen_ms = head.seen_ms;
    offer.asking = Asking { asks: head.asks, silent: head.silent };
    for kind in Kind::ALL {
        offer.add_page(kind.method(), text).map_err(|error| error.to_string())?;
    }
    Ok(offer)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// Removes what a process left that was killed while it wrote.
fn sweep(path: &Path) {
    let (Some(folder), Some(stem)) = (path.parent(), path.file_stem().and_then(OsStr::to_str))
    else {
        return;
    };
    let is_left = |file: &DirEntry| {
        let name = file.file_name();
        let mine =
            name.to_str().is_some_and(|name| name.starts_with(stem) && name.ends_with(".tmp"));
        let age = || file.metadata().ok()?.modified().ok()?.elapsed().ok();
        mine && age().is_some_and(|age| age > WRITE_MAX)
    };
    for file in fs::read_dir(folder).into_iter().flatten().flatten().filter(is_left) {
        // If it cannot be removed, it does no harm.
        let _ = fs::remove_file(file.path());
    }
}

/// Lists can name what is nobody else's business: only the owner reads them.
fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text)?;
    file.sync_all()
}

/// Different in each process and at each call.
fn unique() -> String {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed))
}
