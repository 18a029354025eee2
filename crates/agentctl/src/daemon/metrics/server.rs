//! Serves `GET /metrics` on a TCP port, if it is configured. The checks of a request are in [`crate::http`].
//!
//! If the port is in use, the daemon reports it and retries; everything else of the daemon goes on.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentctl_core::adapters::ALL;
use agentctl_core::fleet::Fleet;
use agentctl_core::host::Host;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::{DaemonFigures, Form, Metrics};
use crate::config::MetricsSettings;
use crate::daemon::Hub;
use crate::http::{
    Access, Call, Door, Limits, Listener, OwnNames, Peers, Refusal, Route, Server, Token,
    TokenSource,
};
use crate::protocol::MetricsStatus;

/// Pause before the first retry of a port that is in use. It doubles with each retry.
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(250);
/// Maximum pause between two retries.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(30);
/// The connection of a scrape is closed after this long, even if the scrape is not done.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(10);
const PATH: &str = "/metrics";
/// The file in the state directory for a generated token.
const TOKEN_FILE: &str = "metrics.token";

/// The metrics and the state of their server.
pub(in crate::daemon) struct MetricsServer {
    settings: MetricsSettings,
    token_file: PathBuf,
    pub(in crate::daemon) metrics: Arc<Metrics>,
    status: Mutex<MetricsStatus>,
}

impl MetricsServer {
    /// Starts counting. Nothing is served before [`open`].
    pub(in crate::daemon) fn new(settings: MetricsSettings, host: &Arc<Host>) -> io::Result<Self> {
        let metrics = Metrics::start(Fleet::new(Arc::clone(host), ALL))?;
        let url = url(settings.listen);
        let token_file = host.state().join(TOKEN_FILE);
        let server = Self { settings, token_file, metrics, status: Mutex::default() };
        let token = server.token_source().description();
        let trouble = Some("it is not ready yet".into());
        server.update_status(|status| *status = MetricsStatus { url, token, trouble });
        Ok(server)
    }

    fn token_source(&self) -> TokenSource<'_> {
        TokenSource { configured: self.settings.token.as_ref(), file: self.token_file.clone() }
    }

    /// Returns the current status.
    pub(in crate::daemon) fn status(&self) -> MetricsStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn update_status(&self, change: impl FnOnce(&mut MetricsStatus)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}{PATH}")
}

/// Starts serving. If the port is in use, returns at once and retries in the background.
pub(in crate::daemon) async fn open(hub: &Arc<Hub>) {
    let Some(server) = &hub.metrics else { return };
    let token = match server.token_source().load(&hub.host) {
        Ok(token) => token,
        Err(why) => {
            fail(hub, server, format!("there is no token: {why}"));
            return;
        }
    };
    match TcpListener::bind(server.settings.listen).await {
        Ok(listener) => serve(hub, server, listener, token),
        Err(error) => {
            fail(hub, server, format!("{}: {error}", server.settings.listen));
            tokio::spawn(retry(Arc::clone(hub), token));
        }
    }
}

/// Retries the port until it can be bound.
async fn retry(hub: Arc<Hub>, token: Token) {
    let Some(server) = &hub.metrics else { return };
    let mut pause = FIRST_RETRY_PAUSE;
    loop {
        tokio::time::sleep(pause).await;
        match TcpListener::bind(server.settings.listen).await {
            Ok(listener) => return serve(&hub, server, listener, token),
            Err(error) => {
                let trouble = format!("{}: {error}", server.settings.listen);
                server.update_status(|status| status.trouble = Some(trouble));
            }
        }
        pause = (pause * 2).min(MAX_RETRY_PAUSE);
    }
}

fn fail(hub: &Hub, server: &MetricsServer, why: String) {
    hub.log.warn("metrics", json!({"error": why, "hint": "everything else is served"}));
    server.update_status(|status| status.trouble = Some(why));
}

fn serve(hub: &Arc<Hub>, server: &MetricsServer, listener: TcpListener, token: Token) {
    // With port 0 the kernel chooses the port.
    let address = listener.local_addr().unwrap_or(server.settings.listen);
    hub.log.info("metrics", json!({"url": url(address)}));
    server.update_status(|status| {
        status.url = url(address);
        status.trouble = None;
    });
    let names = OwnNames::new(address, &server.settings.hosts);
    let http = Arc::new(Server {
        names,
        tokens: Box::new(token),
        budget: Arc::default(),
        peers: Peers::Any,
        routes: vec![route(hub)],
        policy: "default-src 'none'; frame-ancestors 'none'",
        refusals: Refusal::text,
    });
    tokio::spawn(http.serve(Listener::Tcp(listener), (Door::Open, Limits::small())));
}

/// The one route. Concurrent scrapes run one after the other.
fn route(hub: &Arc<Hub>) -> Route {
    let (hub, turn) = (Arc::clone(hub), Arc::new(Semaphore::new(1)));
    let handler = move |Call { headers, .. }: Call| -> crate::http::Answer {
        let (hub, turn) = (Arc::clone(&hub), Arc::clone(&turn));
        Box::pin(async move { scrape(&hub, &turn, &headers).await })
    };
    Route {
        path: PATH,
        method: Method::GET,
        access: Access::Data,
        lifetime: CONNECTION_LIFETIME,
        handler: Box::new(handler),
    }
}

/// Takes a fresh look and returns all metrics as text.
async fn scrape(hub: &Hub, turn: &Semaphore, headers: &HeaderMap) -> Response {
    let accept: Vec<_> = headers.get_all(header::ACCEPT).iter().collect();
    let accept: Vec<_> = accept.iter().filter_map(|value| value.to_str().ok()).collect();
    let form = Form::accepted(&accept.join(","));
    let Some(server) = &hub.metrics else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let metrics = Arc::clone(&server.metrics);
    let _turn = turn.acquire().await;
    let figures = DaemonFigures {
        since: hub.welcome.since,
        subscribers: hub.watch_thread.sinks.events.receiver_count(),
        webhooks: hub.watch_thread.sinks.webhooks.status(),
    };
    let scraped = tokio::task::spawn_blocking(move || metrics.scrape(figures, form));
    match scraped.await {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, form.content_type())], text).into_response(),
        _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
