//! Requests to addresses that a peer named: metadata, registration, tokens.
//!
//! An MCP server names the addresses that are fetched next, so it could aim this client at machines
//! that only the client can reach. [`Reach`] says where requests may go.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use serde_json::{Map, Value};
use url::{Host, Url};

use crate::error::{Error, Result};
use crate::transport::http::client::Pool;

/// A metadata document: the largest public ones have some ten kilobytes.
const METADATA_BYTES_MAX: usize = 1 << 20;
/// What a token or registration endpoint answers.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// One request. Endpoints that ask other services are slow, but not slower than people wait.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Redirects of one metadata request.
const REDIRECTS_MAX: usize = 3;

/// Requests within a [`Reach`].
#[derive(Clone)]
pub(super) struct Fetch {
    server: Url,
    reach: Reach,
    pool: Pool,
    /// Connects to public addresses only.
    public: Pool,
}

/// What a request for a metadata document found.
pub(super) enum Found {
    /// A JSON object.
    Document(Map<String, Value>),
    /// Nothing of use; why.
    Nothing(String),
}

impl Fetch {
    /// Requests that a client of this MCP server may make.
    pub(super) fn new(pool: Pool, server: &Url) -> Self {
        let public = pool.only(|ip| place_of(ip) == Place::Public);
        Self { server: server.clone(), reach: Reach::of(server), pool, public }
    }

    pub(super) fn reach(&self) -> Reach {
        self.reach
    }

    /// A metadata document. A server that fails is an error and not an absent document: what
    /// follows an absence may be weaker.
    pub(super) async fn metadata(&self, url: &Url) -> Result<Found> {
        let mut url = url.clone();
        for _ in 0..=REDIRECTS_MAX {
            self.reach.check(&url)?;
            let request = request(Method::GET, &url)?;
            let request = request.body(Bytes::new()).map_err(|e| unsendable(&url, &e))?;
            let answer =
                self.pool().await.fetch(request, METADATA_BYTES_MAX, REQUEST_TIMEOUT).await?;
            let status = answer.status();
            if status.is_redirection() {
                let Some(next) = location(&url, &answer) else {
                    return Ok(Found::Nothing(format!("{url} redirects nowhere ({status})")));
                };
                url = next;
            } else if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
                return Err(Error::malformed(format!("{url} answers {status}; try again later")));
            } else if status != StatusCode::OK {
                return Ok(Found::Nothing(format!("{url} answers {status}")));
            } else {
                return Ok(serde_json::from_slice(answer.body()).map_or_else(
                    |_| Found::Nothing(format!("{url} does not answer with a JSON object")),
                    Found::Document,
                ));
            }
        }
        Ok(Found::Nothing(format!("more than {REDIRECTS_MAX} redirects, the last to {url}")))
    }

    /// Posts a body whose answer is a short JSON object, whatever the status. No redirect is
    /// followed: the body has secrets.
    pub(super) async fn post(&self, post: Post<'_>) -> Result<(StatusCode, Map<String, Value>)> {
        let url = post.url;
        self.reach.check(url)?;
        let mut request =
            request(Method::POST, url)?.header(header::CONTENT_TYPE, post.content_type);
        if let Some(value) = post.authorization {
            request = request.header(header::AUTHORIZATION, value);
        }
        let request = request.body(post.body).map_err(|e| unsendable(url, &e))?;
        let answer = self.pool().await.fetch(request, ANSWER_BYTES_MAX, REQUEST_TIMEOUT).await?;
        let status = answer.status();
        let object = serde_json::from_slice(answer.body());
        if status.is_success() && object.is_err() {
            let why = format!("{url} answers {status} without a JSON object");
            return Err(Error::malformed(why));
        }
        Ok((status, object.unwrap_or_default()))
    }

    /// Where a page redirects to; `None` if it does not.
    pub(super) async fn redirect(&self, url: &Url) -> Result<(StatusCode, Option<Url>)> {
        self.reach.check(url)?;
        let request = request(Method::GET, url)?;
        let request = request.body(Bytes::new()).map_err(|e| unsendable(url, &e))?;
        let answer = self.pool().await.fetch(request, METADATA_BYTES_MAX, REQUEST_TIMEOUT).await?;
        let redirected = answer.status().is_redirection();
        let next = redirected.then(|| location(url, &answer)).flatten();
        Ok((answer.status(), next))
    }
}

impl Fetch {
    /// The connections to use: into private networks only if the server is in one, which its name
    /// may show, or where its name leads.
    async fn pool(&self) -> &Pool {
        if self.reach.private || leads_into_private(&self.server).await {
            return &self.pool;
        }
        &self.public
    }
}

/// Whether a name has addresses, none of them public.
async fn leads_into_private(url: &Url) -> bool {
    let (Some(Host::Domain(name)), Some(port)) = (url.host(), url.port_or_known_default()) else {
        return false;
    };
    let Ok(addresses) = tokio::net::lookup_host((name, port)).await else { return false };
    let mut places = addresses.map(|address| place_of(address.ip())).peekable();
    places.peek().is_some() && places.all(|place| place != Place::Public)
}

/// One POST with secrets in it.
pub(super) struct Post<'a> {
    pub(super) url: &'a Url,
    pub(super) content_type: &'static str,
    pub(super) authorization: Option<HeaderValue>,
    pub(super) body: Bytes,
}

fn request(method: Method, url: &Url) -> Result<http::request::Builder> {
    let mut url = url.clone();
    url.set_fragment(None);
    let uri: http::Uri = url.as_str().parse().map_err(|e| unsendable(&url, &e))?;
    Ok(Request::builder().method(method).uri(uri).header(header::ACCEPT, "application/json"))
}

fn location(from: &Url, answer: &Response<Bytes>) -> Option<Url> {
    let value = answer.headers().get(header::LOCATION)?.to_str().ok()?;
    from.join(value).ok()
}

/// The query stays out of the message: it may have secrets.
fn unsendable(url: &Url, why: &dyn std::fmt::Display) -> Error {
    Error::malformed(format!("no request can be made for {}: {why}", bare(url)))
}

/// A URL without its query and fragment, for messages.
pub(super) fn bare(url: &Url) -> Url {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// Where requests may go: `https`, or `http` on this machine; not into private networks unless the
/// MCP server is in one.
///
/// Names are judged by their look first, and by where they lead when [`Fetch`] connects. A server
/// that moves its own name into a private network meanwhile is taken for one that lives there: keep
/// a client that runs next to private services behind an egress proxy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    private: bool,
}

impl Reach {
    /// As far as a client of this MCP server may go.
    pub(super) fn of(server: &Url) -> Self {
        Self { private: matches!(place(server), Place::Loopback | Place::Private) }
    }

    pub(super) fn check(self, url: &Url) -> Result<()> {
        let place = place(url);
        let why = match (url.scheme(), place) {
            ("http" | "https", Place::Nowhere) => "no service may live at this address",
            ("http" | "https", Place::Loopback | Place::Private) if !self.private => {
                "a public server must not send its clients to private addresses"
            }
            ("http", Place::Loopback) | ("https", _) => {
                if url.username().is_empty() && url.password().is_none() {
                    return Ok(());
                }
                "it has a user name or a password in it"
            }
            _ => "only https, or http on this machine, is safe for authorization",
        };
        Err(Error::malformed(format!("authorization is not done at {}: {why}", bare(url))))
    }
}

/// What kind of network a host is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Loopback,
    Private,
    /// Link-local (where clouds keep their metadata), multicast, reserved, unspecified.
    Nowhere,
    Public,
}

fn place(url: &Url) -> Place {
    match url.host() {
        None => Place::Nowhere,
        Some(Host::Ipv4(ip)) => place_v4(ip),
        Some(Host::Ipv6(ip)) => place_v6(ip),
        Some(Host::Domain(name)) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            if name == "localhost" || name.ends_with(".localhost") {
                Place::Loopback
            } else if name.ends_with(".local") || name.ends_with(".internal") {
                Place::Private
            } else {
                Place::Public
            }
        }
    }
}

/// Whether a URL stays on this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    place(url) == Place::Loopback
}

/// Whether an address is this machine's.
pub(super) fn is_loopback_address(ip: IpAddr) -> bool {
    place_of(ip) == Place::Loopback
}

fn place_of(ip: IpAddr) -> Place {
    match ip {
        IpAddr::V4(ip) => place_v4(ip),
        IpAddr::V6(ip) => place_v6(ip),
    }
}

fn place_v4(ip: Ipv4Addr) -> Place {
    match ip.octets() {
        [127, ..] => Place::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => Place::Private,
        [0, ..] | [169, 254, ..] | [224..=255, ..] => Place::Nowhere,
        [192, 0, 0 | 2, _] | [198, 18..=19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => {
            Place::Nowhere
        }
        _ => Place::Public,
    }
}

fn place_v6(ip: Ipv6Addr) -> Place {
    let v4 = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        place_v4(Ipv4Addr::new(a, b, c, d))
    };
    match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => Place::Loopback,
        // An IPv4 address in another form goes where the IPv4 address goes.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        [0xfc00..=0xfdff, ..] => Place::Private,
        [0x2000..=0x3fff, second, ..] if ip.segments()[0] != 0x2001 || second != 0xdb8 => {
            Place::Public
        }
        _ => Place::Nowhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(server: &str, url: &str) -> bool {
        Reach::of(&server.parse().unwrap()).check(&url.parse().unwrap()).is_ok()
    }

    #[test]
    fn a_public_server_reaches_public_https_only() {
        for url in ["https://as.example.com/x", "https://8.8.8.8/", "https://[2606:4700::1111]/"] {
            assert!(allowed("https://mcp.example.com/mcp", url), "{url}");
        }
        for url in [
            "http://as.example.com/",
            "http://localhost:9000/",
            "https://localhost/",
            "https://a.localhost./",
            "https://127.0.0.1/",
            "https://0x7f.1/",
            "https://2130706433/",
            "https://10.1.2.3/",
            "https://172.31.0.1/",
            "https://192.168.0.1/",
            "https://100.64.0.1/",
            "https://169.254.169.254/latest/meta-data",
            "https://0.0.0.0/",
            "https://255.255.255.255/",
            "https://[::1]/",
            "https://[::]/",
            "https://[fd00::1]/",
            "https://[fe80::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://[::ffff:169.254.169.254]/",
            "https://[64:ff9b::7f00:1]/",
            "https://[2002:7f00:1::]/",
            "https://[2001:db8::1]/",
            "https://metadata.google.internal/",
            "https://printer.local/",
            "https://user:secret@as.example.com/",
            "ftp://as.example.com/",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "data:text/plain,x",
        ] {
            assert!(!allowed("https://mcp.example.com/mcp", url), "{url}");
        }
    }

    #[test]
    fn a_server_on_this_machine_or_in_a_private_network_reaches_its_neighbours() {
        for server in ["http://localhost:3000/mcp", "http://[::1]/", "https://10.0.0.9/mcp"] {
            for url in ["http://127.0.0.1:1/", "https://10.0.0.1/", "https://as.example.com/"] {
                assert!(allowed(server, url), "{server} {url}");
            }
            for url in ["http://10.0.0.1/", "https://169.254.169.254/", "http://example.com/"] {
                assert!(!allowed(server, url), "{server} {url}");
            }
        }
    }

    #[tokio::test]
    async fn where_a_name_leads_is_judged_when_it_connects() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let fetch = |server: &str| Fetch::new(Pool::new(), &server.parse().unwrap());
        // The resolver says where this is, and not its look.
        let local: Url = format!("http://localhost:{port}/").parse().unwrap();
        assert!(leads_into_private(&local).await);
        let request = request(Method::GET, &local).unwrap().body(Bytes::new()).unwrap();
        let second = Duration::from_secs(1);
        let public = fetch("https://8.8.8.8/mcp");
        let pool = public.pool().await;
        let error = pool.fetch(request.clone(), 9, second).await.unwrap_err();
        assert!(error.is_unreachable() && error.to_string().contains("must not go"), "{error}");
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "it was connected to");
        // A neighbour of the server may be asked; this one accepts and says nothing.
        let private = fetch("http://localhost:1/mcp");
        let error = private.pool().await.fetch(request, 9, second).await.unwrap_err();
        assert!(error.is_timeout() && listener.accept().is_ok(), "{error}");
    }

    #[test]
    fn messages_have_no_query() {
        let url = "http://as.example.com/x?code=secret#secret".parse().unwrap();
        let error = Reach::of(&url).check(&url).unwrap_err().to_string();
        assert!(error.contains("http://as.example.com/x") && !error.contains("secret"), "{error}");
    }
}
