//! What a right answer looks like, and what is wrong with one that is not.

use std::borrow::Cow;

use bytes::Bytes;
use mcplane_proto::message::{Kind, Part};
use mcplane_proto::{Id, Message};
use serde_json::Value;

use crate::client::{Failure, UNSTAMPED, stamp, stamps};
use crate::record::Fault;
use crate::text::shorten;

/// How closely results are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// Each must equal the first.
    Equal,
    /// None is compared; errors still count.
    Off,
}

/// The first answer, and how later ones are held against it.
#[derive(Clone, Debug)]
pub(crate) struct Expect {
    /// The answer's bytes before and after its id: an answer with these is right as it stands.
    before: Bytes,
    after: Bytes,
    result: Bytes,
    check: Check,
    /// Where `before` and `after` have the number of the call; `None` if all results are the same.
    stamps: Option<[Vec<usize>; 2]>,
}

/// What a line means.
pub(crate) enum Incoming {
    /// A right answer.
    Right(i64),
    /// A wrong answer.
    Wrong(i64, Fault, String),
    /// A request or a notification of the server.
    Other(Box<Message>),
    /// A line that answers nothing of ours.
    Stray(String),
}

impl Expect {
    /// Learns from an answer that was looked at and found right. `None` if it is not a result.
    pub(crate) fn learn(answer: &Message, check: Check) -> Option<Self> {
        let id = answer.share(Part::Id)?;
        let bytes = answer.bytes();
        let start = (id.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize)?;
        let before = bytes.slice(..start);
        let after = bytes.slice(start + id.len()..);
        Some(Self { before, after, result: answer.share(Part::Result)?, check, stamps: None })
    }

    /// Each result has the number of its call where the first one has [`UNSTAMPED`]. `None` if that
    /// has it nowhere.
    pub(crate) fn stamped(self) -> Option<Self> {
        let places = [stamps(&self.before), stamps(&self.after)];
        let has_any = places.iter().any(|places| !places.is_empty());
        has_any.then_some(Self { stamps: Some(places), ..self })
    }

    pub(crate) const fn is_stamped(&self) -> bool {
        self.stamps.is_some()
    }

    /// The same answer under another check.
    pub(crate) fn with(self, check: Check) -> Self {
        Self { check, ..self }
    }

    /// The bytes of the answer before and after its id.
    pub(crate) const fn halves(&self) -> (&Bytes, &Bytes) {
        (&self.before, &self.after)
    }

    /// The result that was first seen.
    pub(crate) const fn result(&self) -> &Bytes {
        &self.result
    }

    /// What a line means.
    pub(crate) fn judge(&self, line: Bytes) -> Incoming {
        if let Some(id) = self.same(&line) {
            return Incoming::Right(id);
        }
        let Ok(message) = Message::scan(line.clone()) else {
            return Incoming::Stray(format!("a line that is not a message: {}", shorten(&line)));
        };
        if matches!(message.kind(), Kind::Request | Kind::Notification) {
            return Incoming::Other(Box::new(message));
        }
        match message.id() {
            Some(Id::Integer(id)) => match fault(&message, Some(self)) {
                None => Incoming::Right(id),
                Some((fault, what)) => Incoming::Wrong(id, fault, what),
            },
            _ => Incoming::Stray(format!("an answer with an unknown id: {}", shorten(&line))),
        }
    }

    /// The id of an answer whose other bytes are those of the first one.
    fn same(&self, line: &[u8]) -> Option<i64> {
        let [before, after] = match &self.stamps {
            Some([before, after]) => [before.as_slice(), after.as_slice()],
            None => [&[][..]; 2],
        };
        let end = line.len().checked_sub(self.after.len())?;
        let id = line.get(self.before.len()..end)?;
        // 18 digits always fit; a longer id takes the long way.
        if id.is_empty() || id.len() > 18 || !id.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let id = id.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
        let same = is_like(line.get(..self.before.len())?, &self.before, before, id)
            && is_like(line.get(end..)?, &self.after, after, id);
        same.then_some(id)
    }

    /// Whether a result says the same as the first one; the order of members does not matter.
    fn is_equal(&self, result: &[u8]) -> bool {
        let parse = |json: &[u8]| serde_json::from_slice::<Value>(json).ok();
        result == self.result
            || matches!((parse(result), parse(&self.result)), (Some(a), Some(b)) if a == b)
    }
}

/// What is wrong with an answer, if anything.
pub(crate) fn fault(answer: &Message, expect: Option<&Expect>) -> Option<(Fault, String)> {
    let Some(result) = answer.part(Part::Result) else {
        return Some((Fault::JsonRpc, Failure::of(answer).to_string()));
    };
    if answer.is_true(Part::IsError) {
        return Some((Fault::IsError, format!("a result with isError: {}", shorten(result))));
    }
    if answer.text(Part::ResultType).is_some_and(|kind| kind != "complete") {
        let what = format!("not a result but a request for input: {}", shorten(result));
        return Some((Fault::WrongContent, what));
    }
    let expect = expect.filter(|expect| expect.check == Check::Equal)?;
    let result = match answer.id() {
        Some(Id::Integer(id)) if expect.is_stamped() => unstamped(result, id),
        _ => Cow::Borrowed(result),
    };
    (!expect.is_equal(&result)).then(|| {
        let (first, this) = difference(&expect.result, &result);
        (Fault::WrongContent, format!("the first result has {first} where this one has {this}"))
    })
}

/// Whether a text is the first one with this number in those places.
fn is_like(text: &[u8], first: &[u8], places: &[usize], id: i64) -> bool {
    let (number, mut from) = (stamp(id), 0);
    for at in places {
        let end = at + number.len();
        if text.get(from..*at) != first.get(from..*at) || text.get(*at..end) != Some(&number[..]) {
            return false;
        }
        from = end;
    }
    text.get(from..) == first.get(from..)
}

/// A result without the number of its call.
fn unstamped(result: &[u8], id: i64) -> Cow<'_, [u8]> {
    let mut out = result.to_vec();
    for at in memchr::memmem::find_iter(result, &stamp(id)) {
        if let Some(place) = out.get_mut(at..at + UNSTAMPED.len()) {
            place.copy_from_slice(&UNSTAMPED);
        }
    }
    Cow::Owned(out)
}

/// The surroundings of the first byte in which two texts differ.
fn difference(a: &[u8], b: &[u8]) -> (String, String) {
    const BEFORE: usize = 24;
    const SHOWN: usize = 72;
    let at = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let show = |text: &[u8]| {
        let start = at.saturating_sub(BEFORE);
        let rest = text.get(start..).unwrap_or_default();
        let lead = if start > 0 { "…" } else { "" };
        let trail = if rest.len() > SHOWN { "…" } else { "" };
        format!("{lead}{}{trail}", shorten(rest.get(..SHOWN).unwrap_or(rest)))
    };
    (show(a), show(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expect(check: Check) -> Expect {
        let first = br#"{"result":{"a":1,"b":2},"jsonrpc":"2.0","id":7}"#;
        Expect::learn(&Message::scan(&first[..]).unwrap(), check).unwrap()
    }

    fn verdict(check: Check, line: &str) -> String {
        match expect(check).judge(Bytes::copy_from_slice(line.as_bytes())) {
            Incoming::Right(id) => format!("right {id}"),
            Incoming::Wrong(id, fault, _) => format!("{fault:?} {id}"),
            Incoming::Other(_) => "other".to_owned(),
            Incoming::Stray(_) => "stray".to_owned(),
        }
    }

    #[test]
    fn every_line_gets_its_verdict() {
        for (line, want) in [
            (r#"{"result":{"a":1,"b":2},"jsonrpc":"2.0","id":8}"#, "right 8"),
            (r#"{"jsonrpc":"2.0","id":12,"result":{"b":2, "a":1}}"#, "right 12"),
            (r#"{"result":{"a":1,"b":3},"jsonrpc":"2.0","id":8}"#, "WrongContent 8"),
            (r#"{"jsonrpc":"2.0","id":8,"result":{"isError":true}}"#, "IsError 8"),
            (r#"{"jsonrpc":"2.0","id":8,"error":{"code":-32602,"message":"m"}}"#, "JsonRpc 8"),
            (
                r#"{"jsonrpc":"2.0","id":8,"result":{"resultType":"input_required"}}"#,
                "WrongContent 8",
            ),
            (r#"{"result":{"a":1,"b":2},"jsonrpc":"2.0","id":"8"}"#, "stray"),
            (r#"{"result":{"a":1,"b":2},"jsonrpc":"2.0","id":}"#, "stray"),
            (r#"{"jsonrpc":"2.0","method":"notifications/message"}"#, "other"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "other"),
            ("hello", "stray"),
        ] {
            assert_eq!(verdict(Check::Equal, line), want, "{line}");
        }
    }

    #[test]
    fn each_result_has_the_number_of_its_call() {
        let line = |id: i64, number: &str| {
            format!(r#"{{"result":{{"a":"{number}"}},"jsonrpc":"2.0","id":{id}}}"#)
        };
        let first = line(1, "0000000000000000");
        let expect = Expect::learn(&Message::scan(first).unwrap(), Check::Equal);
        let expect = expect.unwrap().stamped().unwrap();
        let judge = |line: String| expect.judge(Bytes::from(line));
        assert!(matches!(judge(line(12, "0000000000000012")), Incoming::Right(12)));
        assert!(matches!(judge(line(12, "0000000000000013")), Incoming::Wrong(12, ..)));
        let other = r#"{"id":12,"jsonrpc":"2.0","result":{ "a":"0000000000000012"}}"#;
        assert!(matches!(judge(other.to_owned()), Incoming::Right(12)));
        assert!(matches!(judge(other.replace("0012\"", "0014\"")), Incoming::Wrong(12, ..)));
        let same = br#"{"result":{},"jsonrpc":"2.0","id":1}"#;
        let same = Expect::learn(&Message::scan(&same[..]).unwrap(), Check::Equal).unwrap();
        assert!(same.stamped().is_none());
    }

    #[test]
    fn the_difference_is_shown_in_its_surroundings() {
        let text = |c: char| format!("{}{c}{}", "a".repeat(100), "z".repeat(100)).into_bytes();
        let (first, this) = difference(&text('1'), &text('2'));
        assert_eq!(first, format!("…{}1{}…", "a".repeat(24), "z".repeat(47)));
        assert_eq!(this, first.replace('1', "2"));
        assert_eq!(difference(b"ab", b"abc"), ("ab".to_owned(), "abc".to_owned()));
    }

    #[test]
    fn without_the_check_only_errors_count() {
        let other = r#"{"result":{"a":9},"jsonrpc":"2.0","id":8}"#;
        assert_eq!(verdict(Check::Off, other), "right 8");
        let error = r#"{"jsonrpc":"2.0","id":8,"result":{"isError":true}}"#;
        assert_eq!(verdict(Check::Off, error), "IsError 8");
    }
}
