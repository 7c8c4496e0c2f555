//! Servers that are reached at an address.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use mcplane::auth::{LoopbackBrowser, OAuth};
use mcplane::client::{Client, ClientBuilder};
use mcplane::transport::http::client::{DroppedTools, Pool};
use mcplane::transport::http::{HeaderName, HeaderValue, Url};
use mcplane::transport::process::mask_urls;
use mcplane::transport::tls::ClientTls;
use mcplane::transport::{Address, Dialer};

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
    let address = Address::with_scheme(url).map_err(|error| {
        if url.contains("://") || url.starts_with("unix:") {
            return Unreached::Usage(error.to_string());
        }
        let hint = "to start a server, put `--` before its command: mcplane inspect --";
        Unreached::Usage(format!("{error}; {hint} {}", mask_urls(url)))
    })?;
    if matches!(address, Address::Stdio) {
        return Err(Unreached::Usage(
            "`stdio` is this program's own; give the address of a server".to_owned(),
        ));
    }
    let is_http = matches!(address, Address::Http(_));
    if !args.headers.is_empty() && !is_http && !matches!(address, Address::WebSocket(_)) {
        return Err(Unreached::Usage("--header needs a URL of http, https, ws or wss".to_owned()));
    }
    if args.login && !is_http {
        return Err(Unreached::Usage("--login needs a URL of http or https".to_owned()));
    }
    let mut dialed = dialer(url, args)?.dial(&address).await?;
    let dropped = dialed.dropped_tools.take();
    Ok((client.connect(dialed).await?, dropped))
}

fn dialer(url: &str, args: &ReachArgs) -> Result<Dialer, Unreached> {
    let mut pool = Pool::new();
    let mut dialer = Dialer::new();
    if let Some(file) = &args.ca {
        let tls = ClientTls::new()?.ca_pem_file(file)?;
        pool = pool.tls(tls.clone());
        dialer = dialer.tls(tls);
    }
    dialer = dialer.pool(pool.clone());
    for (name, value) in &args.headers {
        let text = str::from_utf8(value.as_bytes());
        let text =
            text.map_err(|_| Unreached::Usage(format!("the value of {name} is not UTF-8")))?;
        dialer = dialer.header(name.as_str(), text)?;
    }
    if args.login {
        let browser = LoopbackBrowser::new(|url| eprintln!("open this to log in: {url}"));
        let url = Url::parse(url).map_err(|error| Unreached::Usage(error.to_string()))?;
        let oauth = OAuth::new(url, pool, browser)?.client_name("mcplane inspect");
        dialer = dialer.credentials(Arc::new(oauth));
    }
    Ok(dialer)
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("write `Name: value`")?;
    let bad = |what| format!("that {what} cannot be sent as a header's");
    let name = HeaderName::try_from(name.trim()).map_err(|_| bad("name"))?;
    let mut value = HeaderValue::try_from(value.trim()).map_err(|_| bad("value"))?;
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn a_hint_about_a_command_is_for_what_could_be_one() {
        for (text, is_hinted) in [
            ("server", true),
            ("tcp://localhost", false),
            ("gopher://localhost", false),
            ("unix:", false),
        ] {
            let reached = connect(Client::builder("test", "1"), text, &ReachArgs::default()).await;
            let Err(Unreached::Usage(why)) = reached else { panic!("{text} is not an address") };
            assert!(why.contains(text), "{why}");
            assert_eq!(why.contains("mcplane inspect --"), is_hinted, "{why}");
        }
    }

    /// What a listener reads first is the handshake.
    #[tokio::test]
    async fn a_header_is_sent_as_it_was_typed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("ws://{}/", listener.local_addr().unwrap());
        let reader = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 4096];
            let length = stream.read(&mut head).unwrap();
            stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").unwrap();
            String::from_utf8_lossy(&head[..length]).into_owned()
        });
        let args =
            ReachArgs { headers: vec![header("X-Name: Zoë").unwrap()], ..ReachArgs::default() };
        assert!(connect(Client::builder("test", "1"), &url, &args).await.is_err());
        let head = reader.join().unwrap();
        assert!(head.to_lowercase().contains("x-name: zoë\r\n"), "{head}");
    }
}
