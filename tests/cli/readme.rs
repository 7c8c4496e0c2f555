//! What the README shows is what the tests compile.

use std::{fs, path::Path};

#[test]
fn a_complete_server_fits_in_fifteen_lines() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let blocks: Vec<_> = readme.split("```rust\n").skip(1).collect();
    assert_eq!(blocks.len(), 1, "one example is one thing to keep in step");
    let shown = blocks[0].split("```").next().unwrap();
    let example = fs::read_to_string(root.join("crates/mcplane/examples/add.rs")).unwrap();
    let code: Vec<_> = example.lines().skip_while(|line| is_about(line)).collect();
    assert_eq!(shown.lines().collect::<Vec<_>>(), code);
    assert!((5..=15).contains(&code.len()), "{} lines", code.len());
}

/// Whether this line speaks of the file as a whole.
fn is_about(line: &str) -> bool {
    line.is_empty() || line.starts_with("//!")
}
