//! `mcplane import`: what it writes, where, and what it refuses.

use std::{fs, os::unix::fs::PermissionsExt};

use mcplane_tests::child::{mcplane, start_mcplane};

use crate::{LIMIT, file};

const JSON: &str = r#"{
  "mcpServers": {
    "My Files": { "command": "npx", "args": ["-y", "pkg"], "env": { "API_TOKEN": "hunter2" } },
    "web": { "url": "https://example.org/mcp" }, // the last one
  }
}"#;

#[test]
fn settings_go_to_standard_output_and_notes_do_not() {
    let json = file("client.json");
    fs::write(&json, JSON).unwrap();
    let ended = mcplane(&["import", json.to_str().unwrap()], LIMIT).ok();
    for part in [
        "[servers.my-files]\ncommand = \"npx\"\nargs = [\"-y\", \"pkg\"]\n",
        "[servers.my-files.env]\nAPI_TOKEN = \"hunter2\"\n",
        "[servers.web]\nurl = \"https://example.org/mcp\"\n",
    ] {
        assert!(ended.stdout.contains(part), "no {part:?} in {ended}");
    }
    assert!(ended.stderr.contains("note: my-files: was called `My Files`"), "{ended}");
    assert!(
        ended.stderr.contains("`${API_TOKEN}`") && !ended.stderr.contains("hunter2"),
        "{ended}"
    );
    let piped = start_mcplane(&["import", "-"], JSON).wait(LIMIT).ok();
    assert_eq!(piped.stdout, ended.stdout);
}

#[test]
fn a_file_is_for_its_owner_alone_and_is_not_overwritten() {
    let (json, toml) = (file("client.json"), file("mcplane.toml"));
    fs::write(&json, JSON).unwrap();
    let words = ["import", json.to_str().unwrap(), "--output", toml.to_str().unwrap()];
    let rights = || fs::metadata(&toml).unwrap().permissions().mode() & 0o777;
    let ended = mcplane(&words, LIMIT).ok();
    assert!(ended.stdout.is_empty() && ended.stderr.contains("2 servers are in"), "{ended}");
    let written = fs::read_to_string(&toml).unwrap();
    assert!(written.contains("hunter2") && rights() == 0o600);
    fs::write(&toml, "mine").unwrap();
    fs::set_permissions(&toml, PermissionsExt::from_mode(0o644)).unwrap();
    let ended = mcplane(&words, LIMIT).code(1);
    assert!(ended.stderr.contains("exists; `--force` replaces it"), "{ended}");
    assert_eq!(fs::read_to_string(&toml).unwrap(), "mine");
    mcplane(&[&words[..], &["--force"]].concat(), LIMIT).ok();
    assert_eq!((fs::read_to_string(&toml).unwrap(), rights()), (written, 0o600));
    let left = fs::read_dir(toml.parent().unwrap()).unwrap().count();
    assert_eq!(left, 2, "nothing but the two files");
}

#[test]
fn what_cannot_be_imported_says_why() {
    let json = file("client.json");
    let name = json.to_str().unwrap();
    let ended = mcplane(&["import", name], LIMIT).code(1);
    assert!(ended.stderr.contains("cannot read") && ended.stderr.contains(name), "{ended}");
    for (content, part) in [
        ("{\n\"mcpServers\": {]", "line 2 column 16"),
        ("{}", "expected them by name in `mcpServers`"),
        ("[]", "expected an object"),
    ] {
        fs::write(&json, content).unwrap();
        let ended = mcplane(&["import", name], LIMIT).code(1);
        assert!(ended.stdout.is_empty() && ended.stderr.contains(part), "no {part:?} in {ended}");
        assert!(ended.stderr.contains("cannot import") && ended.stderr.contains(name), "{ended}");
    }
    assert!(mcplane(&["import", name, "--force"], LIMIT).code(2).stderr.contains("--output"));
}
