//! What is wrong with a spec, by its fields.

use std::fmt;

use super::Field;

/// A field whose value makes no sense, by itself or beside others. Whoever asks the user names the
/// fields: [`SpecError::words`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    field: Field,
    entry: Option<usize>,
    what: Vec<Part>,
}

/// A part of a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    Name(Field),
}

impl From<&str> for Part {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Part {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Field> for Part {
    fn from(field: Field) -> Self {
        Self::Name(field)
    }
}

impl SpecError {
    /// What is wrong with a field, in words.
    pub(crate) fn new(field: Field, what: impl IntoIterator<Item = Part>) -> Self {
        Self { field, entry: None, what: what.into_iter().collect() }
    }

    pub(crate) fn text(field: Field, what: impl Into<Part>) -> Self {
        Self::new(field, [what.into()])
    }

    /// A value that the field does not take.
    pub(crate) fn value(field: Field, got: impl fmt::Display, takes: impl fmt::Display) -> Self {
        Self::text(field, format!("got {got}; it takes {takes}"))
    }

    /// A field that makes no sense without one of others.
    pub(crate) fn needs(field: Field, others: &[Field]) -> Self {
        let mut what = vec![Part::from("it takes ")];
        for (index, other) in others.iter().enumerate() {
            what.push(match index {
                0 => "".into(),
                index if index + 1 == others.len() => " or ".into(),
                _ => ", ".into(),
            });
            what.push((*other).into());
        }
        Self::new(field, what)
    }

    /// A field that makes no sense beside another.
    pub(crate) fn apart(field: Field, other: Field) -> Self {
        Self::new(field, ["it cannot be used with ".into(), other.into()])
    }

    /// The same with more at its end.
    pub(crate) fn with(mut self, more: impl Into<Part>) -> Self {
        self.what.push(more.into());
        self
    }

    /// The same about one of several targets or tools.
    pub(crate) const fn of_entry(mut self, index: usize) -> Self {
        self.entry = Some(index);
        self
    }

    /// The field at fault.
    #[must_use]
    pub const fn field(&self) -> Field {
        self.field
    }

    /// Which of the targets or tools has it.
    #[must_use]
    pub const fn entry(&self) -> Option<usize> {
        self.entry
    }

    /// What is wrong with it; `name` names the other fields that it speaks of.
    #[must_use]
    pub fn words(&self, name: impl Fn(Field) -> String) -> String {
        let word = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Name(field) => name(*field),
        };
        self.what.iter().map(word).collect()
    }
}

/// With the keys of a file.
impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.words(|field| field.key().to_owned());
        write!(f, "{}: {words}", self.field.key())
    }
}

impl std::error::Error for SpecError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_names_the_fields() {
        let error = SpecError::needs(Field::Arrivals, &[Field::Rate, Field::Burst, Field::Ramp]);
        assert_eq!(error.to_string(), "arrivals: it takes rate, burst or ramp");
        let flags = error.words(|field| format!("--{}", field.key()));
        assert_eq!(flags, "it takes --rate, --burst or --ramp");
        let apart = SpecError::apart(Field::Requests, Field::Duration);
        assert_eq!(apart.to_string(), "requests: it cannot be used with duration");
        let value = SpecError::value(Field::Rate, 0, "more").of_entry(1);
        assert_eq!(
            (value.to_string().as_str(), value.entry()),
            ("rate: got 0; it takes more", Some(1))
        );
    }
}
