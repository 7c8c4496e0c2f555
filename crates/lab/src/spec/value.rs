//! Values that are written as text, on a command line and in a file.

use std::ffi::OsString;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::Until;
use crate::record::ns;
use crate::results::Think;
use crate::text::duration;

/// A number of calls, `100`, or a time, `1s`.
///
/// # Errors
/// What it takes.
pub fn calls_or_time(text: &str) -> Result<Until, String> {
    text.parse().map(Until::Calls).or_else(|_| duration(text).map(Until::Elapsed))
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum NumberOrText {
    Number(u64),
    Text(String),
}

/// A text that `parse` reads. What is wrong with it quotes it.
pub(super) fn read<'de, D: Deserializer<'de>, T, E: Display>(
    from: D,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).map(Some).map_err(|what| D::Error::custom(format!("`{text}`: {what}")))
}

pub(super) fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err = String>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    read(from, T::from_str)
}

pub(super) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    read(from, duration)
}

pub(super) fn think<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Think>, D::Error> {
    read(from, |text| {
        let text = text.trim();
        let (exponential, time) = match text.strip_prefix("exponential ") {
            Some(time) => (true, time.trim()),
            None => (false, text),
        };
        let has_unit = time.ends_with(|c: char| c.is_ascii_alphabetic());
        let mean = duration(time).ok().filter(|_| has_unit);
        let mean = mean.ok_or("it takes 10ms or exponential 10ms, in ms, s, m or h")?;
        Ok::<_, String>(Think { mean_ns: ns(mean), exponential })
    })
}

pub(super) fn until<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Until>, D::Error> {
    match NumberOrText::deserialize(from)? {
        NumberOrText::Number(calls) => Ok(Some(Until::Calls(calls))),
        NumberOrText::Text(text) => calls_or_time(&text)
            .map(Some)
            .map_err(|what| D::Error::custom(format!("`{text}`: {what}"))),
    }
}

/// A table, as JSON.
pub(super) fn object<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Box<RawValue>>, D::Error> {
    let object = Map::<String, Value>::deserialize(from)?;
    to_raw_value(&object).map(Some).map_err(D::Error::custom)
}

pub(super) fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<OsString>, D::Error> {
    Ok(Vec::<String>::deserialize(from)?.into_iter().map(OsString::from).collect())
}

pub(super) fn some<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    match Vec::deserialize(from)? {
        none if none.is_empty() => {
            Err(D::Error::custom("an empty list; it takes one number or more"))
        }
        some => Ok(some),
    }
}

pub(super) fn one_or_more<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    match OneOrMore::deserialize(from)? {
        OneOrMore::One(one) => Ok(vec![one]),
        OneOrMore::More(more) if more.is_empty() => {
            Err(D::Error::custom("an empty list; it takes one number or more"))
        }
        OneOrMore::More(more) => Ok(more),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_take_their_units() {
        for (text, ms) in [("500ms", 500), ("2s", 2000), ("1.5", 1500), ("1m", 60_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for wrong in ["", "s", "1d", "-1s", "1e99h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(calls_or_time("7"), Ok(Until::Calls(7)));
        assert_eq!(calls_or_time("7s"), Ok(Until::Elapsed(Duration::from_secs(7))));
    }
}
