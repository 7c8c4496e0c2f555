//! What is read whole: a file, or standard input.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Most bytes of a result: those of thousands of runs are smaller.
pub const RESULT_BYTES_MAX: u64 = 64 << 20;

/// The text of a file; `-` is standard input.
///
/// # Errors
/// When it cannot be read, is no UTF-8, or is longer than `bytes_max`.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    let source: &mut dyn Read =
        if path == Path::new("-") { &mut io::stdin() } else { &mut fs::File::open(path)? };
    source.take(bytes_max + 1).read_to_string(&mut text)?;
    if text.len() as u64 > bytes_max {
        let why = format!("it is longer than {} MiB", bytes_max >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(text)
}
