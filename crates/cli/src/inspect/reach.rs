//! Servers that are reached at an address.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use mcplane::auth::{LoopbackBrowser, OAuth};
use mcplane::client::{Client, ClientBuilder};
use mcplane::transport::http::client::{DroppedTools, Http, Pool};
use mcplane::transport::http::{HeaderMap, HeaderName, HeaderValue, Url};
use mcplane::transport::tls::ClientTls;
use mcplane::transport::{tcp, unix, websocket};

/// How a server is reached at its address.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ReachArgs {
    /// Send this header (http, https, ws, wss; repeatable)
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Trust the authorities in this PEM file, too (https, wss)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Log in when the server asks who you are: prints a URL to open in a browser (http, https)
    #[arg(long)]
    login: bool,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum Unreached {
    /// The command line asks for something that cannot be.
    Usage(String),
    /// The server cannot be reached or spoken to.
    Failed(String),
}

impl Unreached {
    /// The same, with the address that it is about.
    pub(crate) fn at(self, url: &str) -> Self {
        match self {
            Self::Failed(why) => Self::Failed(format!("{url}: {why}")),
            usage @ Self::Usage(_) => usage,
        }
    }
}

impl From<mcplane::Error> for Unreached {
    fn from(error: mcplane::Error) -> Self {
        match error.is_misuse() {
            true => Self::Usage(error.to_string()),
            false if error.is_unauthorized() => Self::Failed(format!(
                "{error}; give --header 'Authorization: Bearer TOKEN', or --login"
            )),
            false => Self::Failed(error.to_string()),
        }
    }
}

/// Connects to the server at `url`. Over HTTP there may be tools that it offers wrongly.
pub(crate) async fn connect(
    client: ClientBuilder,
    url: &str,
    args: &ReachArgs,
) -> Result<(Client, Option<DroppedTools>), Unreached> {
    let usage = |why: &str| Err(Unreached::Usage(why.to_owned()));
    let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
    let scheme = scheme.to_ascii_lowercase();
    let (is_http, is_websocket) =
        (matches!(&*scheme, "http" | "https"), matches!(&*scheme, "ws" | "wss"));
    if !args.headers.is_empty() && !is_http && !is_websocket {
        return usage("--header needs a URL of http, https, ws or wss");
    }
    if args.login && !is_http {
        return usage("--login needs a URL of http or https");
    }
    match &*scheme {
        "http" | "https" => {
            let http = http(url, args)?;
            let dropped = http.dropped_tools();
            Ok((client.connect(http).await?, Some(dropped)))
        }
        "ws" | "wss" => {
            let headers: HeaderMap = args.headers.iter().cloned().collect();
            let tls = if scheme == "wss" { Some(tls(args)?) } else { None };
            let socket = websocket::connect(url, &headers, tls.as_ref()).await?;
            Ok((client.connect(socket).await?, None))
        }
        "tcp" => {
            let socket = tcp::connect(rest.trim_start_matches('/')).await?;
            Ok((client.connect(socket).await?, None))
        }
        "unix" => {
            let socket = unix::connect(rest.strip_prefix("//").unwrap_or(rest)).await?;
            Ok((client.connect(socket).await?, None))
        }
        _ => usage(&format!(
            "{url} is not the address of a server: http://, https://, ws://, wss://, tcp://HOST:PORT or \
             unix:PATH; to start a server put `--` before its command: mcplane inspect -- {url}"
        )),
    }
}

fn http(url: &str, args: &ReachArgs) -> Result<Http, Unreached> {
    let mut pool = Pool::new();
    if args.ca.is_some() {
        pool = pool.tls(tls(args)?);
    }
    let mut http = Http::new(url)?.pool(pool.clone());
    for (name, value) in &args.headers {
        let value = value.to_str().unwrap_or_default();
        http = http.header(name.as_str(), value);
    }
    if args.login {
        let browser = LoopbackBrowser::new(|url| eprintln!("open this to log in: {url}"));
        let url = Url::parse(url).map_err(|error| Unreached::Usage(error.to_string()))?;
        let oauth = OAuth::new(url, pool, browser)?.client_name("mcplane inspect");
        http = http.credentials(Arc::new(oauth));
    }
    Ok(http)
}

fn tls(args: &ReachArgs) -> mcplane::Result<ClientTls> {
    let tls = ClientTls::new()?;
    match &args.ca {
        Some(file) => tls.ca_pem_file(file),
        None => Ok(tls),
    }
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("write `Name: value`")?;
    let bad = |what| format!("that {what} cannot be sent as a header's");
    let name = HeaderName::try_from(name.trim()).map_err(|_| bad("name"))?;
    let mut value = HeaderValue::try_from(value.trim()).map_err(|_| bad("value"))?;
    value.set_sensitive(true);
    Ok((name, value))
}
