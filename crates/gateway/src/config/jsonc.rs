//! JSON with comments and trailing commas, as desktop clients take it, made plain JSON.

/// The text with spaces in the place of comments and trailing commas, so that lines and columns
/// stay what they are. What is not JSON stays invalid.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.strip_prefix('\u{feff}').unwrap_or(text).chars().peekable();
    // Where the last comma is, as long as nothing but space came behind it.
    let mut comma = None;
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('"', _) => {
                comma = None;
                out.push(c);
                while let Some(c) = chars.next() {
                    out.push(c);
                    match c {
                        '\\' => out.extend(chars.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            ('/', Some('/')) => {
                out.push(' ');
                while let Some(c) = chars.next_if(|&c| c != '\n') {
                    blank(&mut out, c);
                }
            }
            ('/', Some('*')) => {
                out.push(' ');
                let mut last = ' ';
                // The star that opens is not the one that closes.
                chars.next().into_iter().for_each(|star| blank(&mut out, star));
                for c in chars.by_ref() {
                    blank(&mut out, c);
                    if (last, c) == ('*', '/') {
                        break;
                    }
                    last = c;
                }
            }
            (',', _) => {
                comma = Some(out.len());
                out.push(c);
            }
            ('}' | ']', _) => {
                if let Some(at) = comma.take() {
                    out.replace_range(at..=at, " ");
                }
                out.push(c);
            }
            _ => {
                if !c.is_whitespace() {
                    comma = None;
                }
                out.push(c);
            }
        }
    }
    out
}

fn blank(out: &mut String, c: char) {
    out.push(if c == '\n' || c == '\r' { c } else { ' ' });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_go_and_places_stay() {
        for (text, json) in [
            ("{\"a\": 1, // b\n}", Some(r#"{"a":1}"#)),
            ("[1, /* , */ 2 , /* x\ny */ ]", Some("[1,2]")),
            (r#"{"a": "//b/*c*/,]", "b\"//": 2}"#, Some(r#"{"a":"//b/*c*/,]","b\"//":2}"#)),
            ("/*/ 1 */ 2 /**/", Some("2")),
            ("{\"a\": [1,],} // end", Some(r#"{"a":[1]}"#)),
            ("[1,,]", None),
            ("/", None),
            ("/* open", None),
            ("\"open", None),
        ] {
            let plain = plain(text);
            let ends = |text: &str| text.chars().map(|c| c == '\n').collect::<Vec<_>>();
            assert_eq!(ends(&plain), ends(text), "{text}");
            let value = serde_json::from_str::<serde_json::Value>(&plain).ok();
            assert_eq!(value.map(|value| value.to_string()).as_deref(), json, "{text}");
        }
        assert_eq!(plain("\u{feff}[]"), "[]");
    }
}
