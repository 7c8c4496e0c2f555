//! Names that cannot be guessed: of sessions, of questions, of calls that wait.

use std::io;

use crate::error::{Error, Result};

/// 128 bits of the operating system's randomness as 32 hexadecimal digits.
pub(crate) fn name() -> Result<String> {
    let mut bytes = [0; 16];
    fill(&mut bytes, "a name")?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// Fills `bytes` with the operating system's randomness, which is for `what`.
///
/// # Errors
/// [`Error::is_io`]: the operating system provides none.
pub(crate) fn fill(bytes: &mut [u8], what: &str) -> Result<()> {
    getrandom::fill(bytes).map_err(|error| none(what, error))
}

fn none(what: &str, error: getrandom::Error) -> Error {
    Error::system(format!("no randomness for {what}"), io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use mcplane_proto::error::Fault;

    use super::*;

    #[test]
    fn the_system_is_to_blame_where_it_has_no_randomness() {
        let error = none("a name", getrandom::Error::UNSUPPORTED);
        assert!(error.is_io() && !error.is_misuse(), "{error:?}");
        assert_eq!(error.fault(), Fault::Us);
        assert!(error.to_string().contains("no randomness for a name"), "{error}");
    }

    #[test]
    fn no_two_names_are_the_same() {
        let (one, other) = (name().unwrap(), name().unwrap());
        assert!(one.len() == 32 && one != other, "{one} {other}");
    }
}
