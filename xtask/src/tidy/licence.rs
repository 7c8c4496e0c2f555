//! Licences of what we depend on, as SPDX expressions.

use std::iter::Peekable;
use std::str::SplitWhitespace;

/// What a binary under MIT OR Apache-2.0 may contain without further duties than naming it.
const ALLOWED: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether some choice that the expression offers consists of allowed licences. An expression that
/// cannot be read is refused.
pub fn is_allowed(expression: &str) -> bool {
    // Old manifests write MIT/Apache-2.0.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    any(&mut words) == Some(true) && words.next().is_none()
}

type Words<'a> = Peekable<SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>) -> Option<bool> {
    let mut allowed = all(words)?;
    while words.next_if_eq(&"OR").is_some() {
        allowed |= all(words)?;
    }
    Some(allowed)
}

fn all(words: &mut Words<'_>) -> Option<bool> {
    let mut allowed = one(words)?;
    while words.next_if_eq(&"AND").is_some() {
        allowed &= one(words)?;
    }
    Some(allowed)
}

fn one(words: &mut Words<'_>) -> Option<bool> {
    match words.next()? {
        "(" => {
            let allowed = any(words)?;
            words.next_if_eq(&")").map(|_| allowed)
        }
        ")" | "OR" | "AND" | "WITH" => None,
        name if words.next_if_eq(&"WITH").is_some() => {
            Some(ALLOWED.contains(&format!("{name} WITH {}", words.next()?).as_str()))
        }
        name => Some(ALLOWED.contains(&name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_allowed_choice_is_enough() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        ] {
            assert!(is_allowed(good), "{good}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "Apache-2.0 WITH Other-exception",
            "(MIT",
            "MIT)",
            "MIT OR",
            "MIT Apache-2.0",
            "MIT WITH",
        ] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }
}
