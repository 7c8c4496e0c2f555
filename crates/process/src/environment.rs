//! Which part of our own environment a child gets.

use std::env;
use std::ffi::{OsStr, OsString};

/// The variables of our own environment that every child gets, as far as they are set: who and where
/// the user is, how programs are found, and which language, time zone and folders they use. None of
/// them is a secret. On Windows, what programs need to start at all.
///
/// Everything else is asked for with [`Command::inherit_env`](crate::Command::inherit_env): people
/// put tokens into the environment, and a server must not get those of another.
#[cfg(not(windows))]
pub const INHERITED: &[&str] = &[
    // What the official SDKs give.
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "USER",
    // Without them a program may read and write another character set than its user.
    "LANG",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "TZ",
    // Without them package runners do not find what they have downloaded, and Podman not its socket.
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];

/// The variables of our own environment that every child gets, as far as they are set.
#[cfg(windows)]
pub const INHERITED: &[&str] = &[
    // What the official SDKs give.
    "APPDATA",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "USERNAME",
    "USERPROFILE",
    // npx and its like are batch files, which need their interpreter.
    "COMSPEC",
    "TMP",
    "WINDIR",
];

/// Whether a pattern names a variable: by its whole name, or by how names begin, then `*`.
fn names(pattern: &OsStr, variable: &OsStr) -> bool {
    let (pattern, variable) = (pattern.as_encoded_bytes(), variable.as_encoded_bytes());
    let is_same =
        |a: &[u8], b: &[u8]| if cfg!(windows) { a.eq_ignore_ascii_case(b) } else { a == b };
    match pattern.strip_suffix(b"*") {
        Some(begin) => variable.get(..begin.len()).is_some_and(|head| is_same(head, begin)),
        None => is_same(pattern, variable),
    }
}

/// The variables of our environment that a child gets: those of everybody, and these.
pub(crate) fn inherited(more: &[OsString]) -> impl Iterator<Item = (OsString, OsString)> {
    env::vars_os().filter(move |(variable, _)| {
        let all = INHERITED.iter().map(OsStr::new).chain(more.iter().map(OsString::as_os_str));
        all.into_iter().any(|pattern| names(pattern, variable))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_name_or_how_names_begin() {
        for (pattern, variable, wanted) in [
            ("HOME", "HOME", true),
            ("HOME", "HOMEDRIVE", false),
            ("HOME*", "HOMEDRIVE", true),
            ("HOME*", "HOM", false),
            ("*", "ANY", true),
            ("", "ANY", false),
            ("A*B", "AxB", false),
        ] {
            assert_eq!(names(pattern.as_ref(), variable.as_ref()), wanted, "{pattern} {variable}");
        }
    }
}
