//! URI templates: what a template expands to fits it, what fits begins as it does, and no pair of a
//! template and a URI takes long.

use mcplane::proto::uri_template::{PIECES_MAX, URI_BYTES_MAX, UriTemplate};

/// Any bytes: a template, and a URI on the next line.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (text, uri) = text.split_once('\n').unwrap_or((text, ""));
    let template = UriTemplate::parse(text);
    assert_eq!(template.text(), text);
    let plain = text.split(['{', '}']).next().unwrap_or_default();
    if template.fits(uri) {
        assert!(uri.starts_with(plain) && uri.len() <= URI_BYTES_MAX, "{text} and {uri}");
        assert!(!text.is_empty() || uri.is_empty());
    }
    if let Some(variables) = template.variables(uri) {
        assert!(template.fits(uri) && template.check().is_ok(), "{text} and {uri}");
        assert!(variables.iter().all(|(_, value)| !value.is_empty()), "{text} and {uri}");
    }
    if plain == text {
        assert_eq!(template.fits(uri), uri == text && uri.len() <= URI_BYTES_MAX);
        assert_eq!(template.fixes_scheme(), text.contains(':'));
    }
    if let Some((expanded, pieces)) = expanded(text) {
        let fits = pieces <= PIECES_MAX && expanded.len() <= URI_BYTES_MAX;
        assert_eq!(template.fits(&expanded), fits, "{text} expands to {expanded}");
    }
}

/// RFC 6570 §3.2, each variable being `v`; and the number of literals and expressions. `None` for
/// what is against the grammar.
fn expanded(text: &str) -> Option<(String, usize)> {
    let (mut out, mut pieces, mut rest) = (String::new(), 0, text);
    while let Some((literal, tail)) = rest.split_once('{') {
        let (expression, tail) = tail.split_once('}')?;
        if literal.contains('}') {
            return None;
        }
        out.push_str(literal);
        pieces += usize::from(!literal.is_empty()) + 1;
        expand(expression, &mut out)?;
        rest = tail;
    }
    out.push_str(rest);
    (!rest.contains('}')).then_some((out, pieces + usize::from(!rest.is_empty())))
}

fn expand(expression: &str, out: &mut String) -> Option<()> {
    let operator = expression.chars().next().filter(|c| "+#./;?&".contains(*c));
    let variables = &expression[operator.map_or(0, char::len_utf8)..];
    // What is before the first value, between two, and whether values have names.
    let (first, between, named) = match operator {
        None | Some('+') => ("", ",", false),
        Some('#') => ("#", ",", false),
        Some('.') => (".", ".", false),
        Some('/') => ("/", "/", false),
        Some(';') => (";", ";", true),
        Some('?') => ("?", "&", true),
        Some(_) => ("&", "&", true),
    };
    for (number, variable) in variables.split(',').enumerate() {
        let name = variable.strip_suffix('*').unwrap_or(variable);
        let (name, length) = name.split_once(':').unwrap_or((name, "1"));
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_.%-".contains(c);
        let is_length = length.chars().all(|c| c.is_ascii_digit()) && !length.starts_with('0');
        if name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        if !is_length || !(1..=4).contains(&length.len()) {
            return None;
        }
        out.push_str(if number == 0 { first } else { between });
        if named {
            out.push_str(name);
            out.push('=');
        }
        out.push('v');
    }
    Some(())
}
