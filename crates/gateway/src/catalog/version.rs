//! Comparing versions: semantic versioning where servers keep to it, and the nearest reading where
//! they do not (`v1.2`, `1.0rc1`, `2025.11.25`).

use std::cmp::Ordering;

/// Longest version that is read, in bytes.
const VERSION_BYTES_MAX: usize = 256;

/// A version. Ordered as semver §11 says; missing numbers are zeros; build metadata counts for
/// nothing, so two versions can be equal that are not spelled alike.
#[derive(Clone, Debug)]
pub struct Version {
    /// Major, minor, patch, and any more.
    numbers: Vec<u64>,
    /// What comes before the release; empty for a release.
    pre: Vec<Identifier>,
}

/// Numbers come before words (semver §11.4.3).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(Box<str>),
}

impl Version {
    /// Reads a version; `None` for what does not begin with a number.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.len() > VERSION_BYTES_MAX {
            return None;
        }
        let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
        let text = text.split_once('+').map_or(text, |(version, _build)| version);
        let (release, pre) = match text.split_once('-') {
            Some((_, "")) => return None,
            Some((release, pre)) => (release, Some(pre)),
            None => (text, None),
        };
        let mut numbers = Vec::new();
        let mut rest = release;
        // Behind the numbers there may be a word at once, as in `1.0rc1` and `1.0.dev3`.
        while let Some(digits) = rest.find(|c: char| !c.is_ascii_digit()).or(Some(rest.len())) {
            let (number, tail) = rest.split_at_checked(digits)?;
            if number.is_empty() {
                break;
            }
            numbers.push(number.parse().ok()?);
            match tail.strip_prefix('.') {
                Some("") => return None,
                Some(tail) => rest = tail,
                None => {
                    rest = tail;
                    break;
                }
            }
        }
        if numbers.is_empty() {
            return None;
        }
        let mut before = glued(rest)?;
        if let Some(pre) = pre {
            before.extend(pre.split('.').map(identifier).collect::<Option<Vec<_>>>()?);
        }
        Some(Self { numbers, pre: before })
    }

    /// The first number.
    #[must_use]
    pub fn major(&self) -> u64 {
        self.numbers.first().copied().unwrap_or_default()
    }
}

/// A pre-release without a hyphen: `rc1` is `rc`, `1`. `post` releases come after; as builds do,
/// they count for nothing.
fn glued(text: &str) -> Option<Vec<Identifier>> {
    if text.is_empty() || text.starts_with("post") {
        return Some(Vec::new());
    }
    let mut identifiers = Vec::new();
    for part in text.split('.') {
        let digits = part.find(|c: char| c.is_ascii_digit()).unwrap_or(part.len());
        let (word, number) = part.split_at_checked(digits)?;
        for piece in [word, number].into_iter().filter(|piece| !piece.is_empty()) {
            identifiers.push(identifier(piece)?);
        }
    }
    Some(identifiers)
}

fn identifier(text: &str) -> Option<Identifier> {
    let valid = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    if text.is_empty() || !text.bytes().all(valid) {
        return None;
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok().map(Identifier::Number);
    }
    Some(Identifier::Word(text.into()))
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let number = |version: &Self, at| version.numbers.get(at).copied().unwrap_or_default();
        let places = self.numbers.len().max(other.numbers.len());
        (0..places)
            .map(|at| number(self, at).cmp(&number(other, at)))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| match (self.pre.is_empty(), other.pre.is_empty()) {
                // A release comes after everything that came before it.
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                _ => self.pre.cmp(&other.pre),
            })
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap_or_else(|| panic!("{text} is a version"))
    }

    #[test]
    fn versions_are_ordered() {
        let ascending = [
            "0.9.12",
            "1.0.0.dev3",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "1.9",
            "1.10",
            "1.10.0.1",
            "2rc2",
            "2rc10",
            "v2",
            "2025.11.25",
        ];
        // `dev` is a word and `alpha` comes before it: only releases are compared across spellings.
        for pair in ascending.windows(2).filter(|pair| pair[1] != "1.0.0-alpha") {
            assert!(version(pair[0]) < version(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn spellings_of_one_version_are_equal() {
        for (one, other) in [
            ("1", "1.0.0"),
            ("v1.2", "1.2.0"),
            ("1.2.3+build.5", "1.2.3"),
            ("1.0.post1", "1.0"),
            (" 1.2 ", "1.2"),
            ("1.0rc1", "1.0-rc.1"),
        ] {
            assert_eq!(version(one), version(other));
        }
        assert_eq!(version("v3.1").major(), 3);
    }

    #[test]
    fn what_is_no_version_is_none() {
        for text in
            ["", "latest", "v", "1.", "1.2-", "1.2-a..b", "1.2-ä", "-1", "99999999999999999999"]
        {
            assert!(Version::parse(text).is_none(), "{text}");
        }
    }
}
