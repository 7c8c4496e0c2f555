//! Where the gateway is that a command speaks to.

use anyhow::{Context as _, bail};
use clap::Args;
use mcplane::transport::http::Url;
use mcplane::transport::{Address, Dialed, Dialer};
use mcplane_gateway::config::Gateway;
use mcplane_gateway::listen::discovery::{Announced, Discovery};

/// The endpoint of a gateway that says nothing else.
const DEFAULT: &str = "http://127.0.0.1:8765/mcp";

/// Names a gateway, or leaves it to be found.
#[derive(Args, Debug)]
pub struct EndpointArgs {
    /// The endpoint; else $MCPLANE_ENDPOINT, else the gateway that announced itself, else
    /// http://127.0.0.1:8765/mcp
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

/// A gateway, and how it was found.
pub struct Found {
    pub url: String,
    /// For errors: where the URL comes from.
    pub by: &'static str,
}

impl EndpointArgs {
    /// `given` stands where the command takes the URL as an argument, too.
    pub fn find(&self, given: Option<&str>) -> Found {
        let of = |url: &str, by| Found { url: url.to_owned(), by };
        if let Some(url) = given.or(self.url.as_deref()) {
            return of(url, "the command line");
        }
        if let Ok(url) = std::env::var("MCPLANE_ENDPOINT")
            && !url.is_empty()
        {
            return of(&url, "MCPLANE_ENDPOINT");
        }
        let announced = Gateway::default().state_folder();
        match announced.and_then(|folder| Discovery::newest(&folder)) {
            Some(found) => of(&found.url, "the discovery file"),
            None => of(DEFAULT, "the default"),
        }
    }
}

impl Found {
    /// Connects to the endpoint, with the token of `MCPLANE_TOKEN` where one can be shown.
    ///
    /// # Errors
    /// The URL is invalid, or nothing answers there.
    pub async fn dial(&self) -> anyhow::Result<Dialed> {
        let address = Address::with_scheme(&self.url)?;
        if matches!(address, Address::Stdio) {
            bail!("`stdio` is this program's own; give the address of a gateway");
        }
        let mut dialer = Dialer::new();
        if let (Some(token), Address::Http(_) | Address::WebSocket(_)) = (token(), &address) {
            dialer = dialer.header("authorization", &format!("Bearer {token}"))?;
        }
        dialer.dial(&address).await.with_context(|| self.hint())
    }

    /// A page of the gateway beside its endpoints.
    ///
    /// # Errors
    /// The URL is invalid.
    pub fn page(&self, path: &str) -> anyhow::Result<Url> {
        let mut url = Url::parse(&self.url)?;
        url.set_path(path);
        url.set_query(None);
        Ok(url)
    }

    /// What to do when the gateway does not answer.
    pub fn hint(&self) -> String {
        format!("{} (from {}): is `mcplane serve` running there?", self.url, self.by)
    }
}

/// Who we are, for a gateway that asks.
pub fn token() -> Option<String> {
    std::env::var("MCPLANE_TOKEN").ok().filter(|token| !token.is_empty())
}

/// Announces the gateway of this process in the state folder of its settings, and in the default
/// one, where commands look that do not know its settings.
pub fn announce(url: &str, settings: &Gateway) -> Vec<Announced> {
    let mut folders: Vec<_> = settings.state_folder().into_iter().collect();
    folders.extend(Gateway::default().state_folder().filter(|folder| !folders.contains(folder)));
    let announced = folders.into_iter().filter_map(|folder| {
        Discovery::new(url)
            .announce(&folder)
            .inspect_err(|error| {
                eprintln!("mcplane: no discovery file in {}: {error}", folder.display());
            })
            .ok()
    });
    announced.collect()
}
