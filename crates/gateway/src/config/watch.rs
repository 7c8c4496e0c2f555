//! Notices that the file of settings was changed, or that somebody sent SIGHUP.

use std::{
    collections::hash_map::DefaultHasher,
    fs,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
    time::Duration,
};

use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode},
};
use tokio::{
    sync::mpsc,
    task::{JoinHandle, spawn_blocking},
    time::{Instant, timeout_at},
};

use super::error::{ConfigError, Reason};

/// How long the folder must be quiet before the file is read: an editor writes in several steps.
const QUIET: Duration = Duration::from_millis(200);

/// Longest wait for that quiet: a folder where something is always written must not hide a change.
const QUIET_MAX: Duration = Duration::from_secs(2);

/// A file that is watched. Dropped, it is watched no more.
#[derive(Debug)]
pub struct Watch {
    changes: mpsc::Receiver<()>,
    task: JoinHandle<()>,
    _watcher: RecommendedWatcher,
}

impl Watch {
    /// Waits until the file has another content than before, or SIGHUP came. What happens between
    /// two calls is told once, by the second. Cancel safe.
    pub async fn changed(&mut self) {
        if self.changes.recv().await.is_none() {
            // The task cannot end before this is dropped; if it did, nothing would change any more.
            std::future::pending().await
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Watches a file of settings.
///
/// The folder is watched, not the file, for editors put a new file in the place of the old one;
/// and if the path is a link, so is the folder that it leads to.
///
/// # Errors
/// The folder cannot be watched: it does not exist, or the system's limit is reached.
///
/// # Panics
/// Outside of a Tokio runtime with time and I/O.
pub fn watch(path: &Path) -> Result<Watch, ConfigError> {
    let cannot = |source| Reason::Watch { path: path.to_owned(), source };
    let (nudge, nudges) = mpsc::channel(1);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        // To be read, as it is here, is no change; an error means that some were missed.
        if event.map_or(true, |event| may_change(event.kind)) {
            // One that waits already says the same.
            let _ = nudge.try_send(());
        }
    })
    .map_err(cannot)?;
    for folder in folders(path) {
        watcher.watch(&folder, RecursiveMode::NonRecursive).map_err(cannot)?;
    }
    let hangup = hangup::Hangup::new().map_err(Reason::Signal)?;
    let (changed, changes) = mpsc::channel(1);
    let before = hash(path);
    let task = tokio::spawn(follow(path.to_owned(), before, nudges, hangup, changed));
    Ok(Watch { changes, task, _watcher: watcher })
}

fn may_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

/// The folder of the path, and that of the file which it leads to.
fn folders(path: &Path) -> Vec<PathBuf> {
    let folder = |path: &Path| match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut folders = vec![folder(path)];
    if let Ok(target) = path.canonicalize() {
        let target = folder(&target);
        if folders.iter().all(|folder| folder.canonicalize().ok().as_ref() != Some(&target)) {
            folders.push(target);
        }
    }
    folders
}

async fn follow(
    path: PathBuf,
    mut before: Option<u64>,
    mut nudges: mpsc::Receiver<()>,
    mut hangup: hangup::Hangup,
    changed: mpsc::Sender<()>,
) {
    loop {
        let asked = tokio::select! {
            nudge = nudges.recv() => match nudge {
                Some(()) => false,
                None => return,
            },
            () = hangup.came() => true,
        };
        if !asked {
            quiet(&mut nudges).await;
        }
        let read = path.clone();
        let Ok(now) = spawn_blocking(move || hash(&read)).await else { return };
        // A file that is gone for a moment is about to be replaced.
        let differs = now.is_some() && now != before;
        before = now.or(before);
        // SIGHUP also asks for what the file refers to: variables and files with tokens.
        if (asked || differs)
            && let Err(mpsc::error::TrySendError::Closed(())) = changed.try_send(())
        {
            return;
        }
    }
}

/// Waits until nothing has been written for a while.
async fn quiet(nudges: &mut mpsc::Receiver<()>) {
    let end = Instant::now() + QUIET_MAX;
    while let Ok(Some(())) = timeout_at(end.min(Instant::now() + QUIET), nudges.recv()).await {
        if Instant::now() >= end {
            return;
        }
    }
}

/// What stands for the content of the file; `None` if it cannot be read.
fn hash(path: &Path) -> Option<u64> {
    let content = fs::read(path).ok()?;
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    Some(hasher.finish())
}

#[cfg(unix)]
mod hangup {
    use std::io;

    use tokio::signal::unix::{Signal, SignalKind, signal};

    /// SIGHUP, the old way to ask a service to read its settings again.
    #[derive(Debug)]
    pub(super) struct Hangup(Signal);

    impl Hangup {
        pub(super) fn new() -> io::Result<Self> {
            signal(SignalKind::hangup()).map(Self)
        }

        /// Waits for the signal. Cancel safe.
        pub(super) async fn came(&mut self) {
            if self.0.recv().await.is_none() {
                std::future::pending().await
            }
        }
    }
}

#[cfg(not(unix))]
mod hangup {
    use std::{future, io};

    /// A signal that does not exist here.
    #[derive(Debug)]
    pub(super) struct Hangup;

    impl Hangup {
        #[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self)
        }

        /// Never comes.
        pub(super) async fn came(&mut self) {
            future::pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    /// Far more than a change takes to be noticed on a busy machine.
    const LIMIT: Duration = Duration::from_secs(20);

    /// Several times what is waited for quiet.
    const SILENCE: Duration = Duration::from_millis(900);

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder =
                std::env::temp_dir().join(format!("mcplane-watch-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn file(&self, name: &str, content: &str) -> PathBuf {
            let file = self.0.join(name);
            fs::write(&file, content).unwrap();
            file
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    async fn change(watch: &mut Watch) {
        timeout(LIMIT, watch.changed()).await.expect("a change");
    }

    async fn silence(watch: &mut Watch) {
        timeout(SILENCE, watch.changed()).await.expect_err("no change");
    }

    #[tokio::test]
    async fn a_change_is_told_once_however_it_is_written() {
        let folder = Folder::new("once");
        let file = folder.file("mcplane.toml", "a");
        let mut watch = watch(&file).unwrap();
        // In steps.
        for content in ["b", "bc", "bcd"] {
            fs::write(&file, content).unwrap();
        }
        change(&mut watch).await;
        silence(&mut watch).await;
        // As editors do it: a new file in the place of the old one.
        fs::rename(folder.file("new", "e"), &file).unwrap();
        change(&mut watch).await;
        // Gone and back.
        fs::remove_file(&file).unwrap();
        silence(&mut watch).await;
        fs::write(&file, "f").unwrap();
        change(&mut watch).await;
    }

    #[tokio::test]
    async fn what_does_not_change_the_content_is_not_told() {
        let folder = Folder::new("same");
        let file = folder.file("mcplane.toml", "a");
        let mut watch = watch(&file).unwrap();
        fs::write(&file, "a").unwrap();
        folder.file("another", "b");
        silence(&mut watch).await;
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_link_is_followed_and_may_lead_elsewhere_later() {
        use std::os::unix::fs::symlink;

        let (folder, target) = (Folder::new("link"), Folder::new("target"));
        let link = folder.0.join("mcplane.toml");
        symlink(target.file("one", "1"), &link).unwrap();
        let mut watch = watch(&link).unwrap();
        target.file("one", "changed");
        change(&mut watch).await;
        let next = folder.0.join("next");
        symlink(target.file("two", "2"), &next).unwrap();
        fs::rename(&next, &link).unwrap();
        change(&mut watch).await;
    }

    #[tokio::test]
    async fn to_be_read_is_no_change() {
        let folder = Folder::new("read");
        let file = folder.file("mcplane.toml", "a");
        let (nudge, mut nudges) = mpsc::channel(16);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if may_change(event.unwrap().kind) {
                nudge.try_send(()).unwrap();
            }
        })
        .unwrap();
        watcher.watch(&folder.0, RecursiveMode::NonRecursive).unwrap();
        for _ in 0..3 {
            assert!(hash(&file).is_some());
        }
        timeout(SILENCE, nudges.recv()).await.expect_err("no event");
    }

    #[tokio::test]
    async fn a_folder_that_is_not_there_cannot_be_watched() {
        let error = watch(Path::new("/nonexistent/mcplane.toml")).unwrap_err();
        assert!(error.to_string().starts_with("cannot watch /nonexistent/mcplane.toml: "));
    }
}
