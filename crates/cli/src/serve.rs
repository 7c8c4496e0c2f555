//! `mcplane serve`: many clients, of any revision, over a warm pool of any servers.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use mcplane_gateway::Gateway;
use mcplane_gateway::config::{Config, ConfigError, Listen, Mode, Watch, watch};
use mcplane_gateway::listen::Listeners;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::endpoint::announce;
use crate::report::{to_stderr, to_stdout};

/// How long the process may take to end after everything in it has.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How long the settings may take to be read again: a file may be on a disk far away.
const READ_TIME_MAX: Duration = Duration::from_secs(10);

/// What to serve, and where.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mcplane serve -- npx -y @modelcontextprotocol/server-everything
  mcplane serve --config mcplane.toml
  mcplane serve --check mcplane.toml
  mcplane serve --listen 127.0.0.1:0 --mode per_session -- my-server")]
pub struct ServeArgs {
    /// The settings; see docs/gateway/config.md
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["command", "mode", "workers", "name"])]
    config: Option<PathBuf>,

    /// Only say whether these settings are right: nothing is started, and exit code 1 says that they
    /// are not
    #[arg(long, value_name = "FILE", exclusive = true)]
    check: Option<PathBuf>,

    /// Where to listen: HOST:PORT (0 for any free port), tcp://HOST:PORT, unix:PATH or stdio
    /// (repeatable); replaces the addresses in the settings
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<Listen>,

    /// Who shares a worker of the server
    #[arg(long, value_enum)]
    mode: Option<ModeArg>,

    /// Workers of the server that are warm before the first call
    #[arg(long, value_name = "N")]
    workers: Option<u32>,

    /// The server's name: its endpoint is /NAME/mcp
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// The server's command and its arguments; the built-in fixture if there are neither command
    /// nor settings
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum ModeArg {
    Shared,
    PerSession,
    PerPrincipal,
    Exclusive,
}

/// Serves until a signal comes.
///
/// # Errors
/// The settings are wrong, or an address cannot be listened on.
pub fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.check {
        let config = load(path)?;
        let [all, off] = [false, true].map(|is_off| {
            config.servers.iter().filter(|(_, server)| !is_off || server.disabled).count()
        });
        let servers = if all == 1 { "server" } else { "servers" };
        let off = if off > 0 { format!(", {off} of them disabled") } else { String::new() };
        to_stdout(&format!("{}: right; {all} {servers}{off}\n", path.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if std::env::var_os("TOKIO_WORKER_THREADS").is_none() {
        runtime.worker_threads(threads());
    }
    let runtime = runtime.enable_all().build()?;
    let outcome = runtime.block_on(async {
        // Before it is read: what changes from then on is seen.
        let changes = args.config.as_deref().map(watch);
        serve(args, settings(args)?, changes).await
    });
    runtime.shutdown_timeout(LAST_WORDS);
    outcome
}

/// Half of the cores: the other half is for the servers that are started here. A call is mostly
/// wake-ups, and between fewer threads there are fewer of them.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2))
}

async fn serve(
    args: &ServeArgs,
    config: Config,
    changes: Option<Result<Watch, ConfigError>>,
) -> anyhow::Result<ExitCode> {
    // Before there is anything to leave behind.
    let (mut ending, mut twice) = (Signals::new()?, Signals::new()?);
    let listeners = Listeners::open(&config).await.map_err(|error| {
        anyhow::anyhow!("{error}; listen elsewhere with --listen, where port 0 is any free one")
    })?;
    let gateway = Gateway::start(config.clone())?;
    let _announced = listeners.url().map(|url| announce(url, &config.gateway));
    greet(&listeners)?;
    warn_of_open_listeners(&config);
    let mut troubles = gateway.troubles();
    let telling = tokio::spawn(async move {
        while let Some(trouble) = troubles.next().await {
            say(&trouble);
        }
    });
    let reporting = tokio::spawn(report(gateway.clone(), listeners.url().map(str::to_owned)));
    let reloading = args.config.clone().zip(changes).map(|(path, changes)| {
        tokio::spawn(reload(path, changes, args.listen.clone(), config, gateway.clone()))
    });
    let whole = async {
        let mut shutdown = std::pin::pin!(ending.next());
        let is_open = tokio::select! {
            () = gateway.listed() => true,
            () = &mut shutdown => false,
        };
        if is_open {
            listeners.serve(&gateway, shutdown).await;
        } else {
            drop(listeners);
        }
        reloading.inspect(|reloading| reloading.abort());
        reporting.abort();
        telling.abort();
        gateway.close().await;
    };
    // Whoever asks a second time does not want to wait.
    let twice = async {
        twice.next().await;
        twice.next().await;
    };
    tokio::select! {
        () = whole => {}
        () = twice => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// A line for the operator, on standard error, which may have no reader.
fn say(line: &str) {
    to_stderr(&format!("mcplane: {line}\n"));
}

/// SIGINT and SIGTERM; none is missed from the moment that this is made.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        let of = |kind| signal(kind).context("cannot listen to signals");
        Ok(Self {
            interrupt: of(SignalKind::interrupt())?,
            terminate: of(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The settings, from the file or the command line.
fn settings(args: &ServeArgs) -> anyhow::Result<Config> {
    let mut config = match &args.config {
        Some(path) => load(path)?,
        None => of_command(args)?,
    };
    if !args.listen.is_empty() {
        config.gateway.listen.clone_from(&args.listen);
        config.check("the command line")?;
    }
    Ok(config)
}

/// Settings from their file. The error's own text says everything, its source included.
fn load(path: &Path) -> anyhow::Result<Config> {
    let config = Config::load(path).map_err(|error| anyhow::anyhow!("{error}"))?;
    if config.servers.iter().all(|(_, server)| server.disabled) {
        let why = if config.servers.is_empty() { "" } else { " that are not disabled" };
        say(&format!("no servers{why} in {}", path.display()));
    }
    Ok(config)
}

fn of_command(args: &ServeArgs) -> anyhow::Result<Config> {
    let mode = match args.mode {
        None | Some(ModeArg::Shared) => Mode::Shared,
        Some(ModeArg::PerSession) => Mode::PerSession,
        Some(ModeArg::PerPrincipal) => Mode::PerPrincipal,
        Some(ModeArg::Exclusive) => Mode::Exclusive,
    };
    let (name, command) = match args.command.as_slice() {
        [] => {
            let own = std::env::current_exe().context("cannot find the program itself")?;
            let own = own.to_str().context("the path of the program is not Unicode")?;
            ("fixture", vec![own.to_owned(), "fixture".to_owned()])
        }
        command => ("server", command.to_vec()),
    };
    let name = args.name.as_deref().unwrap_or(name);
    Ok(Config::of_command(name, &command, mode, args.workers.unwrap_or(1))?)
}

/// The endpoint is the first line on standard output, for people and for programs that started us;
/// on standard error if a client has the output.
fn greet(listeners: &Listeners) -> anyhow::Result<()> {
    use std::io::Write as _;
    let addresses = listeners.addresses();
    let is_taken = addresses.iter().any(|address| address == "stdio");
    let mut out: Box<dyn std::io::Write> =
        if is_taken { Box::new(std::io::stderr()) } else { Box::new(std::io::stdout().lock()) };
    for address in addresses.iter().filter(|address| *address != "stdio") {
        writeln!(out, "{address}").context("cannot print the endpoint")?;
    }
    out.flush().context("cannot print the endpoint")
}

/// Warns of addresses that admit anyone who reaches them.
fn warn_of_open_listeners(config: &Config) {
    let settings = &config.gateway;
    let is_open = |listen: &&Listen| listen.is_public() && settings.tokens.is_empty();
    for listen in settings.listen.iter().filter(is_open) {
        say(&format!(
            "warning: anyone who reaches {listen} can call every tool, since no token is needed \
             (gateway.tokens)"
        ));
    }
}

/// What became of each server, on standard error.
async fn report(gateway: Gateway, url: Option<String>) {
    gateway.ready().await;
    let base = url.as_deref().and_then(|url| url.strip_suffix("/mcp"));
    for server in gateway.status().servers {
        let at = base.map_or_else(String::new, |base| format!("  {base}/{}/mcp", server.name));
        let offers = server.offers.map_or_else(String::new, |offers| {
            format!(
                "  {} tools, {} resources, {} prompts",
                offers.tools, offers.resources, offers.prompts
            )
        });
        to_stderr(&format!("{}: {}{offers}{at}\n", server.name, server.state));
    }
}

/// Reads the settings again when they change; what is wrong with them is said, and changes nothing.
/// `started` is what the gateway started with.
async fn reload(
    path: PathBuf,
    changes: Result<Watch, ConfigError>,
    listen: Vec<Listen>,
    started: Config,
    gateway: Gateway,
) {
    let mut changes = match changes {
        Ok(changes) => changes,
        Err(error) => {
            say(&format!("changes of {} are not seen: {error}", path.display()));
            return;
        }
    };
    loop {
        changes.changed().await;
        let outcome = match load_again(&path).await {
            Ok(config) if config.servers.is_empty() && !gateway.config().servers.is_empty() => {
                // Half-written, most likely; whoever means it has another way to say so.
                Err(anyhow::anyhow!(
                    "there are no servers in {}; set `disabled` for those that are not wanted, or \
                     stop the gateway",
                    path.display()
                ))
            }
            Ok(mut config) => {
                if !listen.is_empty() {
                    config.gateway.listen.clone_from(&listen);
                }
                restart_needed(&started, &config);
                gateway.reload(config).await.map_err(anyhow::Error::from)
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(()) => say(&format!("{} was read again", path.display())),
            Err(error) => say(&format!("nothing was changed: {error:#}")),
        }
    }
}

/// As [`load`], on a thread of its own: what the settings name may lie on a file system that does
/// not respond.
async fn load_again(path: &Path) -> anyhow::Result<Config> {
    let own = path.to_owned();
    let reading = tokio::task::spawn_blocking(move || load(&own));
    tokio::time::timeout(READ_TIME_MAX, reading).await.unwrap_or_else(|_| {
        let limit = READ_TIME_MAX.as_secs();
        Ok(Err(anyhow::anyhow!(
            "{} or a file that it names cannot be read within {limit} s",
            path.display()
        )))
    })?
}

/// Says which changes since the start wait for the next one.
fn restart_needed(started: &Config, new: &Config) {
    let (old, new) = (&started.gateway, &new.gateway);
    let changed = [
        ("listen", old.listen != new.listen),
        ("hosts", old.hosts != new.hosts),
        ("session_idle", old.session_idle != new.session_idle),
        ("memory", old.memory != new.memory),
        ("origins", old.origins != new.origins),
        ("state_key", old.state_key != new.state_key),
        // Other tokens are taken over at once; whether any is needed is a matter of the start.
        ("tokens", old.tokens.is_empty() != new.tokens.is_empty()),
        ("accept_rate", old.accept_rate != new.accept_rate),
        ("state_dir", old.state_dir != new.state_dir),
        ("start_parallel", old.start_parallel != new.start_parallel),
    ];
    for (key, _) in changed.iter().filter(|(_, changed)| *changed) {
        say(&format!("gateway.{key} changes with the next start"));
    }
}
