//! Whether a URI fits a URI template (RFC 6570): which server reads it. The values of the variables
//! are the upstream's business.
//!
//! All operators of levels 1 to 3, several variables in one expression, and the modifiers of level
//! 4 as far as matching needs them. Time is linear in the URI for each piece of the template, and
//! both are bounded, so that no pair of them is slow.

/// Longest URI that is held against templates, in bytes.
const URI_BYTES_MAX: usize = 8 << 10;
/// Most pieces of a template; nothing fits one with more.
const PIECES_MAX: usize = 32;

/// A URI template, cut into pieces.
#[derive(Clone, Debug)]
pub struct Template {
    text: Box<str>,
    /// `None` for a template against the grammar: nothing fits it.
    pieces: Option<Vec<Piece>>,
}

#[derive(Clone, Debug)]
enum Piece {
    Literal(Box<str>),
    /// An expression without an operator: one or more characters up to the next `/`.
    Simple,
    /// `{+x}`: one or more characters.
    Reserved,
    /// An expression that begins with this character, or is not there; `deep` ones have `/`.
    Optional {
        begins: u8,
        deep: bool,
    },
}

impl Template {
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
    pub(super) fn cost(&self, uri: &str) -> usize {
        match self.pieces.as_deref() {
            Some([Piece::Literal(first), ..]) if !uri.starts_with(&**first) => first.len(),
            Some(pieces) => uri.len().saturating_mul(pieces.len()),
            None => 1,
        }
    }

    /// Whether the whole of `uri` can be an expansion of this template.
    #[must_use]
    pub fn fits(&self, uri: &str) -> bool {
        let Some(pieces) = &self.pieces else { return false };
        // Most templates are told apart by how they begin.
        if let Some(Piece::Literal(first)) = pieces.first()
            && !uri.starts_with(&**first)
        {
            return false;
        }
        if uri.len() > URI_BYTES_MAX {
            return false;
        }
        let bytes = uri.as_bytes();
        // Where the pieces so far can end.
        let mut ends = vec![false; bytes.len() + 1];
        if let Some(start) = ends.first_mut() {
            *start = true;
        }
        for piece in pieces {
            ends = piece.ends(&ends, bytes);
            if !ends.contains(&true) {
                return false;
            }
        }
        ends.last() == Some(&true)
    }
}

impl Piece {
    /// Where this piece can end, given where it can start.
    fn ends(&self, starts: &[bool], uri: &[u8]) -> Vec<bool> {
        match self {
            Self::Literal(text) => {
                let text = text.as_bytes();
                let ends = |end: usize| {
                    let start = end.checked_sub(text.len())?;
                    Some(*starts.get(start)? && uri.get(start..end)? == text)
                };
                (0..starts.len()).map(|end| ends(end) == Some(true)).collect()
            }
            Self::Simple => run(starts, uri, |byte| byte != b'/'),
            Self::Reserved => run(starts, uri, |_| true),
            Self::Optional { begins, deep } => {
                let begun: Vec<bool> = std::iter::once(false)
                    .chain(starts.iter().zip(uri).map(|(start, byte)| *start && byte == begins))
                    .collect();
                let ends = run(&begun, uri, |byte| *deep || byte != b'/');
                let either = |((start, begun), end): ((&bool, bool), bool)| *start || begun || end;
                starts.iter().zip(begun.iter().copied()).zip(ends).map(either).collect()
            }
        }
    }
}

/// Where one or more bytes of a kind can end.
fn run(starts: &[bool], uri: &[u8], of: impl Fn(u8) -> bool) -> Vec<bool> {
    let mut running = false;
    let ends = starts.iter().zip(uri).map(|(start, byte)| {
        running = (running || *start) && of(*byte);
        running
    });
    std::iter::once(false).chain(ends).collect()
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
        None => Piece::Simple,
        Some(b'+') => Piece::Reserved,
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
            assert_eq!(Template::parse(template).fits(uri), expected, "{template} and {uri}");
        }
    }

    #[test]
    fn nothing_is_too_long() {
        let hostile = |pieces| Template::parse(&format!("x:{}z", "{+a}".repeat(pieces)));
        assert!(!hostile(PIECES_MAX - 2).fits(&format!("x:{}", "y".repeat(2000))));
        assert!(hostile(PIECES_MAX - 2).fits(&format!("x:{}z", "y".repeat(2000))));
        assert!(!hostile(PIECES_MAX - 1).fits(&format!("x:{}z", "y".repeat(2000))));
        assert!(!Template::parse("x:{+a}").fits(&format!("x:{}", "y".repeat(URI_BYTES_MAX))));
    }
}
