//! Folders that nobody else can write to: what lies in them is believed, and written over.

use std::fs;
use std::io;
use std::path::Path;

/// Makes a folder, and sees to it that nobody else can write to it.
///
/// # Errors
/// As [`check`], or the disk refuses.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    let mut folder = fs::DirBuilder::new();
    folder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    folder.create(path)?;
    check(path)
}

/// Sees to it that nobody else can write to a folder, or put another one in its place: others lose
/// that right where the folder is ours.
///
/// # Errors
/// It is a link, or belongs to somebody else, or lies where others may take it away.
#[cfg(unix)]
pub(crate) fn check(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    /// The right to write, of the group and of all others.
    const OTHERS: u32 = 0o022;
    /// Everybody may make something here, and take away only what is theirs.
    const STICKY: u32 = 0o1000;

    let refuse = |path: &Path, why: &str| {
        let what =
            format!("{} {why}; set gateway.state_dir to a folder of your own", path.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
    };
    let us = rustix::process::geteuid().as_raw();
    let tighten = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777 & !OTHERS))
    };
    let folder = fs::symlink_metadata(path)?;
    if folder.is_symlink() {
        return refuse(path, "is a symbolic link");
    }
    if folder.uid() != us {
        return refuse(path, "belongs to another user");
    }
    if folder.mode() & OTHERS != 0 {
        tighten(path, folder.mode())?;
    }
    let Some(parent) = path.canonicalize()?.parent().map(Path::to_owned) else { return Ok(()) };
    let above = fs::metadata(&parent)?;
    match above.uid() {
        uid if uid == us && above.mode() & OTHERS != 0 && above.mode() & STICKY == 0 => {
            tighten(&parent, above.mode())
        }
        uid if uid == us => Ok(()),
        // The system's own.
        0 if above.mode() & OTHERS == 0 || above.mode() & STICKY != 0 => Ok(()),
        _ => refuse(&parent, "can be written to by others"),
    }
}

/// Folders of a user are private to begin with.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub(crate) fn check(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_closed_and_a_link_refused() {
        let base = std::env::temp_dir().join(format!("mcplane-private-{}", std::process::id()));
        let folder = base.join("state/lists");
        make(&folder).unwrap();
        assert_eq!((mode(&folder), mode(folder.parent().unwrap())), (0o700, 0o700));
        for path in [&folder, folder.parent().unwrap()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        }
        make(&folder).unwrap();
        assert_eq!((mode(&folder), mode(folder.parent().unwrap())), (0o755, 0o755));

        let link = base.join("state/link");
        symlink(&base, &link).unwrap();
        assert!(make(&link).unwrap_err().to_string().contains("symbolic link"));
        // Its owner is root, unless that is who we are.
        let foreign = check(Path::new("/usr")).is_err();
        assert_eq!(foreign, !rustix::process::geteuid().is_root());
        fs::remove_dir_all(base).unwrap();
    }
}
