//! From text to settings that keep every rule, or to all the errors at once.

use serde::{Deserialize, Deserializer, de::IntoDeserializer};

use super::address::Listen;

/// One address or a list of them.
pub(super) fn one_or_more<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Listen>, D::Error> {
    struct OneOrMore;

    impl<'de> serde::de::Visitor<'de> for OneOrMore {
        type Value = Vec<Listen>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an address to listen on such as \"127.0.0.1:8765\", or a list of them")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<Listen>, E> {
            Ok(vec![Listen::deserialize(text.into_deserializer())?])
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(
            self,
            mut list: A,
        ) -> Result<Vec<Listen>, A::Error> {
            let mut all = Vec::new();
            while let Some(one) = list.next_element()? {
                all.push(one);
            }
            Ok(all)
        }
    }

    deserializer.deserialize_any(OneOrMore)
}
