//! Whether a URI fits a URI template (RFC 6570), and what its variables are: which server, and which
//! handler, reads a resource.
//!
//! All operators of levels 1 to 3, several variables in one expression, and the modifiers of level
//! 4 as far as matching needs them; values only of `{name}` and
//! `{+name}`. Time is linear in the URI for each piece of the template, and both are bounded, so that
//! no pair of them is slow.

/// Longest URI that is held against templates, in bytes.
pub const URI_BYTES_MAX: usize = 8 << 10;
/// Most pieces of a template; nothing fits one with more.
pub const PIECES_MAX: usize = 32;

/// A URI template, cut into pieces.
#[derive(Clone, Debug)]
pub struct UriTemplate {
    text: Box<str>,
    /// `None` for a template against the grammar: nothing fits it.
    pieces: Option<Vec<Piece>>,
}

#[derive(Clone, Debug)]
enum Piece {
    Literal(Box<str>),
    /// An expression without an operator: one or more characters up to the next `/`.
    Simple(Box<str>),
    /// `{+x}`: one or more characters.
    Reserved(Box<str>),
    /// An expression that begins with this character, or is not there; `deep` ones have `/`.
    Optional {
        begins: u8,
        deep: bool,
    },
}

impl UriTemplate {
    /// Cuts a template. One against the grammar is kept, and nothing fits it.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self { text: text.into(), pieces: pieces(text) }
    }

    /// The template as it came.
    #[must_use]
    pub const fn text(&self) -> &str {
        &self.text
    }

    /// Whether it says which scheme its URIs have. Any URI may fit one that does not.
    #[must_use]
    pub fn fixes_scheme(&self) -> bool {
        let first = self.pieces.as_ref().and_then(|pieces| pieces.first());
        matches!(first, Some(Piece::Literal(text)) if text.contains(':'))
    }

    /// What it costs to hold a URI against it, in bytes that are looked at.
    #[must_use]
    pub fn cost(&self, uri: &str) -> usize {
        match self.pieces.as_deref() {
            Some([Piece::Literal(first), ..]) if !uri.starts_with(&**first) => first.len(),
            Some(pieces) => uri.len().saturating_mul(pieces.len()),
            None => 1,
        }
    }

    /// Whether the whole of `uri` can be an expansion of this template.
    #[must_use]
    pub fn fits(&self, uri: &str) -> bool {
        self.layers(uri).is_some()
    }

    /// The variables of a URI that fits, by name and percent-decoded. A variable takes as little as it
    /// can. `None` as well for a template that [`Self::check`] has something against, or a malformed
    /// escape.
    #[must_use]
    pub fn variables(&self, uri: &str) -> Option<Vec<(String, String)>> {
        self.check().ok()?;
        let (layers, mut start) = (self.layers(uri)?, 0);
        let mut variables = Vec::new();
        for (piece, rest) in self.pieces.as_ref()?.iter().zip(layers.iter().skip(1)) {
            match piece {
                Piece::Literal(text) => start += text.len(),
                Piece::Simple(name) | Piece::Reserved(name) => {
                    let more = rest.get(start + 1..)?.iter().position(|fits| *fits)?;
                    let end = start + 1 + more;
                    variables.push((name.to_string(), percent_decoded(uri.get(start..end)?)?));
                    start = end;
                }
                Piece::Optional { .. } => return None,
            }
        }
        Some(variables)
    }

    /// Whether a URI tells the values of all variables: each is `{name}` or `{+name}`, the name of
    /// letters, digits and `_`, and no two stand side by side.
    ///
    /// # Errors
    /// What is against it.
    pub fn check(&self) -> Result<(), &'static str> {
        let pieces = self.pieces.as_deref().ok_or("it is against the grammar, or too long")?;
        let mut is_behind = false;
        for piece in pieces {
            let is_variable = match piece {
                Piece::Literal(_) => false,
                Piece::Simple(name) | Piece::Reserved(name)
                    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') =>
                {
                    true
                }
                _ => return Err("a variable is letters, digits and `_`, perhaps behind a `+`"),
            };
            if is_variable && is_behind {
                return Err("two variables need text between them");
            }
            is_behind = is_variable;
        }
        Ok(())
    }

    /// For each piece, and for what is behind the last one, where it can start so that it and all that
    /// follow fit the rest of the URI. `None` for a URI that does not fit.
    fn layers(&self, uri: &str) -> Option<Vec<Vec<bool>>> {
        let pieces = self.pieces.as_ref()?;
        // Most templates are told apart by how they begin.
        if let Some(Piece::Literal(first)) = pieces.first()
            && !uri.starts_with(&**first)
        {
            return None;
        }
        if uri.len() > URI_BYTES_MAX {
            return None;
        }
        let mut rest = vec![false; uri.len() + 1];
        *rest.last_mut()? = true;
        let mut layers = Vec::with_capacity(pieces.len() + 1);
        for piece in pieces.iter().rev() {
            let starts = piece.starts(&rest, uri.as_bytes());
            layers.push(std::mem::replace(&mut rest, starts));
            if !rest.contains(&true) {
                return None;
            }
        }
        let fits = rest.first() == Some(&true);
        layers.push(rest);
        layers.reverse();
        fits.then_some(layers)
    }
}

impl Piece {
    /// Where this piece can start, given where what follows it can.
    fn starts(&self, rest: &[bool], uri: &[u8]) -> Vec<bool> {
        match self {
            Self::Literal(text) => {
                let text = text.as_bytes();
                let starts = |start: usize| {
                    let end = start + text.len();
                    Some(*rest.get(end)? && uri.get(start..end)? == text)
                };
                (0..rest.len()).map(|start| starts(start) == Some(true)).collect()
            }
            Self::Simple(_) => run(rest, uri, |byte| byte != b'/'),
            Self::Reserved(_) => run(rest, uri, |_| true),
            Self::Optional { begins, deep } => {
                let begun = run(rest, uri, |byte| *deep || byte != b'/');
                let begins = |(start, fits): (usize, &bool)| {
                    let after = uri.get(start) == Some(begins)
                        && (rest.get(start + 1) == Some(&true)
                            || begun.get(start + 1) == Some(&true));
                    *fits || after
                };
                rest.iter().enumerate().map(begins).collect()
            }
        }
    }
}

/// Where one or more bytes of a kind can start.
fn run(rest: &[bool], uri: &[u8], of: impl Fn(u8) -> bool) -> Vec<bool> {
    let mut running = false;
    let behind = rest.iter().skip(1).zip(uri).rev().map(|(fits, byte)| {
        running = (running || *fits) && of(*byte);
        running
    });
    let mut starts: Vec<bool> = std::iter::once(false).chain(behind).collect();
    starts.reverse();
    starts
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = [bytes.next()?, bytes.next()?];
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(out).ok()
}

fn pieces(text: &str) -> Option<Vec<Piece>> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some((literal, tail)) = rest.split_once('{') {
        let (expression, tail) = tail.split_once('}')?;
        pieces.extend(literal_piece(literal)?);
        pieces.push(expression_piece(expression)?);
        rest = tail;
    }
    pieces.extend(literal_piece(rest)?);
    (pieces.len() <= PIECES_MAX).then_some(pieces)
}

/// `None` for a brace that opens nothing.
fn literal_piece(text: &str) -> Option<Option<Piece>> {
    (!text.contains('}')).then(|| (!text.is_empty()).then(|| Piece::Literal(text.into())))
}

fn expression_piece(expression: &str) -> Option<Piece> {
    let operator = expression.bytes().next()?;
    let operator = b"+#./;?&".contains(&operator).then_some(operator);
    let variables = operator.map_or(Some(expression), |_| expression.get(1..))?;
    if !variables.split(',').all(is_variable) {
        return None;
    }
    let many = variables.contains([',', '*']);
    Some(match operator {
        None => Piece::Simple(variables.into()),
        Some(b'+') => Piece::Reserved(variables.into()),
        Some(begins) => {
            Piece::Optional { begins, deep: begins == b'#' || (begins == b'/' && many) }
        }
    })
}

/// `name`, `name*` or `name:3`.
fn is_variable(text: &str) -> bool {
    let name = text.strip_suffix('*').unwrap_or(text);
    let (name, length) = name.split_once(':').map_or((name, "1"), |(name, length)| (name, length));
    let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'%' | b'-');
    !name.is_empty()
        && name.bytes().all(is_name)
        && (1..=4).contains(&length.len())
        && length.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_uris_fit() {
        for (template, uri, expected) in [
            ("test://{id}/data", "test://12/data", true),
            ("test://{id}/data", "test://12/data/x", false),
            ("test://{id}/data", "test:///data", false),
            ("test://{id}/data", "test://a/b/data", false),
            ("x:{a}-{b}", "x:1-2-3", true),
            ("x:{a}{b}", "x:12", true),
            ("x:{a}{b}", "x:1", false),
            ("x:{a,b}", "x:1,2", true),
            ("file:///{+path}", "file:///a/b/c.txt", true),
            ("file:///{+path}", "file:///", false),
            ("file:///{path*}", "file:///a/b", false),
            ("doc:x{#part}", "doc:x#a/b", true),
            ("doc:x{#part}", "doc:x", true),
            ("doc:x{.ext}", "doc:x.json", true),
            ("doc:x{.ext}", "doc:xjson", false),
            ("git://repo{/a}", "git://repo/a", true),
            ("git://repo{/a}", "git://repo/a/b", false),
            ("git://repo{/a,b}", "git://repo/a/b", true),
            ("git://repo{/path*}", "git://repo/a/b/c", true),
            ("db://q{?limit,offset}", "db://q?limit=1&offset=2", true),
            ("db://q{?limit}", "db://q", true),
            ("db://q?x=1{&y}", "db://q?x=1&y=2", true),
            ("db://q{;x}", "db://q;x=1", true),
            ("x:{id:3}", "x:abc", true),
            ("plain:uri", "plain:uri", true),
            ("plain:uri", "plain:uri/", false),
            ("", "", true),
            ("x:{id", "x:1", false),
            ("x:{}", "x:1", false),
            ("x:{a b}", "x:1", false),
            ("x:}{id}", "x:}1", false),
            ("x:{id}é", "x:éé", true),
        ] {
            assert_eq!(UriTemplate::parse(template).fits(uri), expected, "{template} and {uri}");
        }
    }

    #[test]
    fn variables_are_read_from_whole_uris() {
        let read = |template: &str, uri: &str| UriTemplate::parse(template).variables(uri);
        let id = |value: &str| Some(vec![("id".to_owned(), value.to_owned())]);
        assert_eq!(read("test://template/{id}/data", "test://template/12/data"), id("12"));
        assert_eq!(read("test://template/{id}/data", "test://template/12/data/x"), None);
        assert_eq!(read("test://template/{id}/data", "test://template//data"), None);
        assert_eq!(read("test://template/{id}/data", "test://template/a/b/data"), None);
        assert_eq!(read("file:///{+id}", "file:///a/b%20c"), id("a/b c"));
        assert_eq!(read("x:{id}", "x:a%20b%C3%A9"), id("a bé"));
        assert_eq!(read("x:{id}", "x:%zz"), None);
        assert_eq!(read("x:{id}", "x:%"), None);
        assert_eq!(read("x:{id}é", "x:éé"), id("é"));
        let two = |first: &str, second: &str| {
            Some(vec![("a".to_owned(), first.to_owned()), ("b".to_owned(), second.to_owned())])
        };
        assert_eq!(read("db://{a}/{b}", "db://users/7"), two("users", "7"));
        assert_eq!(read("x:{a}-{b}", "x:1-2-3"), two("1", "2-3"));
        assert_eq!(read("x:{a}-{b}!", "x:-1--2!"), two("-1", "-2"));
        assert_eq!(read("x:{+a}/{b}", "x:1/2/3"), two("1/2", "3"));
    }

    #[test]
    fn a_template_without_values_says_why() {
        for (template, why) in [
            ("x:{id", "grammar"),
            ("x:{?id}", "letters"),
            ("x:{a,b}", "letters"),
            ("x:{id:3}", "letters"),
            ("{a}{+b}", "between"),
        ] {
            let template = UriTemplate::parse(template);
            assert!(template.check().unwrap_err().contains(why), "{template:?}");
            assert_eq!(template.variables("x:1"), None, "{template:?}");
        }
        assert_eq!(UriTemplate::parse("x:{a_1}/{+b}").check(), Ok(()));
    }

    #[test]
    fn nothing_is_too_long() {
        let hostile = |pieces| UriTemplate::parse(&format!("x:{}z", "{+a}".repeat(pieces)));
        assert!(!hostile(PIECES_MAX - 2).fits(&format!("x:{}", "y".repeat(2000))));
        assert!(hostile(PIECES_MAX - 2).fits(&format!("x:{}z", "y".repeat(2000))));
        assert!(!hostile(PIECES_MAX - 1).fits(&format!("x:{}z", "y".repeat(2000))));
        assert!(!UriTemplate::parse("x:{+a}").fits(&format!("x:{}", "y".repeat(URI_BYTES_MAX))));
    }
}
