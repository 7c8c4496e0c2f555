//! What the compiler says of handlers that cannot be: one error, which says what to do.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;
use std::{env, fs};

/// What the compiler says of a program that has nothing but this library.
fn errors_of(name: &str, program: &str) -> Vec<String> {
    let deps = env::current_exe().unwrap().parent().unwrap().to_owned();
    let library = newest(&deps, "libmcplane-", ".rlib");
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.rs"));
    let prelude = "#![allow(dead_code, unused_imports)]\nuse mcplane::*;\n";
    fs::write(&source, format!("{prelude}{program}\n")).unwrap();
    let output = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "--error-format=json"])
        .arg("--out-dir")
        .arg(env!("CARGO_TARGET_TMPDIR"))
        .arg("--extern")
        .arg(format!("mcplane={}", library.display()))
        .arg("-L")
        .arg(format!("dependency={}", deps.display()))
        .arg(&source)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let errors = said.lines().filter_map(|line| {
        let said: serde_json::Value = serde_json::from_str(line).unwrap();
        let is_summary = said["message"].as_str().unwrap().starts_with("aborting due to");
        let is_error = said["level"] == "error" && !is_summary;
        is_error.then(|| said["rendered"].as_str().unwrap().to_owned())
    });
    let errors: Vec<_> = errors.collect();
    assert_eq!(output.status.success(), errors.is_empty(), "{said}");
    errors
}

/// The last library that was built, which is of the code that is there.
fn newest(folder: &Path, prefix: &str, suffix: &str) -> PathBuf {
    let built = |path: &PathBuf| -> SystemTime { path.metadata().unwrap().modified().unwrap() };
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap_or_default();
        name.starts_with(prefix) && name.ends_with(suffix)
    };
    files.filter(named).max_by_key(built).unwrap()
}

#[track_caller]
fn one_error(name: &str, program: &str, parts: &[&str]) {
    let errors = errors_of(name, program);
    assert_eq!(errors.len(), 1, "{}", errors.join("\n"));
    for part in parts {
        assert!(errors.iter().all(|error| error.contains(part)), "no {part:?} in {errors:#?}");
    }
}

#[test]
fn a_program_that_is_right_compiles() {
    let program = "struct App;
        #[tool] fn f(app: &State<App>, text: &str) -> Vec<String> { vec![text.into()] }
        fn server() -> Server { Server::new(\"x\", \"1\").state(App).tool(f) }";
    assert_eq!(errors_of("right", program), [""; 0]);
}

#[test]
fn what_calls_share_is_taken_as_state() {
    let state = "&State<App>` and given to `Server::state`";
    one_error("borrowed", "struct App; #[tool] fn f(app: &App, n: u8) {}", &[state]);
    let method = "struct App; impl App { #[tool] fn f(&self, n: u8) {} }";
    one_error("method", method, &["as `state: &State<App>`, and give that to `Server::state`"]);
    let counted = "struct App; #[tool] fn f(app: std::sync::Arc<App>) {}";
    one_error("counted", counted, &["`Arc` is for what calls share", "`Server::state`"]);
}

#[test]
fn what_cannot_be_returned_says_what_can() {
    let derive = "derive `serde::Serialize` and `schemars::JsonSchema`";
    let returned = "struct Point; #[tool] fn f() -> Point { Point }";
    one_error("returned", returned, &["a tool cannot return `Point`", derive]);
    let fallible = "struct Point; #[tool] fn f() -> Result<Point, String> { Ok(Point) }";
    one_error("fallible", fallible, &["a tool cannot return `Point`", derive]);
    let closure = "fn f() -> Tool { Tool::inline(\"x\", |_, _: NoArguments| vec![1]) }";
    one_error("closure", closure, &["a tool cannot return `Vec<", "`Json(value)`"]);
    let resource = "struct Point; #[resource(\"x://y\")] fn f() -> Point { Point }";
    one_error("resource", resource, &["a resource cannot return `Point`", "`Json(value)`"]);
    let prompt = "struct Point; #[prompt] fn f() -> Point { Point }";
    one_error("prompt", prompt, &["a prompt cannot return `Point`"]);
}
