//! Widths, wrapping, colours, and text that is safe to print.

use std::io::{IsTerminal, stdout};

use mcplane::proto::text::{is_active, page};

/// Widest line of a page, in columns.
pub(super) const WIDTH: usize = 100;

/// Whether what is printed goes to a terminal that shows colours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    terminal: bool,
    colours: bool,
}

impl Style {
    pub(super) fn of_stdout() -> Self {
        let terminal = stdout().is_terminal();
        let set = |name| {
            std::env::var_os(name).is_some_and(|value: std::ffi::OsString| !value.is_empty())
        };
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { terminal, colours: terminal && !dumb && !set("NO_COLOR") }
    }

    #[cfg(test)]
    pub(super) const PLAIN: Self = Self { terminal: false, colours: false };

    pub(super) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(super) fn name(self, text: &str) -> String {
        self.paint("36", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colours && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    /// A server's text as it is; on a terminal without what would command it.
    pub(super) fn verbatim(self, text: &str) -> String {
        if self.terminal { page(text).into_owned() } else { text.to_owned() }
    }
}

/// A server's text on one line: nothing that commands a terminal, one space between words.
pub(super) fn line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || is_active(c));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The first `chars` characters of a line.
pub(super) fn shortened(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default().trim_end()),
        None => text.to_owned(),
    }
}

/// Breaks a line into lines of at most `width` columns; a longer word is broken too.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(10);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let mut letters: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + letters.len() > width {
            lines.push(String::new());
            used = 0;
        }
        while letters.len() > width {
            let rest = letters.split_off(width);
            lines.last_mut().into_iter().for_each(|last| last.extend(letters.iter()));
            lines.push(String::new());
            letters = rest;
        }
        let Some(last) = lines.last_mut() else { break };
        if used > 0 {
            last.push(' ');
            used += 1;
        }
        used += letters.len();
        last.extend(letters);
    }
    lines
}

/// Appends `text` at this indent, wrapped.
pub(super) fn paragraph(out: &mut String, indent: usize, text: &str) {
    for line in wrap(text, WIDTH - indent) {
        out.push_str(&" ".repeat(indent));
        out.push_str(&line);
        out.push('\n');
    }
}

/// Text in a column that is `width` wide.
pub(super) fn padded(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.chars().count());
    format!("{text}{}", " ".repeat(missing))
}

/// A number of bytes for people.
pub(super) fn size(bytes: u64) -> String {
    let exact = bytes as f64;
    match bytes {
        0..=1023 => format!("{bytes} B"),
        1024..=1_048_575 => format!("{:.1} KiB", exact / 1024.0),
        _ => format!("{:.1} MiB", exact / 1_048_576.0),
    }
}

/// How many bytes a base64 text stands for.
pub(super) fn decoded_len(base64: &str) -> u64 {
    let text = base64.trim_end_matches('=');
    text.len() as u64 * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wrap_at_words_and_long_words_break() {
        assert_eq!(wrap("one two three four", 10), ["one two", "three four"]);
        assert_eq!(wrap("abcdefghijklmno pq", 10), ["abcdefghij", "klmno pq"]);
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap("é é é é é é", 10), ["é é é é é", "é"]);
    }

    #[test]
    fn nothing_commands_the_terminal() {
        assert_eq!(line("a\u{1b}[31mb\n\n  c\u{7}d\u{202e}e"), "a [31mb c d e");
        let terminal = Style { terminal: true, colours: false };
        assert_eq!(terminal.verbatim("a\u{1b}]0;x\u{7}\n\tb"), "a\\u{1b}]0;x\\u{7}\n\tb");
        assert_eq!(Style::PLAIN.verbatim("a\u{1b}b"), "a\u{1b}b");
    }

    #[test]
    fn sizes_are_for_people() {
        assert_eq!([size(0), size(2048), size(5_242_880)], ["0 B", "2.0 KiB", "5.0 MiB"]);
        assert_eq!([decoded_len("aGk="), decoded_len("aGVsbG8="), decoded_len("")], [2, 5, 0]);
    }
}
