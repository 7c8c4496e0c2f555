//! The endpoints of a gateway: `/NAME/mcp` for each server, `/mcp` for all of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};

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
use crate::config::{Gateway as Settings, OWN_NAME};
use crate::gateway::Inner as Gateway;

/// Where clients find what.
#[derive(Clone)]
pub(crate) struct Site(Arc<Inner>);

struct Inner {
    all: Endpoint,
    /// Refuses what is for administrators: for doors at which anybody may come in from elsewhere.
    outside: Endpoint,
    service: Service,
    settings: Settings,
    guests: Option<Arc<Guests>>,
    places: ArcSwap<HashMap<Arc<str>, Endpoint>>,
}

impl Site {
    pub(crate) fn new(service: Service, gateway: Weak<Gateway>, settings: &Settings) -> Self {
        let guests = (!settings.tokens.is_empty()).then(|| Arc::new(Guests::new(settings)));
        let builder = || endpoint(&service, "", settings, guests.as_ref());
        let outside = Admin::new(gateway.clone(), true);
        Self(Arc::new(Inner {
            all: builder().pages(Arc::new(Admin::new(gateway, false))).build(),
            outside: builder().pages(Arc::new(outside)).build(),
            service,
            settings: settings.clone(),
            guests,
            places: ArcSwap::default(),
        }))
    }

    /// As clients see it who come in at one door.
    pub(crate) fn at(&self, is_public: bool) -> AtDoor {
        AtDoor { site: self.clone(), is_outside: is_public && self.0.guests.is_none() }
    }

    /// Whether who sends this may ask what is for administrators.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn lets_administer(
        &self,
        head: &Parts,
        is_outside: bool,
    ) -> Result<(), &'static str> {
        match &self.0.guests {
            None if is_outside => {
                Err("without `gateway.tokens` this is answered at a loopback address only")
            }
            None => Ok(()),
            Some(guests) if guests.is_admin(head) => Ok(()),
            Some(_) => Err("this is for the principals in `gateway.admins`"),
        }
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

/// The site behind one door.
pub(crate) struct AtDoor {
    site: Site,
    /// Anybody may come in, and from elsewhere.
    is_outside: bool,
}

impl server::Site for AtDoor {
    fn endpoint(&self, path: &str) -> Option<Endpoint> {
        let site = &*self.site.0;
        let mut segments = path.split('/').skip(1);
        let (first, second) = (segments.next()?, segments.next());
        if second.is_none() {
            return Some(site.all.clone());
        }
        if self.is_outside && first == OWN_NAME {
            return Some(site.outside.clone());
        }
        let places = site.places.load();
        Some(places.get(first).unwrap_or(&site.all).clone())
    }

    fn endpoints(&self) -> Vec<Endpoint> {
        let places = self.site.0.places.load();
        places.values().chain([&self.site.0.all]).cloned().collect()
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
struct Guests {
    principals: HashMap<[u8; 32], Arc<str>>,
    admins: BTreeSet<String>,
}

struct Known(Arc<Guests>);

impl Guests {
    fn new(settings: &Settings) -> Self {
        let tokens = settings.tokens.iter();
        let guest = |(name, token): (&String, &crate::config::Secret)| {
            (hash(token.expose().as_bytes()), name.as_str().into())
        };
        let admins = settings.admins.iter().cloned().collect();
        Self { principals: tokens.map(guest).collect(), admins }
    }

    fn is_admin(&self, head: &Parts) -> bool {
        self.find(head).is_ok_and(|principal| self.admins.contains(&*principal))
    }

    fn find(&self, head: &Parts) -> Result<Arc<str>, Denied> {
        let sent = head.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let token = sent.and_then(|sent| {
            let (scheme, token) = sent.split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
        });
        let known = token.and_then(|token| self.principals.get(&hash(token)));
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

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::Gateway;
    use crate::config::{Config, Secret};

    fn head(token: &str) -> Parts {
        let request = Request::get("/admin/status").header(AUTHORIZATION, token);
        request.body(()).unwrap().into_parts().0
    }

    #[tokio::test]
    async fn without_tokens_administration_is_for_this_machine() {
        let gateway = Gateway::start(Config::default()).unwrap();
        let site = &gateway.0.site;
        assert!(site.at(true).is_outside && !site.at(false).is_outside);
        assert!(site.lets_administer(&head(""), false).is_ok());
        assert!(site.lets_administer(&head(""), true).unwrap_err().contains("loopback"));

        let mut config = Config::default();
        config.gateway.tokens.insert("alice".into(), Secret::new("a"));
        config.gateway.tokens.insert("bob".into(), Secret::new("b"));
        config.gateway.admins = vec!["alice".into()];
        let gateway = Gateway::start(config).unwrap();
        let site = &gateway.0.site;
        assert!(!site.at(true).is_outside, "a token is good from everywhere");
        assert!(site.lets_administer(&head("Bearer a"), false).is_ok());
        assert!(site.lets_administer(&head("Bearer b"), false).is_err());
    }
}
