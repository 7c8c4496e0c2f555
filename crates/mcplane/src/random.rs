//! Names that cannot be guessed: of sessions, of questions, of calls that wait.

use crate::error::{Error, Result};

/// 128 bits of the operating system's randomness as 32 hexadecimal digits.
///
/// # Errors
/// The operating system provides no randomness.
pub fn name() -> Result<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random)
        .map_err(|error| Error::misuse(format!("no randomness for a name: {error}")))?;
    Ok(format!("{:032x}", u128::from_be_bytes(random)))
}
