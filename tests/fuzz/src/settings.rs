//! `mcplane.toml`: whatever is in it, either all errors are told, without a secret and without what
//! commands a terminal, or the settings can be written down and read back.

use mcplane_gateway::config::{Config, to_toml};

const SECRET: &str = "nobody-may-see-this";

/// Any bytes.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // Files are what this machine has, and not what is tried here; the roots of servers are URLs.
    if text.replace("file:///", "").contains("file:")
        || text.contains("\\u")
        || text.contains("\\U")
    {
        return;
    }
    match Config::parse(text, "fuzz.toml") {
        Ok(config) => reads_back(&config, text),
        Err(error) => is_text(&error.to_string()),
    }
    if toml::from_str::<toml::Table>(text).is_ok() {
        let with = format!("{text}\n[gateway.tokens]\nalice = {SECRET:?}\n");
        if let Err(error) = Config::parse(&with, "fuzz.toml") {
            let shown = error.to_string();
            is_text(&shown);
            assert!(!shown.contains(SECRET), "{shown}");
        }
    }
}

fn reads_back(config: &Config, text: &str) {
    // References are replaced when they are read, and not put back.
    if text.contains('$') || text.contains("env:") {
        return;
    }
    let written = to_toml(config);
    match Config::parse(&written, "written.toml") {
        Ok(read) => assert_eq!(&read, config, "{written}"),
        Err(error) => panic!("{error}\n{written}"),
    }
}

/// Nothing in it but characters that stand for themselves.
fn is_text(shown: &str) {
    let active = shown.chars().find(|c| c.is_control() && *c != '\n');
    assert!(active.is_none(), "{active:?} in {shown:?}");
}
