//! `GET /metrics` over HTTP, for those who wish it: on this machine, with a token, and for nobody's web page.
//!
//! One request a connection, of bounded size and time. Whoever asks is checked before what is asked:
//! the name we are called by, the page it comes from, the token; only then is there a route. A port that
//! is taken is told and tried again; nothing else of the daemon waits for it.

mod guest;
mod token;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentctl_core::host::Host;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use self::guest::Door;
use self::token::{Token, Verdict};
use super::Hub;
use super::metrics::{Form, Metrics, Own};
use crate::config::MetricsSettings;

/// A port that is taken is tried again after this long, then twice as long, …
const FIRST_REST: Duration = Duration::from_millis(250);
/// … and at most so long.
const LAST_REST: Duration = Duration::from_secs(30);
const ROUTE: &str = "/metrics";

/// How it stands with the metrics.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct MetricsStatus {
    /// Where they are served.
    pub url: String,
    /// Where the token is found; never the token.
    pub token: String,
    /// Why they are not served, if they are not.
    pub trouble: Option<String>,
}

/// What is served, and how it stands with that.
pub(super) struct Desk {
    settings: MetricsSettings,
    pub(super) metrics: Arc<Metrics>,
    status: Mutex<MetricsStatus>,
}

impl Desk {
    /// Begins to count; nothing is served yet.
    pub(super) fn new(settings: MetricsSettings, host: &Arc<Host>) -> io::Result<Self> {
        let metrics = Metrics::start(Arc::clone(host))?;
        let status = MetricsStatus {
            url: url(settings.listen),
            token: token::place(settings.token.as_ref(), host),
            trouble: Some("it is not ready yet".into()),
        };
        Ok(Self { settings, metrics, status: Mutex::new(status) })
    }

    /// Returns how it stands.
    pub(super) fn status(&self) -> MetricsStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, change: impl FnOnce(&mut MetricsStatus)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}{ROUTE}")
}

/// Who may ask, and of whom.
struct Reception {
    hub: Arc<Hub>,
    token: Token,
    /// The names we may be called by.
    names: Vec<String>,
    /// Any address that is no name may be used, with this port: nobody can bend one.
    any_address: Option<u16>,
    /// One look at a time.
    looks: Semaphore,
}

/// Opens the door: at once where it can be, else as soon as it can be.
pub(super) async fn open(hub: &Arc<Hub>) {
    let Some(desk) = &hub.metrics else { return };
    let token = match Token::of(desk.settings.token.as_ref(), &hub.host) {
        Ok(token) => token,
        Err(why) => {
            fail(hub, desk, format!("there is no token: {why}"));
            return;
        }
    };
    match TcpListener::bind(desk.settings.listen).await {
        Ok(listener) => serve(hub, desk, listener, token),
        Err(error) => {
            fail(hub, desk, format!("{}: {error}", desk.settings.listen));
            tokio::spawn(try_again(Arc::clone(hub), token));
        }
    }
}

async fn try_again(hub: Arc<Hub>, token: Token) {
    let Some(desk) = &hub.metrics else { return };
    let mut rest = FIRST_REST;
    loop {
        tokio::time::sleep(rest).await;
        match TcpListener::bind(desk.settings.listen).await {
            Ok(listener) => return serve(&hub, desk, listener, token),
            Err(error) => {
                desk.note(|s| s.trouble = Some(format!("{}: {error}", desk.settings.listen)));
            }
        }
        rest = (rest * 2).min(LAST_REST);
    }
}

fn fail(hub: &Hub, desk: &Desk, why: String) {
    hub.log.warn("metrics", json!({"error": why, "hint": "everything else is served"}));
    desk.note(|status| status.trouble = Some(why));
}

fn serve(hub: &Arc<Hub>, desk: &Desk, listener: TcpListener, token: Token) {
    // With port 0 the system chooses one.
    let address = listener.local_addr().unwrap_or(desk.settings.listen);
    hub.log.info("metrics", json!({"url": url(address)}));
    desk.note(|status| {
        status.url = url(address);
        status.trouble = None;
    });
    let port = address.port();
    let mut names = desk.settings.hosts.clone();
    names.extend(["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}")));
    names.push(address.to_string());
    let reception = Reception {
        hub: Arc::clone(hub),
        token,
        names,
        any_address: (!address.ip().is_loopback()).then_some(port),
        looks: Semaphore::new(1),
    };
    let routes = Router::new().fallback(answer).with_state(Arc::new(reception));
    // It ends with the runtime.
    tokio::spawn(async move { axum::serve(Door::new(listener), routes).await });
}

/// Answers one request.
async fn answer(State(reception): State<Arc<Reception>>, request: Request) -> Response {
    let mut response = match reception.refusal(&request) {
        Some((status, why)) => (status, format!("{why}\n")).into_response(),
        None => reception.scrape(request.headers()).await,
    };
    let status = response.status();
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONNECTION, "close"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let further = match status {
        StatusCode::UNAUTHORIZED => Some((header::WWW_AUTHENTICATE, "Bearer")),
        StatusCode::TOO_MANY_REQUESTS => Some((header::RETRY_AFTER, "1")),
        StatusCode::METHOD_NOT_ALLOWED => Some((header::ALLOW, "GET")),
        _ => None,
    };
    if let Some((name, value)) = further {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

impl Reception {
    /// Says why a request gets no answer, if it gets none.
    fn refusal(&self, request: &Request) -> Option<(StatusCode, &'static str)> {
        let headers = request.headers();
        // A page that has its own name point here calls us by that name.
        let named = only(headers, &header::HOST).is_some_and(|host| self.is_ours(host));
        if !named || request.uri().authority().is_some() {
            return Some((StatusCode::FORBIDDEN, "this is not the host you are looking for"));
        }
        if headers.contains_key(header::ORIGIN) {
            let origin = only(headers, &header::ORIGIN).and_then(|o| o.strip_prefix("http://"));
            if !origin.is_some_and(|name| self.is_ours(name)) {
                return Some((StatusCode::FORBIDDEN, "not for pages from elsewhere"));
            }
        }
        let mut sites = headers.get_all("sec-fetch-site").iter();
        if sites.any(|site| site != "same-origin" && site != "none") {
            return Some((StatusCode::FORBIDDEN, "not for pages from elsewhere"));
        }
        match self.token.verdict(only(headers, &header::AUTHORIZATION)) {
            Verdict::Right => {}
            Verdict::Missing => return Some((StatusCode::UNAUTHORIZED, "a token is needed")),
            Verdict::Wrong => return Some((StatusCode::UNAUTHORIZED, "the token is wrong")),
            Verdict::TooMany => {
                return Some((StatusCode::TOO_MANY_REQUESTS, "too many wrong tokens"));
            }
        }
        if request.uri().path() != ROUTE {
            return Some((StatusCode::NOT_FOUND, "there is only /metrics"));
        }
        if request.method() != Method::GET {
            return Some((StatusCode::METHOD_NOT_ALLOWED, "only GET"));
        }
        None
    }

    fn is_ours(&self, name: &str) -> bool {
        let address = |port: u16| name.parse().is_ok_and(|a: SocketAddr| a.port() == port);
        self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
            || self.any_address.is_some_and(address)
    }

    /// Looks, counts and tells.
    async fn scrape(&self, headers: &HeaderMap) -> Response {
        let accept: Vec<_> = headers.get_all(header::ACCEPT).iter().collect();
        let accept: Vec<_> = accept.iter().filter_map(|value| value.to_str().ok()).collect();
        let form = Form::accepted(&accept.join(","));
        let Some(desk) = &self.hub.metrics else {
            return StatusCode::NOT_FOUND.into_response();
        };
        let metrics = Arc::clone(&desk.metrics);
        let _turn = self.looks.acquire().await;
        let own = Own {
            since: self.hub.welcome.since,
            subscribers: self.hub.awake.ears.events.receiver_count(),
            webhooks: self.hub.awake.ears.webhooks.status(),
        };
        let asked = tokio::task::spawn_blocking(move || metrics.scrape(own, form));
        match asked.await {
            Ok(Ok(text)) => ([(header::CONTENT_TYPE, form.content_type())], text).into_response(),
            _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}

/// Returns the value of a header that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let only = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(only)
}
