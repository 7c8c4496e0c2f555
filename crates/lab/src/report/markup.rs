//! Text inside HTML, SVG and XML. What a server says may be anything, so nothing is written past this.

use std::fmt::{self, Write};

/// Text without markup, which any XML reader accepts.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(&'a str);

/// `text` as it may stand between tags and in quoted attributes.
#[must_use]
pub const fn e(text: &str) -> Escaped<'_> {
    Escaped(text)
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.chars() {
            match char {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(char)?,
                char if is_unfit(char) => f.write_char(char::REPLACEMENT_CHARACTER)?,
                char => f.write_char(char)?,
            }
        }
        Ok(())
    }
}

/// Whether XML 1.0 forbids it, or it would turn the text around it.
pub(super) fn is_unfit(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{fffe}' | '\u{ffff}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::short;

    #[test]
    fn nothing_stays_markup() {
        let hostile = "<script>alert('1')</script>\"&\u{0}\u{202e}\u{ffff}\r\n";
        let safe = "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;&amp;\u{fffd}\u{fffd}\u{fffd}\u{fffd}\n";
        assert_eq!(e(hostile).to_string(), safe);
        assert_eq!(short("a\nb c", 4), "a b…");
    }
}
