//! A spec in a file of TOML: a scenario.

use std::fs;
use std::path::Path;

use super::{Places, Spec};

/// Largest scenario file, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Reads a file; paths in it are relative to its folder. The places are for complaints about fields.
///
/// # Errors
/// A text that names file, line, column and key, and says what is wrong there.
pub fn read(path: &Path) -> Result<(Spec, Places), String> {
    let cannot = |what: String| format!("cannot read {}: {what}", path.display());
    let bytes = fs::metadata(path).map_err(|error| cannot(error.to_string()))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(cannot(format!("{bytes} bytes; at most {FILE_BYTES_MAX}")));
    }
    let text = fs::read_to_string(path).map_err(|error| cannot(error.to_string()))?;
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    parse(&path.display().to_string(), text, folder)
}

pub(crate) fn parse(file: &str, text: String, folder: &Path) -> Result<(Spec, Places), String> {
    let places = Places::new(file, text);
    let spec = Spec { folder: folder.to_owned(), ..places.read()? };
    Ok((spec, places))
}
