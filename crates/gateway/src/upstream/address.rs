//! Where an upstream is concerns whoever runs the gateway, and no client: its URL may have a key in it.

use std::borrow::Cow;

use mcplane::proto::error::ErrorObject;

use super::pool::Pool;

/// A text for clients, with the upstream's name in the place of every URL if the upstream has one.
pub(crate) fn hidden<'a>(text: &'a str, pool: &Pool) -> Cow<'a, str> {
    if pool.settings.url.is_none() || !text.contains("://") {
        return Cow::Borrowed(text);
    }
    without(text, &pool.shared.name).into()
}

/// What clients hear of a request that was lost on its way.
pub(crate) fn hidden_in(mut error: ErrorObject, pool: &Pool) -> ErrorObject {
    error.message = without(&error.message, &pool.shared.name).into();
    error
}

fn without(text: &str, name: &str) -> String {
    let word = |word: &str| {
        let Some(_) = word.find("://") else { return word.to_owned() };
        let bare = word.trim_end_matches([' ', ',', ';', ':', '.', '\n', '\t', '\'', '"', ')']);
        format!("server `{name}`{}", word.get(bare.len()..).unwrap_or_default())
    };
    text.split_inclusive(' ').map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_every_url() {
        let text = "http://u:p@10.0.0.1:8/mcp?key=1: refused; cannot connect to https://h, again";
        let told = "server `a`: refused; cannot connect to server `a`, again";
        assert_eq!(without(text, "a"), told);
    }
}
