//! Offers on disk: kept, found again, and never trusted.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use mcplane::proto::types::Implementation;

use super::super::store::{FILE_BYTES_MAX, Loaded, Store};
use super::{Kind, add, offer, resource, template};

/// A folder that is gone after the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("mcplane-store-{}-{count}", std::process::id())))
    }

    fn store(&self) -> Store {
        Store::new(self.0.join("state/catalog"))
    }

    fn files(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.0.join("state/catalog")).unwrap();
        files.map(|file| file.unwrap().path()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn why(loaded: &Loaded) -> &str {
    match loaded {
        Loaded::Ignored(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_kept_is_found_again() {
    let folder = Folder::new();
    let store = folder.store();
    assert!(matches!(store.load("s", "id"), Loaded::Nothing));
    let mut kept = offer(&["a", "b"]);
    add(&mut kept, Kind::Resources, [resource("x:1")]);
    add(&mut kept, Kind::Templates, [template("x:{id}")]);
    kept.info = Some(Implementation::new("impl", "1.2.3"));
    kept.instructions = Some("Be kind.".into());
    kept.seen_ms = 7;
    store.save("s", "id", &kept).unwrap();
    store.save("s", "id", &kept).unwrap();
    store.save("S/../s", "id", &offer(&["other"])).unwrap();

    let Loaded::Offer(found) = store.load("s", "id") else { panic!("it was kept") };
    assert_eq!(format!("{found:?}"), format!("{kept:?}"));
    assert_eq!(folder.files().len(), 2, "one file per server and nothing half-written");
    #[cfg(unix)]
    for file in folder.files() {
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
    store.forget("s").unwrap();
    store.forget("s").unwrap();
    assert!(matches!(store.load("s", "id"), Loaded::Nothing));
    assert!(matches!(store.load("S/../s", "id"), Loaded::Offer(_)));
}

#[test]
fn damaged_and_foreign_files_are_ignored() {
    let folder = Folder::new();
    let store = folder.store();
    store.save("s", "one command", &offer(&["a"])).unwrap();
    assert!(why(&store.load("s", "another command")).contains("has changed"));
    let [file] = &folder.files()[..] else { panic!("one file") };
    let whole = fs::read_to_string(file).unwrap();
    for (text, expected) in [
        (whole[..whole.len() / 2].to_owned(), "damaged"),
        (String::new(), "damaged"),
        ("[1]".to_owned(), "damaged"),
        (whole.replace("\"format\":1", "\"format\":2"), "format is 2"),
        (whole.replace("\"server\":\"s\"", "\"server\":\"t\""), "another server"),
        (whole.replace("2025-11-25", "2031-01-01"), "revision is unknown"),
        (whole.replace("\"tools\":[", "\"tolls\":["), "`tools` is missing"),
    ] {
        fs::write(file, &text).unwrap();
        let loaded = store.load("s", "one command");
        let why = why(&loaded);
        assert!(why.contains(expected) && why.contains(&*file.to_string_lossy()), "{why}");
    }
    fs::File::create(file).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
    assert!(why(&store.load("s", "one command")).contains("more than"));
    fs::remove_file(file).unwrap();
    fs::create_dir(file).unwrap();
    assert!(why(&store.load("s", "one command")).contains("ignoring"));
    assert!(store.save("s", "one command", &offer(&["a"])).is_err());
    assert_eq!(folder.files().len(), 1, "a write that failed leaves nothing");
}

#[test]
fn what_was_left_half_written_goes_in_time() {
    let folder = Folder::new();
    let store = folder.store();
    store.save("s", "id", &offer(&["a"])).unwrap();
    let [file] = &folder.files()[..] else { panic!("one file") };
    let (old, fresh) = (file.with_extension("1-0.tmp"), file.with_extension("2-0.tmp"));
    fs::write(&fresh, "").unwrap();
    let left = fs::File::create(&old).unwrap();
    left.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(7200)).unwrap();
    assert!(matches!(store.load("s", "id"), Loaded::Offer(_)));
    assert!(!old.exists() && fresh.exists() && file.exists());
}
