//! The endpoints of a gateway: `/NAME/mcp` for each server, `/mcp` for all of them.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use http::request::Parts;
use mcplane::Service;
use mcplane::transport::http::client::credentials::Work;
use mcplane::transport::http::server::{self, Authenticate, Denied, Endpoint, SessionLimits};
use mcplane::transport::websocket;
use sha2::{Digest, Sha256};

use crate::admin::Admin;
use crate::config::Gateway as Settings;

/// Where clients find what.
#[derive(Clone)]
pub(crate) struct Site(Arc<Inner>);

struct Inner {
    all: Endpoint,
    service: Service,
    settings: Settings,
    guests: Option<Arc<Guests>>,
    places: ArcSwap<HashMap<Arc<str>, Endpoint>>,
}

impl Site {
    pub(crate) fn new(service: Service, admin: Admin, settings: &Settings) -> Self {
        let guests = (!settings.tokens.is_empty()).then(|| Arc::new(Guests::new(settings)));
        let builder = endpoint(&service, "", settings, guests.as_ref());
        Self(Arc::new(Inner {
            all: builder.pages(Arc::new(admin)).build(),
            service,
            settings: settings.clone(),
            guests,
            places: ArcSwap::default(),
        }))
    }

    pub(crate) fn service(&self) -> Service {
        self.0.service.clone()
    }

    /// An endpoint for one server.
    pub(crate) fn endpoint_of(&self, name: &str, service: &Service) -> Endpoint {
        let prefix = format!("/{name}");
        endpoint(service, &prefix, &self.0.settings, self.0.guests.as_ref()).build()
    }

    /// The servers that have an endpoint of their own from now on.
    pub(crate) fn set(&self, places: HashMap<Arc<str>, Endpoint>) {
        let old = self.0.places.swap(Arc::new(places));
        let new = self.0.places.load();
        for (_, gone) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
            gone.close();
        }
    }

    /// Sessions of the revisions that have them.
    pub(crate) fn sessions(&self) -> usize {
        let places = self.0.places.load();
        self.0.all.sessions() + places.values().map(Endpoint::sessions).sum::<usize>()
    }
}

impl server::Site for Site {
    fn endpoint(&self, path: &str) -> Option<Endpoint> {
        let mut segments = path.split('/').skip(1);
        let (first, second) = (segments.next()?, segments.next());
        if second.is_none() {
            return Some(self.0.all.clone());
        }
        let places = self.0.places.load();
        Some(places.get(first).unwrap_or(&self.0.all).clone())
    }

    fn endpoints(&self) -> Vec<Endpoint> {
        let places = self.0.places.load();
        places.values().chain([&self.0.all]).cloned().collect()
    }
}

fn endpoint(
    service: &Service,
    prefix: &str,
    settings: &Settings,
    guests: Option<&Arc<Guests>>,
) -> server::Builder {
    let builder = Endpoint::builder(service.clone())
        .path(format!("{prefix}/mcp"))
        .legacy_sse(format!("{prefix}/sse"), format!("{prefix}/messages"))
        .websocket(websocket::Config::default())
        .sessions(SessionLimits {
            idle: settings.session_idle.duration(),
            ..SessionLimits::default()
        })
        .hosts(&settings.hosts)
        .origins(&settings.origins);
    match guests {
        Some(guests) => builder.authenticate(Known(Arc::clone(guests))),
        None => builder,
    }
}

/// Who may come in: principals by the hash of their token, so that looking one up takes as long
/// whatever was sent.
struct Guests(HashMap<[u8; 32], Arc<str>>);

struct Known(Arc<Guests>);

impl Guests {
    fn new(settings: &Settings) -> Self {
        let tokens = settings.tokens.iter();
        let guest = |(name, token): (&String, &crate::config::Secret)| {
            (hash(token.expose().as_bytes()), name.as_str().into())
        };
        Self(tokens.map(guest).collect())
    }

    fn find(&self, head: &Parts) -> Result<Arc<str>, Denied> {
        let sent = head.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let token = sent.and_then(|sent| {
            let (scheme, token) = sent.split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
        });
        let known = token.and_then(|token| self.0.get(&hash(token)));
        known.cloned().ok_or_else(|| {
            Denied::unauthorized(HeaderValue::from_static("Bearer realm=\"mcplane\""))
        })
    }
}

fn hash(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

impl Authenticate for Known {
    fn authenticate<'a>(&'a self, head: &'a Parts) -> Work<'a, Result<Arc<str>, Denied>> {
        Box::pin(std::future::ready(self.0.find(head)))
    }
}
