//! What is read whole: a file, or standard input.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use mcplane_lab::results;

/// Most bytes of a result: those of thousands of runs are smaller.
pub const RESULT_BYTES_MAX: u64 = 64 << 20;

/// The text of a file, which may be compressed with gzip; `-` is standard input.
///
/// # Errors
/// When it cannot be read, is not UTF-8, or is longer than `bytes_max`.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<String> {
    let source: &mut dyn Read =
        if path == Path::new("-") { &mut io::stdin() } else { &mut fs::File::open(path)? };
    results::text(source, bytes_max)
}

/// The results of a file, each with a name: of a campaign all of them, or those that are named behind
/// a `#`.
///
/// # Errors
/// As those of [`read`], and when a campaign has none that is named so.
pub fn results(path: &Path) -> io::Result<Vec<(String, String)>> {
    let shown = path.display().to_string();
    let (file, wanted) = match shown.rsplit_once('#') {
        Some((file, wanted)) if !path.exists() => (file, Some(wanted)),
        _ => (shown.as_str(), None),
    };
    let text = read(Path::new(file), RESULT_BYTES_MAX)?;
    let (wanted, all) = match (wanted, results::campaign(&text)) {
        (None, None) => return Ok(vec![(shown, text)]),
        (Some(_), None) => {
            let why = format!("{file} is not a campaign: it holds one result, without a name");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        (wanted, Some(all)) => (wanted.unwrap_or("*"), all),
    };
    let is_wanted = |name: &str| match wanted.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == wanted,
    };
    let first = all.first().map(|(name, _)| name.clone()).unwrap_or_default();
    let found: Vec<_> = all
        .into_iter()
        .filter(|(name, _)| is_wanted(name))
        .map(|(name, text)| (format!("{file}#{name}"), text))
        .collect();
    if found.is_empty() {
        let why = format!("{file} has no result {wanted:?}; its first is {first:?}");
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    Ok(found)
}

/// The one result of a file.
///
/// # Errors
/// As those of [`results`], and when there are several.
pub fn result(path: &Path) -> io::Result<String> {
    let mut all = results(path)?;
    match (all.pop(), all.first()) {
        (Some((_, text)), None) => Ok(text),
        (Some(_), Some((first, _))) => {
            let why = format!("it holds {} results: name one, as {first}", all.len() + 1);
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        }
        (None, _) => Err(io::ErrorKind::NotFound.into()),
    }
}
