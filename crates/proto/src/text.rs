//! Texts of peers, for people: safe on a terminal and in a log, whatever they say.
//!
//! A server chooses its name, its errors and what it prints, and those end up on the terminal of whoever
//! runs it. An escape sequence there can rewrite what is on the screen, fill the clipboard or answer in
//! the place of the keyboard; a line feed in a log forges the next line; marks of direction show a text
//! in another order than it has.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character does more than to be shown: controls (C0, DEL, C1), separators of lines, and
/// marks of direction.
#[must_use]
pub fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text on one line: what is active is written as Rust writes it, such as `\n` and `\u{1b}`.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// The text on the lines that it has; all else that is active, but tabs, is written as in [`line()`].
#[must_use]
pub fn page(text: &str) -> Cow<'_, str> {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, keeps: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_written = |c: char| is_active(c) && !keeps(c);
    if !text.contains(is_written) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_written(c) {
            // Writing to a string cannot fail.
            let _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_commands_a_terminal_or_forges_a_line() {
        for (text, shown) in [
            ("plain, ü and 👩‍🔬", "plain, ü and 👩‍🔬"),
            ("\u{1b}]52;c;eA==\u{7}", "\\u{1b}]52;c;eA==\\u{7}"),
            ("\u{9b}2J\u{7f}", "\\u{9b}2J\\u{7f}"),
            ("a\r\nmcplane: b\tc", "a\\r\\nmcplane: b\\tc"),
            ("\u{202e}gpj.exe\u{2066}\u{2028}", "\\u{202e}gpj.exe\\u{2066}\\u{2028}"),
        ] {
            assert_eq!(line(text), shown);
        }
        assert!(matches!(line("as it is"), Cow::Borrowed(_)));
        assert_eq!(page("a\n\tb\r\u{1b}c"), "a\n\tb\\r\\u{1b}c");
    }
}
