//! Whole files: what they give, and what is said about those that are wrong.

use std::{path::Path, time::Duration};

use super::*;

fn environment(name: &str) -> Option<String> {
    (name == "TOKEN").then(|| "t0ken".to_owned())
}

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse_in(text, "mcplane.toml", &environment)
}

/// Every fault as `line:column key: message [help]`.
fn faults(text: &str) -> Vec<String> {
    let error = parse(text).unwrap_err();
    let line = |fault: &Fault| {
        let help = fault.help.as_ref().map(|help| format!(" [{help}]")).unwrap_or_default();
        format!("{}:{} {}: {}{help}", fault.line, fault.column, fault.key, fault.message)
    };
    error.faults().iter().map(line).collect()
}

/// The one fault of a file.
fn fault(text: &str) -> String {
    let all = faults(text);
    assert_eq!(all.len(), 1, "{all:#?}");
    all.into_iter().next().unwrap()
}

fn server(text: &str) -> Server {
    let config = parse(&format!("[servers.a]\n{text}")).unwrap();
    config.servers.get("a").unwrap().clone()
}

#[test]
fn nothing_said_is_the_defaults() {
    assert_eq!(parse("").unwrap(), Config::default());
    assert_eq!(server("command = 'x'"), Server { command: Some("x".into()), ..Server::default() });
    let gateway = Gateway::default();
    assert_eq!(gateway.listen, ["127.0.0.1:8765".parse().unwrap()]);
    assert_eq!(gateway.call_timeout.limit(), Some(Duration::from_secs(300)));
}

#[test]
fn servers_keep_the_order_of_the_file() {
    let text = "[servers.zeta]\ncommand='z'\n[servers.alpha]\ncommand='a'\n[servers.mid.tools]\nallow=['x']\n[servers.mid]\ncommand='m'\n";
    let config = parse(text).unwrap();
    let names: Vec<&str> = config.servers.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["zeta", "alpha", "mid"]);
}

#[test]
fn a_single_address_is_a_list_of_one() {
    let config = parse("gateway.listen = 'unix:/run/a.sock'").unwrap();
    assert_eq!(config.gateway.listen, ["unix:/run/a.sock".parse().unwrap()]);
}

#[test]
fn references_reach_the_values_that_may_have_them() {
    let server = server(
        "command = 'run'\nargs = ['--key=${TOKEN}', '$$x']\nenv = { A = '${TOKEN}', B = '${NO:-b}' }",
    );
    assert_eq!(server.args, ["--key=t0ken", "$x"]);
    assert_eq!((server.env["A"].expose(), server.env["B"].expose()), ("t0ken", "b"));
    assert!(!format!("{:?}", server.env).contains("t0ken"));
    let config = parse("gateway.tokens = { alice = 'env:TOKEN' }").unwrap();
    assert_eq!(config.gateway.tokens["alice"].expose(), "t0ken");
    assert!(!format!("{config:?}{config:#?}").contains("t0ken"));
}

#[test]
fn a_reference_that_leads_nowhere_is_told_once() {
    assert_eq!(
        fault("[servers.a]\nurl = 'https://${HOST}/mcp'"),
        "2:7 servers.a.url: the environment variable `HOST` is not set; expected it, or \
         `${HOST:-DEFAULT}`"
    );
    assert!(fault("gateway.tokens.a = 'env:NO'").starts_with("1:20 gateway.tokens.a: the env"));
    assert!(parse("[servers.a]\ndisabled = true\nurl = 'https://${HOST}/mcp'").is_ok());
}

#[test]
fn relative_paths_start_at_the_folder_of_the_file() {
    let text = "gateway.state_dir = 'state'\n[servers.a]\ncommand = './run'\ncwd = 'work'\n[servers.b]\ncommand = 'npx'\ncwd = '/abs'";
    let config = Config::parse_in(text, "/etc/mcplane/mcplane.toml", &environment).unwrap();
    let (a, b) = (config.servers.get("a").unwrap(), config.servers.get("b").unwrap());
    assert_eq!(config.gateway.state_dir.as_deref(), Some(Path::new("/etc/mcplane/state")));
    assert_eq!(a.cwd.as_deref(), Some(Path::new("/etc/mcplane/work")));
    assert_eq!(a.command.as_deref(), Some("/etc/mcplane/run"));
    assert_eq!((b.command.as_deref(), b.cwd.as_deref()), (Some("npx"), Some(Path::new("/abs"))));
}

#[test]
fn what_is_misspelt_is_guessed() {
    for (text, told) in [
        (
            "[servers.a]\ncommand='x'\nworker = 2",
            "3:1 servers.a.worker: unknown key [did you mean `workers`?]",
        ),
        ("[server.a]\ncommand='x'", "1:2 server: unknown key [did you mean `servers`?]"),
        (
            "[servers.a]\ncommand='x'\nmode = 'per-session'",
            "3:8 servers.a.mode: `per-session` is unknown; expected one of exclusive, per_principal, per_session, shared [did you mean `per_session`?]",
        ),
        (
            "[gateway]\nbanana = 1",
            "2:1 gateway.banana: unknown key; expected one of accept_rate, admins, call_timeout, drain, hosts, list_deadline, list_max_age, listen, memory, names, origins, question_timeout, ready, session_idle, start_parallel, state_dir, state_key, tokens",
        ),
        ("[servers.a]\ncomand='x'", "2:1 servers.a.comand: unknown key [did you mean `command`?]"),
    ] {
        assert_eq!(fault(text), told);
    }
}

#[test]
fn a_wrong_gateway_is_told_with_what_was_expected() {
    for (text, told) in [
        (
            "[gateway]\ndrain = 10",
            "2:9 gateway.drain: invalid type: integer `10`, expected a duration such as \"250ms\", \"10s\" or \"5m\"",
        ),
        (
            "[gateway]\ndrain = '10 sec'",
            "2:9 gateway.drain: `10 sec` is not a duration such as \"250ms\", \"10s\" or \"5m\"",
        ),
        (
            "[gateway]\ntokens.a = 'x'\nadmins = ['a', 'b']",
            "3:10 gateway.admins: `b` has no token; expected the name of a principal in `gateway.tokens`",
        ),
        (
            "[gateway]\nhosts = ['*']",
            "2:9 gateway.hosts: `*` is not a host: with any name, every page on the web could call the tools through DNS rebinding; expected names, or `gateway.tokens`, with which every name is answered to",
        ),
        (
            "[gateway]\nlisten = ['localhost']",
            "2:11 gateway.listen: `localhost` is not an address to listen on such as \"127.0.0.1:8765\", \"tcp://127.0.0.1:9000\", \"unix:/run/mcplane.sock\" or \"stdio\"",
        ),
        (
            "[gateway]\nlisten = 8765",
            "2:10 gateway.listen: invalid type: integer `8765`, expected an address to listen on such as \"127.0.0.1:8765\", or a list of them",
        ),
        ("[gateway]\nlisten = []", "2:10 gateway.listen: expected 1 to 16 addresses to listen on"),
        (
            "[gateway]\nlisten = ['127.0.0.1:1', 'tcp://127.0.0.1:1']",
            "2:10 gateway.listen: `tcp://127.0.0.1:1` twice",
        ),
        (
            "[gateway]\nstart_parallel = 0",
            "2:18 gateway.start_parallel: 0 is out of range; expected 1 to 256",
        ),
        (
            "[gateway]\nlist_deadline = '0s'",
            "2:17 gateway.list_deadline: a list takes time to read; expected more than \"0s\"",
        ),
        (
            "[gateway]\nhosts = ['https://x']",
            "2:9 gateway.hosts: `https://x` is not a host; expected a name as in the `Host` header, such as \"mcp.example.org\"",
        ),
        (
            "[gateway]\norigins = ['x.org']",
            "2:11 gateway.origins: `x.org` is not an origin; expected a scheme and a host, such as \"https://app.example.org\"",
        ),
        (
            "[gateway.tokens]\na = 'x y'",
            "2:5 gateway.tokens.a: expected a token of visible ASCII characters without spaces",
        ),
        (
            "[gateway.tokens]\na = 'x'\nb = 'x'",
            "3:5 gateway.tokens.b: the same token as that of `a`",
        ),
        (
            "servers = 1",
            "1:11 servers: invalid type: integer `1`, expected a table of servers by name",
        ),
    ] {
        assert_eq!(fault(text), told);
    }
}

#[test]
fn a_wrong_command_is_told_with_what_was_expected() {
    for (text, told) in [
        (
            "[servers.A]\ncommand = 'x'",
            "1:10 servers.A: `A` cannot name a server; expected 1 to 64 of a-z, 0-9, `_` and `-`, a letter or digit first, no `__`",
        ),
        (
            "[servers.a__b]\ncommand = 'x'",
            "1:10 servers.a__b: `a__b` cannot name a server; expected 1 to 64 of a-z, 0-9, `_` and `-`, a letter or digit first, no `__`",
        ),
        ("[servers.a]", "1:10 servers.a: neither `command` nor `url`; expected one of them"),
        ("[servers.a]\ncommand = ''", "2:11 servers.a.command: expected the program to run"),
        (
            "[servers.a]\ncommand = 'npx -y thing'",
            "2:11 servers.a.command: this is not run by a shell; expected the program alone, and `args` for the rest",
        ),
        (
            "[servers.a]\ncommand = ['npx']",
            "2:11 servers.a.command: invalid type: sequence, expected a string",
        ),
        (
            "[servers.a]\ncommand = 'x'\nargs = ['a', 5]",
            "3:14 servers.a.args: invalid type: integer `5`, expected a string",
        ),
        (
            "[servers.a]\ncommand = 'x'\nheaders = { a = 'b' }",
            "3:11 servers.a.headers: a command has no headers; expected them beside `url`",
        ),
        (
            "[gateway]\nmemory = '16MiB'",
            "2:10 gateway.memory: expected at least 32MiB, such as \"512MiB\"",
        ),
        (
            "[servers.a]\ncommand = 'x'\nmemory_max = 512",
            "3:14 servers.a.memory_max: expected at least 1MiB, such as \"512MiB\"",
        ),
        (
            "[servers.a]\ncommand = 'x'\nenv = { 'A=B' = 'c' }",
            "3:9 servers.a.env.\"A=B\": expected the name of an environment variable",
        ),
        (
            "[servers.a]\ncommand = 'x'\ninherit_env = ['A', 'B_*', '*_C']",
            "3:15 servers.a.inherit_env: `*_C` cannot match a variable; expected the name of an environment variable, or how names begin and `*`",
        ),
    ] {
        assert_eq!(fault(text), told);
    }
}

#[test]
fn a_wrong_url_is_told_with_what_was_expected() {
    for (text, told) in [
        (
            "[servers.a]\ncommand = 'x'\nurl = 'http://x'",
            "3:7 servers.a.url: both `command` and `url`; expected one of them",
        ),
        (
            "[servers.a]\nurl = 'ftp://x'",
            "2:7 servers.a.url: `ftp://x` is not an address: the scheme `ftp` is unknown; write http://HOST[:PORT]/PATH, https://HOST[:PORT]/PATH, ws://HOST[:PORT]/PATH, wss://HOST[:PORT]/PATH, tcp://HOST:PORT, unix:PATH, stdio",
        ),
        (
            "[servers.a]\nurl = 'tcp://x'",
            "2:7 servers.a.url: `tcp://x` is not an address: the port is missing; write tcp://HOST:PORT",
        ),
        (
            "[servers.a]\nurl = 'http://x'\ncwd = '/'",
            "3:7 servers.a.cwd: `cwd` is for servers with `command`, not `url`",
        ),
        (
            "[servers.a]\nurl = 'http://x'\ninherit_env = ['A']",
            "3:15 servers.a.inherit_env: `inherit_env` is for servers with `command`, not `url`",
        ),
        (
            "[servers.a]\nurl = 'unix:/x'\nheaders.a = 'b'",
            "3:1 servers.a.headers: only HTTP and WebSocket have headers",
        ),
        (
            "[servers.a]\nurl = 'http://x'\nheaders.'a b' = 'b'",
            "3:9 servers.a.headers.\"a b\": expected the name of an HTTP header",
        ),
        (
            "[servers.a]\nurl = 'http://x'\nheaders.Host = 'b'",
            "3:9 servers.a.headers.Host: this header is the gateway's own to send; expected another",
        ),
        (
            "[servers.a]\nurl = 'http://x'\nheaders.x = \"a\\nb\"",
            "3:13 servers.a.headers.x: a header cannot contain a line break or another control character",
        ),
    ] {
        assert_eq!(fault(text), told);
    }
}

#[test]
fn a_wrong_pool_is_told_with_what_was_expected() {
    for (text, told) in [
        (
            "[servers.a]\ncommand = 'x'\nrevision = '2025-01-01'",
            "3:12 servers.a.revision: `2025-01-01` is none of \"auto\", \"legacy\", \"2024-11-05\", \"2025-03-26\", \"2025-06-18\", \"2025-11-25\", \"2026-07-28\"",
        ),
        (
            "[servers.a]\ncommand = 'x'\nrevision = 2025-11-25",
            "3:12 servers.a.revision: invalid type: map, expected \"auto\", \"legacy\" or a revision such as \"2025-11-25\" as a string",
        ),
        (
            "[servers.a]\ncommand = 'x'\nworkers = 0",
            "3:11 servers.a.workers: 0 is out of range; expected 1 to 256",
        ),
        (
            "[servers.a]\ncommand = 'x'\nworkers = -1",
            "3:11 servers.a.workers: invalid value: integer `-1`, expected u32",
        ),
        (
            "[servers.a]\ncommand = 'x'\nworkers = 4\nworkers_max = 2",
            "4:15 servers.a.workers_max: 2 is less than `workers`, which is 4",
        ),
        (
            "[servers.a]\ncommand = 'x'\nmode = 'exclusive'\ncalls_per_worker = 2",
            "4:20 servers.a.calls_per_worker: 2, but mode `exclusive` is one call at a time; expected 1, or leave the key out",
        ),
        (
            "[servers.a]\ncommand = 'x'\nrestart = { first = '1m' }",
            "3:1 servers.a.restart.longest: `longest` is 30s, less than `first`, which is 1m",
        ),
        (
            "[servers.a]\ncommand = 'x'\nprobe = { timeout = '0s' }",
            "3:21 servers.a.probe.timeout: expected more than \"0s\"",
        ),
        (
            "[servers.a]\ncommand = 'x'\nprobe = { misses = 0 }",
            "3:20 servers.a.probe.misses: `misses` is 0; expected 1 to 100",
        ),
        (
            "[servers.a]\ncommand = 'x'\nroots = ['/home']",
            "3:9 servers.a.roots: `/home` is not a root; expected a `file://` URI",
        ),
        (
            "[servers.a]\ncommand = 'x'\ntools.allow = ['']",
            "3:15 servers.a.tools.allow: expected names of tools, or patterns such as \"read_*\"",
        ),
        (
            "[servers.a]\ncommand = 'x'\ntools.rename = { b = 'x', c = 'x' }",
            "3:31 servers.a.tools.rename.c: `x` is the new name of `b` already",
        ),
        (
            "[servers.a]\ncommand = 'x'\ntools.rename = { b = 'x y' }",
            "3:22 servers.a.tools.rename.b: `x y` cannot name a tool; expected 1 to 128 of A-Z, a-z, 0-9, `_`, `-`, `.` and `/`",
        ),
        (
            "[servers.a]\ncommand = 'x'\ntools.concurrency = { b = 0 }",
            "3:27 servers.a.tools.concurrency.b: 0 is out of range; expected 1 to 65536",
        ),
    ] {
        assert_eq!(fault(text), told);
    }
}

#[test]
fn what_toml_does_not_allow_is_told_with_its_place() {
    for (text, place) in
        [("a = ", "1:"), ("[gateway\n", "1:"), ("[gateway]\ndrain = '10s'\ndrain = '5s'", "3:1")]
    {
        let all = faults(text);
        assert!(all[0].starts_with(place), "{all:?}");
    }
}

#[test]
fn a_second_server_of_one_name_is_told_once() {
    let first = "# Two.\n[servers.a]\ncommand = 'x'\n[servers.a.tools]\nallow = ['x']\n";
    let told = "servers.a: a second server of this name (the first is on line 2); expected another \
                name";
    for second in ["", "command = 'y'\n", "command = 'y'\n[servers.a.tools]\nallow = ['y']\n"] {
        assert_eq!(fault(&format!("{first}[servers.a]\n{second}")), format!("6:10 {told}"));
    }
    assert_eq!(fault(&format!("{first}[servers.\"a\"] # Too.\n")), format!("6:10 {told}"));
    // Who is there only once hears of a key that is there twice.
    let other = "[servers.b]\ncommand = 'y'\ncommand = 'y'\n";
    let all = faults(&format!("{}{first}{other}", &first[7..]));
    assert_eq!(all.len(), 2, "{all:#?}");
    assert!(all[0].starts_with("6:10 servers.a: ") && all[1].starts_with("12:"), "{all:#?}");
}

#[test]
fn everything_wrong_is_told_at_once_in_the_order_of_the_lines() {
    let all = faults(
        "[gateway]\ndrain = 5\nlisten = '0.0.0.0:80'\n[servers.b]\nworkers = 0\nmode = 'share'\n\
         queues = 1\ncommand = '${NO}'\n[servers.a__b]\nurl = 'x'\nworkers = 'two'\n",
    );
    let keys: Vec<&str> = all.iter().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(
        keys,
        [
            "2:9 gateway.drain",
            "3:10 gateway.listen",
            "5:11 servers.b.workers",
            "6:8 servers.b.mode",
            "7:1 servers.b.queues",
            "8:11 servers.b.command",
            "9:10 servers.a__b",
            "10:7 servers.a__b.url",
            "11:11 servers.a__b.workers",
        ],
        "{all:#?}"
    );
    let many = (0..500).map(|n| format!("x{n} = 1\n")).collect::<String>();
    let error = parse(&many).unwrap_err();
    assert_eq!(error.faults().len(), 64);
    assert!(error.to_string().ends_with("64 errors in mcplane.toml; read no further"));
}

#[test]
fn an_open_door_is_refused() {
    let open = |text: &str| fault(&format!("[gateway]\n{text}"));
    assert!(open("listen = '0.0.0.0:80'").contains("expected `gateway.tokens`"));
    assert!(open("listen = 'tcp://0.0.0.0:80'").contains("TCP carries no token"));
    for address in ["tcp://0.0.0.0:80", "tcp://127.0.0.1:80"] {
        let text = format!("listen = '{address}'\ntokens.a = 'x'");
        assert!(open(&text).contains("for TCP carries none"), "{text}");
    }
    assert!(fault("[servers.admin]\ncommand = 'x'\n").contains("the gateway's own"));
    for text in [
        "listen = '0.0.0.0:80'\ntokens.a = 'x'",
        "listen = ['0.0.0.0:80', 'tcp://10.0.0.1:1']\nhosts = ['mcp.example.org']",
        "listen = ['127.0.0.1:1', '[::1]:1', 'unix:/x', 'stdio', '127.0.0.1:0', '127.0.0.1:0']",
    ] {
        assert!(parse(&format!("[gateway]\n{text}")).is_ok(), "{text}");
    }
}

#[test]
fn an_argument_is_shown_as_it_is_written() {
    let text = "[servers.a]\ncommand = 'x'\nargs = ['--flag', 'a${PORT}']\n\
        [servers.b]\ncommand = 'x'\nargs = ['--flag']\n";
    let config = Config::parse_in(text, "f.toml", &|_| Some("hunter2".to_owned())).unwrap();
    let [a, b] = ["a", "b"].map(|name| config.servers.get(name).unwrap());
    assert_eq!(a.args, ["--flag", "ahunter2"]);
    assert_eq!(a.written_args.as_deref(), Some(&["--flag".to_owned(), "a${PORT}".to_owned()][..]));
    assert_eq!(b.written_args, None);
}

#[test]
fn an_error_shows_the_line_but_no_secret_on_it() {
    let error = parse("[gateway]\ntokens = { a = 'hunter2', b = 'env:NO' }\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "mcplane.toml:2:31: gateway.tokens.b: the environment variable `NO` is not set or empty\n  |\n\
         2 | tokens = { a = *********, b = 'env:NO' }\n  |                               ^^^^^^^^\n\n\
         1 error in mcplane.toml"
    );
    for text in [
        "url = 'x'\nenv = { K = 'hunter2', L = 77 }",
        "url = 'ftp://me:hunter2@h/'",
        "command = 'x'\nargs = ['--token', 'hunter2', 77]",
    ] {
        let error = parse(&format!("[servers.a]\n{text}\n")).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}

/// TOML takes one of two tables: what is in the other one is secret, too.
#[test]
fn what_is_no_toml_is_shown_without_a_secret() {
    let server = "[servers.a]\ncommand = 'x'\n";
    for text in [
        format!("[gateway]\ntokens = {{ a = 'one' }}\n{server}[gateway.tokens]\nb = 'hunter2'\n"),
        "[gateway.tokens]\na = 'one'\n[gateway.tokens]\nb = 'hunter2'\n".to_owned(),
        "[gateway]\ntokens = { a = hunter2 }\n".to_owned(),
        "[gateway.tokens]\na = hunter2\n".to_owned(),
        "[gateway.tokens\na = 'hunter2\n".to_owned(),
        "[gateway]\nstate_key = 'x' hunter2\n".to_owned(),
        format!("{server}[servers.a.env]\nKEY = 'x'\nKEY = 'hunter2'\n"),
        format!("{server}args = ['x']\nargs = [\n  '--token',\n  'hunter2',\n]\n"),
        format!(
            "{server}args = [\n  '--token',\n  hunter2,\n]\n[servers.a.headers]\nx = hunter2\n"
        ),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{text}{error}");
    }
    // What is none is shown.
    let error = parse(&format!("{server}url = 'x'\n[servers.b]\nworkers = two\n")).unwrap_err();
    assert!(error.to_string().contains("5 | workers = two\n"), "{error}");
}

#[test]
fn a_command_line_is_held_to_the_same_rules() {
    let words = ["npx".to_owned(), "-y".to_owned()];
    let config = Config::of_command("a", &words, Mode::Exclusive, 3).unwrap();
    let server = config.servers.get("a").unwrap();
    assert_eq!((server.command.as_deref(), server.args.as_slice()), (Some("npx"), &words[1..]));
    assert_eq!((server.workers_limit(), server.calls_limit()), (3, 1));
    let error = Config::of_command("a", &words, Mode::Shared, 0).unwrap_err();
    assert!(
        error.to_string().starts_with("command line: servers.a.workers: 0 is out of range"),
        "{error}"
    );
    assert!(Config::of_command("a", &[], Mode::Shared, 1).is_err());
    assert!(Config::of_command("A!", &words, Mode::Shared, 1).is_err());
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let folder = std::env::temp_dir().join(format!("mcplane-load-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("mcplane.toml");
    let error = Config::load(&file).unwrap_err();
    assert!(error.is_missing() && error.to_string().contains("mcplane import"), "{error}");
    std::fs::write(&file, b"[gateway]\n# \xff\n").unwrap();
    let error = Config::load(&file).unwrap_err();
    assert_eq!((error.faults()[0].line, error.faults()[0].column), (2, 3));
    std::fs::write(&file, "\u{feff}[gateway]\n").unwrap();
    assert_eq!(Config::load(&file).unwrap(), Config::default());
    std::fs::write(&file, "#".repeat(5 << 20)).unwrap();
    assert!(Config::load(&file).unwrap_err().to_string().contains("at most"));
    std::fs::remove_dir_all(&folder).unwrap();
}
