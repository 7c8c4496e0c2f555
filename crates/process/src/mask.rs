//! Which parts of a command line may be shown: people put keys into arguments, and messages go to
//! logs.
//!
//! It knows secrets by their place (behind `--token`, in `API_KEY=…`, in a header, in a URL) and by
//! their looks, and hides too much rather than too little. Everything else is shown.

use std::borrow::Cow;

/// What stands for what is not shown.
const HIDDEN: &str = "…";

/// Parts of names, without `-` and `_`, whose values are secret.
const NAMES: [&str; 12] = [
    "accesskey",
    "apikey",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "dsn",
    "passphrase",
    "passw",
    "privatekey",
    "secret",
    "token",
];

/// What stands before the secret in an `Authorization` header.
const SCHEMES: [&str; 3] = ["bearer", "basic", "token"];

/// How well-known kinds of keys begin.
const KEYS: [&str; 10] =
    ["AKIA", "eyJ", "ghp_", "gho_", "ghs_", "ghu_", "github_pat_", "glpat-", "sk-", "xox"];

/// Fewest characters of a key of a well-known kind, and of a part of a URL's path that is one.
const KEY_CHARS_MIN: usize = 20;

/// The words of a command line, with `…` in place of what is, or looks, secret.
#[must_use]
pub fn mask_words<'a>(words: impl IntoIterator<Item = Cow<'a, str>>) -> Vec<String> {
    let mut before = Before::Nothing;
    words.into_iter().map(|word| one(&word, &mut before)).collect()
}

/// A text with `…` in place of what is secret in its URLs: the user, the query, and parts of the
/// path that look like keys.
#[must_use]
pub fn mask_urls(text: &str) -> String {
    text.split_inclusive(char::is_whitespace)
        .map(|word| url(word).unwrap_or_else(|| word.into()))
        .collect()
}

/// What the word before says of a word.
#[derive(Clone, Copy)]
enum Before {
    Nothing,
    /// It is a secret.
    Name,
    /// It is a header.
    Header,
}

fn one(word: &str, before: &mut Before) -> String {
    let said = std::mem::replace(before, Before::Nothing);
    match said {
        // `--` begins the next option, which a switch without a value leaves alone.
        Before::Name if !word.starts_with("--") => HIDDEN.to_owned(),
        Before::Header => header(word),
        _ if word.split_once(':').is_some_and(|(name, _)| is_secret_word(name)) => header(word),
        // A script, or an argument of several words.
        _ if word.contains(char::is_whitespace) => {
            word.split_inclusive(char::is_whitespace).map(|part| piece(part, before)).collect()
        }
        Before::Name | Before::Nothing => plain(word, before),
    }
}

/// A word of a script with the space behind it.
fn piece(part: &str, before: &mut Before) -> String {
    let word = part.trim_end();
    let shown = match std::mem::replace(before, Before::Nothing) {
        Before::Nothing => plain(word, before),
        Before::Header if word.ends_with(':') => {
            *before = Before::Name;
            word.to_owned()
        }
        still if word.is_empty() => {
            *before = still;
            String::new()
        }
        still => {
            if SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme)) {
                *before = still;
            }
            HIDDEN.to_owned()
        }
    };
    shown + part.get(word.len()..).unwrap_or_default()
}

fn plain(word: &str, before: &mut Before) -> String {
    let bare = word.trim_start_matches(['"', '\'']);
    if bare.starts_with('{') {
        return "{…}".to_owned();
    }
    if let Some((name, value)) = word.split_once('=').filter(|(name, _)| !name.contains("://"))
        && (is_secret(name) || is_key(value))
    {
        return format!("{name}={HIDDEN}");
    }
    if let Some(masked) = url(word) {
        return masked;
    }
    if let Some((name, value)) = word.split_once(':').filter(|(name, _)| is_secret_word(name)) {
        if value.is_empty() {
            *before = Before::Name;
        }
        return format!("{name}:{}", if value.is_empty() { "" } else { HIDDEN });
    }
    if is_key(bare) {
        return HIDDEN.to_owned();
    }
    if matches!(word, "-H" | "--header" | "--headers") {
        *before = Before::Header;
    } else if word.starts_with('-') && is_secret(word) {
        *before = Before::Name;
    }
    word.to_owned()
}

/// `Name: value` without the value.
fn header(word: &str) -> String {
    match word.split_once([':', '=']) {
        Some((name, _)) => format!("{name}: {HIDDEN}"),
        None => HIDDEN.to_owned(),
    }
}

fn is_secret(name: &str) -> bool {
    let letters = name.chars().filter(|c| c.is_alphanumeric());
    let name: String = letters.map(|c| c.to_ascii_lowercase()).collect();
    name.ends_with("key") || NAMES.iter().any(|part| name.contains(part))
}

/// Whether this is a name, quoted or not, and that of a secret.
fn is_secret_word(name: &str) -> bool {
    !name.contains(char::is_whitespace) && is_secret(name)
}

fn is_key(word: &str) -> bool {
    word.chars().count() >= KEY_CHARS_MIN && KEYS.iter().any(|key| word.starts_with(key))
}

/// A word with a URL in it, with the URL's secrets left out; `None` if there is none.
fn url(word: &str) -> Option<String> {
    let (scheme, rest) = word.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let user = if host.len() < authority.len() { "…@" } else { "" };
    let (path, query) = path.split_at(path.find(['?', '#']).unwrap_or(path.len()));
    let looks_secret = |part: &&str| part.chars().count() >= KEY_CHARS_MIN && is_random(part);
    let parts = path.split('/').map(|part| if looks_secret(&part) { HIDDEN } else { part });
    let path = parts.collect::<Vec<_>>().join("/");
    // What ends a sentence, or a line, is no part of the query.
    let behind = query.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '?' && c != '#');
    let tail = query.get(behind.len()..).unwrap_or_default();
    let query = match behind.chars().next() {
        Some(mark) if behind.len() > 1 => format!("{mark}{HIDDEN}"),
        _ => behind.to_owned(),
    };
    Some(format!("{scheme}://{user}{host}{path}{query}{tail}"))
}

/// Letters and digits, as in keys, rather than words.
fn is_random(part: &str) -> bool {
    part.contains(|c: char| c.is_ascii_digit()) && part.contains(|c: char| c.is_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_their_places_and_looks() {
        for (line, shown) in [
            ("npx -y pkg /srv/a --port 8", "npx -y pkg /srv/a --port 8"),
            ("x --token hunter2 -v", "x --token … -v"),
            ("x --api-key=hunter2", "x --api-key=…"),
            ("x --no-token --verbose", "x --no-token --verbose"),
            (
                "docker run -e GIT_TOKEN=hunter2 -e TZ=UTC i",
                "docker run -e GIT_TOKEN=… -e TZ=UTC i",
            ),
            ("x sk-ant-0123456789abcdefgh", "x …"),
            ("x --config {\"k\":\"hunter2\"}", "x --config {…}"),
            ("x postgres://me:hunter2@db:5/a", "x postgres://…@db:5/a"),
            ("x https://a/mcp?k=hunter2 http://b/c", "x https://a/mcp?… http://b/c"),
            ("x https://a/s/0123456789abcdef0123/mcp", "x https://a/s/…/mcp"),
            ("x --header Authorization:hunter2", "x --header Authorization: …"),
            ("x --ssh-key hunter2", "x --ssh-key …"),
        ] {
            let given = line.split(' ').map(Cow::Borrowed);
            assert_eq!(mask_words(given).join(" "), shown, "{line}");
        }
    }

    #[test]
    fn an_argument_of_several_words_is_taken_apart() {
        let of = |word: &'static str| mask_words([Cow::Borrowed(word)]).swap_remove(0);
        assert_eq!(of("export TOKEN=hunter2; exec srv"), "export TOKEN=… exec srv");
        assert_eq!(of("srv --password hunter2\n"), "srv --password …\n");
        assert_eq!(of("Authorization: Bearer hunter2"), "Authorization: …");
        assert_eq!(
            of("exec curl -H \"Authorization: Bearer hunter2\" h"),
            "exec curl -H \"Authorization: … … h"
        );
    }

    #[test]
    fn a_text_loses_what_is_secret_in_its_urls() {
        let text = "cannot reach http://u:p@h:1/mcp?key=s: refused\n(https://h/a) http://h/?";
        let shown = "cannot reach http://…@h:1/mcp?…: refused\n(https://h/a) http://h/?";
        assert_eq!(mask_urls(text), shown);
    }
}
