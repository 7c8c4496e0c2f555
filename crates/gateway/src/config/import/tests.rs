//! What becomes of the files of desktop clients.

use super::*;

fn imported(json: &str) -> (Config, Vec<String>) {
    let (config, notes) = import(json).unwrap();
    (config, notes.iter().map(ToString::to_string).collect())
}

#[test]
fn a_desktop_client() {
    let (config, notes) = imported(
        r#"{
            // Written by hand.
            "mcpServers": {
                "zeta": { "command": "npx", "args": ["-y", "pkg@1", 5], "env": { "A": "b", "PORT": 80 } },
                "My Server": { "type": "stdio", "command": "uvx run it", "cwd": "/srv" }, /* odd name */
                "my-server": { "url": "https://a.org/mcp", "headers": { "X-Team": "blue" }, "disabled": true },
            },
            "theme": "dark",
        }"#,
    );
    let names: Vec<&str> = config.servers.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["zeta", "my-server", "my-server-2"]);
    let [zeta, mine, other] = names.as_slice() else { unreachable!() };
    let zeta = config.servers.get(zeta).unwrap();
    assert_eq!((zeta.command.as_deref(), zeta.args.join(" ")), (Some("npx"), "-y pkg@1 5".into()));
    assert_eq!((zeta.env["A"].expose(), zeta.env["PORT"].expose()), ("b", "80"));
    let mine = config.servers.get(mine).unwrap();
    assert_eq!((mine.command.as_deref(), mine.args.join(" ")), (Some("uvx"), "run it".into()));
    let other = config.servers.get(other).unwrap();
    assert!(other.disabled && other.url.as_deref() == Some("https://a.org/mcp"));
    assert_eq!(other.headers["X-Team"].expose(), "blue");
    assert_eq!(
        notes,
        [
            "my-server: was called `My Server`, which is no name here",
            "my-server-2: was called `my-server`, which is no name here",
        ]
    );
}

#[test]
fn where_clients_keep_their_servers() {
    for (json, command) in [
        (r#"{"servers": {"a": {"command": "x"}}, "inputs": []}"#, Some("x")),
        (r#"{"mcp": {"servers": {"a": {"command": "x"}}}}"#, Some("x")),
        (r#"{"mcp.servers": {"a": {"command": "x"}}}"#, Some("x")),
        (r#"{"mcp": {"a": {"type": "local", "command": ["x"], "enabled": true}}}"#, Some("x")),
        (r#"{"context_servers": {"a": {"command": {"path": "x", "args": []}}}}"#, Some("x")),
        (r#"{"projects": {"/p": {"mcpServers": {"a": {"command": "x"}}}}}"#, Some("x")),
        (r#"{"mcpServers": {"a": {"serverUrl": "https://a"}}}"#, None),
        (r#"{"mcpServers": {"a": {"httpUrl": "https://a", "env": {}}}}"#, None),
        (r#"{"mcpServers": {"a": {"type": "sse", "url": "https://a"}}}"#, None),
    ] {
        let (config, notes) = imported(json);
        let server = config.servers.get("a").unwrap();
        assert_eq!(server.command.as_deref(), command, "{json}");
        assert_eq!(server.url.as_deref(), command.is_none().then_some("https://a"), "{json}");
        assert_eq!(notes, [""; 0], "{json}");
    }
}

#[test]
fn references_become_ours() {
    let (config, notes) = imported(
        r#"{"servers": {"a": {"command": "${env:BIN}", "args": ["${userHome}/x", "${A:-b}", "$5", "$$", "${", "${config:z}"],
            "env": {"KEY": "${input:api-key}", "ROOT": "${workspaceFolder}"}}}}"#,
    );
    let server = config.servers.get("a").unwrap();
    assert_eq!(server.command.as_deref(), Some("${BIN}"));
    assert_eq!(server.args, ["${HOME}/x", "${A:-b}", "$5", "$$$$", "$${", "$${config:z}"]);
    assert_eq!(server.env["KEY"].expose(), "${API_KEY}");
    assert_eq!(server.env["ROOT"].expose(), "${WORKSPACE_FOLDER}");
    let told = |part: &str| assert!(notes.iter().any(|note| note.contains(part)), "{notes:?}");
    told("`${config:z}` has no meaning");
    told("asked for `api-key` at its start: set the environment variable `API_KEY`");
    told("set the environment variable `WORKSPACE_FOLDER`");
    // What is written means, once read, what it meant to the client.
    let file = to_toml(&config);
    let read = Config::parse_in(&file, "", &|name| Some(format!("<{name}>"))).unwrap();
    let args = &read.servers.get("a").unwrap().args;
    assert_eq!(args, &["<HOME>/x", "<A>", "$5", "$$", "${", "${config:z}"]);
}

#[test]
fn secrets_are_kept_and_never_shown() {
    let (config, notes) = imported(
        r#"{"mcpServers": {
            "a": {"command": "x", "args": ["--key=sk-0123456789abcdef"],
                  "env": {"GITHUB_TOKEN": "hunter2", "apiKey": "hunter3", "LEVEL": "debug", "DB_PASSWORD": "${PW}"}},
            "b": {"url": "https://b", "headers": {"Authorization": "Bearer hunter4"}}}}"#,
    );
    assert_eq!(config.servers.get("a").unwrap().env["GITHUB_TOKEN"].expose(), "hunter2");
    assert_eq!(notes.len(), 4, "{notes:#?}");
    assert!(
        notes[1].contains("`env.GITHUB_TOKEN` looks like a secret: better write `${GITHUB_TOKEN}`")
    );
    assert!(notes[2].contains("`${API_KEY}`") && notes[3].contains("`${AUTHORIZATION}`"));
    assert!(!format!("{notes:?}").contains("hunter") && !format!("{notes:?}").contains("sk-"));
}

#[test]
fn what_cannot_be_taken_over_is_told() {
    for (json, note) in [
        (r#"{"a": {}, "b": {"command": "x"}}"#, "a: left out: neither a command nor a URL"),
        (r#"{"a": 5, "b": {"command": "x"}}"#, "a: left out: expected an object"),
        (r#"{"a": {"args": ["x"]}}"#, "a: left out: args without a command"),
        (r#"{"a": {"args": ["x"], "url": "http://x"}}"#, "a: left out: args without a command"),
        (r#"{"a": {"command": 5}}"#, "a: left out: `command` is no string"),
        (r#"{"a": {"command": [true, "x"]}}"#, "a: left out: `command` is no string"),
        (r#"{"a": {"command": "x", "args": {}}}"#, "a: left out: `args` is no list of strings"),
        (r#"{"a": {"command": "x", "env": []}}"#, "a: left out: `env` is no object"),
        (
            r#"{"a": {"command": "x", "timeout": 5}}"#,
            "a: left out: `timeout`, for which there is no setting",
        ),
        (
            r#"{"a": {"command": "x", "url": "http://x"}}"#,
            "a: has a command and a URL; the command is kept",
        ),
        (
            r#"{"a": {"type": "http", "command": "x", "url": "http://x"}}"#,
            "a: has a command and a URL; its type says the URL",
        ),
        (
            r#"{"a": {"command": "npx", "args": ["mcp-remote", "https://x/y"]}}"#,
            "a: `mcp-remote` is not needed: `url = \"https://x/y\"` reaches the server itself",
        ),
        (
            r#"{"a": {"url": "gopher://x"}}"#,
            "must be mended: servers.a.url: `gopher://x` is not an address: the scheme `gopher` is unknown; write http://HOST[:PORT]/PATH, https://HOST[:PORT]/PATH, ws://HOST[:PORT]/PATH, wss://HOST[:PORT]/PATH, tcp://HOST:PORT, unix:PATH, stdio",
        ),
    ] {
        let (_, notes) = imported(&format!("{{\"mcpServers\": {json}}}"));
        assert_eq!(notes, [note]);
    }
}

#[test]
fn what_has_no_servers_is_refused() {
    for json in ["{}", r#"{"mcpServers": {}}"#, r#"{"mcpServers": 5}"#, r#"{"editor": {"a": 1}}"#] {
        assert!(import(json).unwrap_err().to_string().contains("`mcpServers`"), "{json}");
    }
    let error = import("{\n  // c\n  \"mcpServers\": {]\n}").unwrap_err().to_string();
    assert!(error.contains("line 3 column"), "{error}");
    assert!(import("[]").unwrap_err().to_string().contains("expected an object"));
    let many: Vec<String> = (0..300).map(|n| format!("\"s{n}\": {{\"command\": \"x\"}}")).collect();
    let error = import(&format!("{{\"mcpServers\": {{{}}}}}", many.join(","))).unwrap_err();
    assert!(error.to_string().starts_with("300 servers are too many"), "{error}");
}

#[test]
fn names_are_made_valid() {
    let mut servers = Servers::new();
    for (old, name) in [
        ("files", "files"),
        ("Files", "files-2"),
        ("@scope/pkg.name", "scope-pkg-name"),
        ("a__b", "a_b"),
        ("__", "server"),
        ("Größe", "gr-e"),
        ("日本", "server-2"),
        (&"x".repeat(80), &"x".repeat(60)),
        (&"x".repeat(70), &format!("{}-2", "x".repeat(60))),
    ] {
        let valid = valid_name(old, &servers);
        assert!(is_server_name(&valid), "{valid}");
        assert_eq!(valid, name);
        servers.insert(valid, Server::default());
    }
}
