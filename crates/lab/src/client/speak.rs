//! Which handshake is asked for.

use std::fmt;
use std::str::FromStr;

use mcplane_proto::{Era, Revision};

/// Which handshake to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "plain data that the caller fills in")]
pub enum Speak {
    /// Probe with `server/discover`, fall back to `initialize`.
    #[default]
    Auto,
    /// This era only.
    Era(Era),
    /// This revision only.
    Revision(Revision),
}

impl FromStr for Speak {
    type Err = String;

    /// `auto`, `legacy`, `modern`, or the name of a revision.
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "auto" => Self::Auto,
            "legacy" => Self::Era(Era::Legacy),
            "modern" => Self::Era(Era::Modern),
            name => Self::Revision(Revision::parse(name).ok_or_else(|| {
                let names = Revision::ALL.map(Revision::as_str).join(", ");
                format!("auto, legacy, modern, or one of {names}")
            })?),
        })
    }
}

impl fmt::Display for Speak {
    /// The word that [`Speak::from_str`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Era(era) => era.fmt(f),
            Self::Revision(revision) => revision.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_have_names() {
        assert_eq!("auto".parse(), Ok(Speak::Auto));
        assert_eq!("legacy".parse(), Ok(Speak::Era(Era::Legacy)));
        assert_eq!("2025-06-18".parse(), Ok(Speak::Revision(Revision::V2025_06_18)));
        for name in ["auto", "legacy", "modern", "2025-06-18"] {
            assert_eq!(name.parse::<Speak>().unwrap().to_string(), name);
        }
        assert!("2025-06-19".parse::<Speak>().unwrap_err().contains("2025-06-18"));
    }
}
