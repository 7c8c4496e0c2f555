//! The endpoints of a gateway: `/NAME/mcp` for each server, `/mcp` for all of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwap;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use http::request::Parts;
use mcplane::Service;
use mcplane::proto::error::shorten;
use mcplane::transport::http::Work;
use mcplane::transport::http::server::{self, Authenticate, Denied, Endpoint, SessionLimits};
use mcplane::transport::websocket;
use sha2::{Digest, Sha256};

use crate::admin::Admin;
use crate::config::{Gateway as Settings, OWN_NAME};
use crate::gateway::Inner as Gateway;

/// Most foreign `Host` names that are reported, so that a page cannot flood the log.
const STRANGERS_MAX: usize = 16;

/// The endpoints, and who may use them.
#[derive(Clone)]
pub(crate) struct Site(Arc<Inner>);

struct Inner {
    all: Endpoint,
    /// Refuses what is for administrators: for addresses that other machines reach without a token.
    outside: Endpoint,
    strangers: Arc<Strangers>,
    service: Service,
    settings: Settings,
    guests: Option<Arc<ArcSwap<Guests>>>,
    places: ArcSwap<HashMap<Arc<str>, Endpoint>>,
}

impl Site {
    pub(crate) fn new(service: Service, gateway: Weak<Gateway>, settings: &Settings) -> Self {
        let is_guarded = !settings.tokens.is_empty();
        let guests = is_guarded.then(|| Arc::new(ArcSwap::from_pointee(Guests::new(settings))));
        let strangers = Arc::new(Strangers::new(gateway.clone()));
        let builder = || endpoint(&service, "", settings, guests.as_ref(), &strangers);
        let outside = Admin::new(gateway.clone(), true);
        Self(Arc::new(Inner {
            all: builder().pages(Arc::new(Admin::new(gateway, false))).build(),
            outside: builder().pages(Arc::new(outside)).build(),
            strangers,
            service,
            settings: settings.clone(),
            guests,
            places: ArcSwap::default(),
        }))
    }

    /// As clients of one listener see it.
    pub(crate) fn at(&self, is_public: bool) -> AtListener {
        AtListener { site: self.clone(), is_outside: is_public && self.0.guests.is_none() }
    }

    /// Whether the sender of this request may use the administration.
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
            Some(guests) if guests.load().is_admin(head) => Ok(()),
            Some(_) => Err("this is for the principals in `gateway.admins`"),
        }
    }

    pub(crate) fn service(&self) -> Service {
        self.0.service.clone()
    }

    /// An endpoint for one server.
    pub(crate) fn endpoint_of(&self, name: &str, service: &Service) -> Endpoint {
        let prefix = format!("/{name}");
        let (settings, guests) = (&self.0.settings, self.0.guests.as_ref());
        endpoint(service, &prefix, settings, guests, &self.0.strangers).build()
    }

    /// Replaces the tokens. Sessions and streams of a revoked token end. A gateway that started without
    /// tokens stays without.
    pub(crate) fn welcome(&self, settings: &Settings) {
        let Some(guests) = &self.0.guests else { return };
        let new = Arc::new(Guests::new(settings));
        let old = guests.swap(Arc::clone(&new));
        let places = self.0.places.load();
        for principal in old.without(&new) {
            places.values().chain([&self.0.all]).for_each(|endpoint| endpoint.revoke(principal));
        }
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

/// The site behind one listener.
pub(crate) struct AtListener {
    site: Site,
    /// Reachable from other machines without a token.
    is_outside: bool,
}

impl server::Site for AtListener {
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
    guests: Option<&Arc<ArcSwap<Guests>>>,
    strangers: &Arc<Strangers>,
) -> server::Builder {
    let strangers = Arc::clone(strangers);
    let builder = Endpoint::builder(service.clone())
        .path(format!("{prefix}/mcp"))
        .legacy_sse(format!("{prefix}/sse"), format!("{prefix}/messages"))
        .websocket(websocket::Config::default())
        .sessions(SessionLimits {
            idle: settings.session_idle.duration(),
            ..SessionLimits::default()
        })
        .hosts(&settings.hosts)
        .origins(&settings.origins)
        .on_foreign_host(move |host| strangers.note(host));
    match guests {
        // DNS rebinding leads a page to this machine, but gives it no token.
        Some(guests) => builder.any_host().authenticate(Known(Arc::clone(guests))),
        None => builder,
    }
}

/// The principals by the hash of their token, so that a lookup takes the same time whatever was sent.
struct Guests {
    principals: HashMap<[u8; 32], Arc<str>>,
    admins: BTreeSet<String>,
}

struct Known(Arc<ArcSwap<Guests>>);

impl Guests {
    fn new(settings: &Settings) -> Self {
        let tokens = settings.tokens.iter();
        let guest = |(name, token): (&String, &crate::config::Secret)| {
            (hash(token.expose().as_bytes()), name.as_str().into())
        };
        let admins = settings.admins.iter().cloned().collect();
        Self { principals: tokens.map(guest).collect(), admins }
    }

    /// The principals whose token is gone or has changed.
    fn without<'a>(&'a self, new: &'a Self) -> impl Iterator<Item = &'a Arc<str>> {
        let is_lost =
            |(token, name): &(&[u8; 32], &Arc<str>)| new.principals.get(*token) != Some(name);
        self.principals.iter().filter(is_lost).map(|(_, name)| name)
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

/// `Host` names that were refused: each is reported once.
struct Strangers {
    gateway: Weak<Gateway>,
    told: Mutex<BTreeSet<String>>,
}

impl Strangers {
    const fn new(gateway: Weak<Gateway>) -> Self {
        Self { gateway, told: Mutex::new(BTreeSet::new()) }
    }

    fn note(&self, host: &str) {
        let host = shorten(host).into_owned();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < STRANGERS_MAX
            && told.insert(host.clone())
            && let Some(gateway) = self.gateway.upgrade()
        {
            gateway.tell(&format!(
                "a request for the host `{host}` was refused: if clients call this machine so, \
                 name it in gateway.hosts"
            ));
        }
    }
}

fn hash(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

impl Authenticate for Known {
    fn authenticate<'a>(&'a self, head: &'a Parts) -> Work<'a, Result<Arc<str>, Denied>> {
        Box::pin(std::future::ready(self.0.load().find(head)))
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
