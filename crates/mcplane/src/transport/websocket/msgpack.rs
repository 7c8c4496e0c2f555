//! The same message as MessagePack and as JSON.
//!
//! Values go from one format to the other one by one, in order, without a tree in between.
//! Integers stay integers and floats stay floats. What JSON does not have is refused: `bin` and
//! `ext` values, keys that are not strings, NaN and the infinities.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Write};

use bytes::BytesMut;
use mcplane_proto::limits::{DEPTH_MAX, MESSAGE_BYTES_MAX};
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, SerializeMap, SerializeSeq};
use serde::{Deserializer, Serialize, Serializer};

/// MessagePack as JSON on one line.
pub(super) fn to_json(packed: &[u8]) -> io::Result<BytesMut> {
    let mut rest = packed;
    let mut input = rmp_serde::Deserializer::new(&mut rest);
    input.set_max_depth(DEPTH_MAX);
    let mut out = Bounded(BytesMut::with_capacity(packed.len() * 2));
    let value = Transcode::new(&mut input);
    value.serialize(&mut serde_json::Serializer::new(&mut out)).map_err(invalid)?;
    if !rest.is_empty() {
        return Err(invalid("more than one value"));
    }
    Ok(out.0)
}

/// JSON as MessagePack.
pub(super) fn from_json(json: &[u8]) -> io::Result<Vec<u8>> {
    // Refuses more than 128 levels by itself.
    let mut input = serde_json::Deserializer::from_slice(json);
    let mut out = Vec::with_capacity(json.len());
    let value = Transcode::new(&mut input);
    value.serialize(&mut rmp_serde::Serializer::new(&mut out)).map_err(invalid)?;
    input.end().map_err(invalid)?;
    Ok(out)
}

fn invalid(why: impl fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("MessagePack: {why}"))
}

/// JSON that is longer than its MessagePack must not grow without a bound.
struct Bounded(BytesMut);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MESSAGE_BYTES_MAX {
            return Err(invalid("too long as JSON"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whatever the deserializer has, to be serialised once.
struct Transcode<D>(Cell<Option<D>>);

impl<D> Transcode<D> {
    const fn new(input: D) -> Self {
        Self(Cell::new(Some(input)))
    }
}

impl<'de, D: Deserializer<'de>> Serialize for Transcode<D> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let input = self.0.take().ok_or_else(|| S::Error::custom("serialised twice"))?;
        input.deserialize_any(Into(out)).map_err(S::Error::custom)
    }
}

/// Serialises each value that it is shown.
struct Into<S>(S);

/// Hands a scalar on.
macro_rules! scalars {
    ($($visit:ident $serialize:ident $type:ty;)*) => {$(
        fn $visit<E: serde::de::Error>(self, value: $type) -> Result<S::Ok, E> {
            self.0.$serialize(value).map_err(E::custom)
        }
    )*};
}

impl<'de, S: Serializer> Visitor<'de> for Into<S> {
    type Value = S::Ok;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON has")
    }

    scalars! {
        visit_bool serialize_bool bool;
        visit_i64 serialize_i64 i64;
        visit_u64 serialize_u64 u64;
        visit_str serialize_str &str;
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<S::Ok, E> {
        if !value.is_finite() {
            return Err(E::custom("a number that JSON does not have"));
        }
        self.0.serialize_f64(value).map_err(E::custom)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<S::Ok, E> {
        self.0.serialize_unit().map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut input: A) -> Result<S::Ok, A::Error> {
        let mut out = self.0.serialize_seq(input.size_hint()).map_err(A::Error::custom)?;
        while input.next_element_seed(Element(&mut out))?.is_some() {}
        out.end().map_err(A::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut input: A) -> Result<S::Ok, A::Error> {
        let mut out = self.0.serialize_map(input.size_hint()).map_err(A::Error::custom)?;
        while let Some(key) = input.next_key::<String>()? {
            out.serialize_key(&key).map_err(A::Error::custom)?;
            input.next_value_seed(Member(&mut out))?;
        }
        out.end().map_err(A::Error::custom)
    }
}

struct Element<'a, S>(&'a mut S);

impl<'de, S: SerializeSeq> DeserializeSeed<'de> for Element<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        self.0.serialize_element(&Transcode::new(input)).map_err(D::Error::custom)
    }
}

struct Member<'a, S>(&'a mut S);

impl<'de, S: SerializeMap> DeserializeSeed<'de> for Member<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        self.0.serialize_value(&Transcode::new(input)).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn messages_come_back_as_they_were() {
        for json in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"b":[1,-2,1.0,2.5e300],"a":{}}}"#,
            r#"[null,true,false,18446744073709551615,-9223372036854775808,"\u0000é😀\n"]"#,
            r#"{"z":1,"a":2,"m":[[],{},""]}"#,
            r#"{"id":"1","id2":1}"#,
        ] {
            let packed = from_json(json.as_bytes()).unwrap();
            let back = String::from_utf8(to_json(&packed).unwrap().to_vec()).unwrap();
            // The same tokens in the same order; only escapes and exponents have two spellings.
            let same = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(same(&back), same(json));
            assert_eq!(
                back.find("\"z\"") < back.find("\"a\""),
                json.find("\"z\"") < json.find("\"a\"")
            );
        }
        let packed = from_json(b"[1,1.0]").unwrap();
        assert_eq!(to_json(&packed).unwrap(), "[1,1.0]");
        assert_eq!(packed, b"\x92\x01\xcb\x3f\xf0\0\0\0\0\0\0");
    }

    #[test]
    fn what_json_does_not_have_is_refused() {
        for (packed, why) in [
            (&b"\xc4\x01x"[..], "bin"),
            (b"\xd4\x01x", "ext"),
            (b"\x81\x01\x02", "a key that is an integer"),
            (b"\xcb\x7f\xf8\0\0\0\0\0\0", "NaN"),
            (b"\xca\x7f\x80\0\0", "infinity"),
            (b"\x01\x02", "two values"),
            (b"\x92\x01", "too few elements"),
            (b"\xdd\xff\xff\xff\xff", "a length without elements"),
            (b"\xa1\xff", "not UTF-8"),
            (b"\xc1", "a reserved byte"),
            (b"", "nothing"),
        ] {
            assert!(to_json(packed).is_err(), "{why}");
        }
        assert!(to_json(&[0x91; 1000]).is_err(), "too deep");
        assert!(from_json("[".repeat(1000).as_bytes()).is_err(), "too deep");
        assert!(from_json(b"{} {}").is_err() && from_json(b"{").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_input_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..100)) {
            if let Ok(json) = to_json(&bytes) {
                serde_json::from_slice::<Value>(&json).unwrap();
            }
        }
    }
}
