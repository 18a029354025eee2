//! The page in the browser: a server of its own process, with the files of the page inside the program.
//!
//! It answers with the documents of the command line. Every route is a row of [`routes`]; the checks of a request are in
//! [`crate::http`], those of the connecting process in `gate`. A link holds a code that is good once; the page
//! exchanges it for a token (`keys`). A second, private socket gives out links.

mod assets;
mod board;
mod codes;
mod documents;
mod feeder;
mod gate;
mod keys;
pub mod link;
mod orders;
mod own_socket;
mod pair;
mod query;
mod reply;
mod routes;
mod stream;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use agentctl_core::ask::Fleet;
use agentctl_core::host::Host;
use agentctl_core::kernel::{self, Cancellation, OpenOrder};
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ring::digest::{SHA256, digest};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

pub use self::assets::{ASSETS, Asset};
use self::codes::Codes;
use self::feeder::Feeder;
use self::gate::Gate;
use self::keys::{Claim, Keys};
pub use self::link::{Links, RunningServer};
use self::own_socket::OwnSocket;
pub(crate) use self::pair::PairDocument;
use self::query::QueryText;
use self::reply::Body;
pub use self::routes::{Endpoint, RouteRow, routes};
pub(crate) use self::stream::StreamEvent;
use crate::config::{Loaded, WebAddress, WebSettings};
use crate::failure::{Failure, Kind};
pub use crate::http::{Access, MAX_PAIRING_BODY_BYTES};
use crate::http::{
    Answer, Call, Door, Limits, Listener, OwnNames, Peers, Route, Server, WrongTokenBudget, bearer,
};
use crate::place::{Instance, Place};
use crate::text::hex;

/// Most threads for questions, orders and the checks of connecting processes; further ones wait.
const MAX_CONCURRENT: usize = 16;
/// Most orders that are worked on at once, so that there are always threads for questions and checks.
const MAX_ORDERS: usize = 9;
/// Most launches and messages that are worked on at once, so that there are always threads for answers and stops: the
/// setup of a worktree can take minutes.
const MAX_LAUNCHES: usize = 6;
/// Most questions about changed files that are worked on at once: a filter of a repository can keep git for minutes.
const MAX_SLOW_QUESTIONS: usize = 3;
/// Most open connections: each open page has one, and each request one more.
const MAX_CONNECTIONS: usize = 512;
/// Maximum size of the body of a request.
pub const MAX_BODY_BYTES: usize = 1 << 20;
/// The policy that the browser enforces on the page.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Everything that the routes share.
struct Web {
    fleet: Fleet,
    loaded: Loaded,
    settings: WebSettings,
    keys: Arc<Keys>,
    codes: Codes,
    budget: Arc<WrongTokenBudget>,
    feeder: Arc<Feeder>,
    history: documents::History,
    orders: Arc<Semaphore>,
    launches: Arc<Semaphore>,
    slow_questions: Arc<Semaphore>,
    /// The address without a code.
    url: Option<String>,
}

fn response(body: Body) -> Response {
    match body {
        Ok(bytes) => reply::ok(bytes),
        Err(failure) => reply::failed(&failure),
    }
}

/// Calls a question off when its request is over: its client may have left. That ends the programs of the question.
struct EndedWithRequest(Cancellation);

impl EndedWithRequest {
    /// Begins a question, which holds the order while it is worked on. The order is open from the beginning: the request
    /// may be over before the question has a thread.
    fn begin(cancellation: &Cancellation) -> (Self, OpenOrder) {
        (Self(cancellation.clone()), cancellation.open())
    }
}

impl Drop for EndedWithRequest {
    fn drop(&mut self) {
        let _has_ended = self.0.cancel();
    }
}

impl Web {
    /// Runs a question or an order on a thread of its own; `None` if that thread failed. The thread keeps the permit:
    /// it works on after the client has left.
    async fn on_thread(
        self: &Arc<Self>,
        permit: impl Send + 'static,
        work: impl FnOnce(&Self) -> Body + Send + 'static,
    ) -> Option<Body> {
        let web = Arc::clone(self);
        let run = move || {
            let _permit = permit;
            work(&web)
        };
        tokio::task::spawn_blocking(run).await.ok()
    }

    /// Answers a question.
    async fn blocking_body(
        self: &Arc<Self>,
        permit: impl Send + 'static,
        work: impl FnOnce(&Self) -> Body + Send + 'static,
    ) -> Body {
        let failed = || Err(Failure::new(Kind::Failed, "the question failed"));
        self.on_thread(permit, work).await.unwrap_or_else(failed)
    }

    async fn blocking(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Body + Send + 'static,
    ) -> Response {
        response(self.blocking_body((), work).await)
    }

    /// Answers a question that may take minutes. Its programs are ended if the client leaves.
    async fn slow(
        self: &Arc<Self>,
        work: impl FnOnce(&Self, &Fleet) -> Body + Send + 'static,
    ) -> Response {
        let permit = Arc::clone(&self.slow_questions).acquire_owned().await;
        let fleet = Fleet::new(Arc::clone(&self.fleet.host), self.fleet.adapters);
        let (_ended, order) = EndedWithRequest::begin(&fleet.cancellation);
        let work = move |web: &Self| {
            if fleet.cancellation.is_cancelled() {
                return Err(Failure::new(Kind::Failed, "the client has left"));
            }
            work(web, &fleet)
        };
        response(self.blocking_body((permit, order), work).await)
    }

    /// Carries out an order that ends soon.
    async fn order(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Body + Send + 'static,
    ) -> Response {
        self.order_with((), work).await
    }

    /// Carries out an order that has a permit already.
    async fn order_with(
        self: &Arc<Self>,
        permit: impl Send + 'static,
        work: impl FnOnce(&Self) -> Body + Send + 'static,
    ) -> Response {
        let permits = (permit, Arc::clone(&self.orders).acquire_owned().await);
        // It may have been carried out before its thread failed.
        let failed = || Err(Failure::new(Kind::Failed, "the order failed").unclear());
        response(self.on_thread(permits, work).await.unwrap_or_else(failed))
    }

    /// Carries out an order that may start an agent.
    async fn launch(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Body + Send + 'static,
    ) -> Response {
        let permit = Arc::clone(&self.launches).acquire_owned().await;
        self.order_with(permit, work).await
    }

    /// Returns the claim of the token of a request.
    fn claim(&self, headers: &HeaderMap) -> Option<Claim> {
        let authorization = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        self.keys.claim(bearer(authorization)?)
    }

    /// Answers one request.
    async fn answer(self: Arc<Self>, endpoint: Endpoint, call: Call) -> Response {
        let query = QueryText::parse(&call.query);
        let (bytes, caller): (Bytes, _) = (call.body, call.caller);
        match endpoint {
            Endpoint::Asset(at) => asset(at, &call.headers),
            Endpoint::Pair => pair::pair(&self, &call.headers, &bytes),
            Endpoint::Link => pair::link(&self),
            Endpoint::Server => reply::json(&RunningServer {
                address: self.url.clone().unwrap_or_else(|| self.settings.listen.to_string()),
                control: self.settings.control,
                pid: std::process::id(),
            }),
            Endpoint::Sessions => documents::sessions(&self, query).await,
            Endpoint::Stream => {
                let claim = self.claim(&call.headers);
                stream::stream(&self, query, claim).await
            }
            Endpoint::Session => self.blocking(move |web| documents::session(web, &query)).await,
            Endpoint::Why => self.blocking(move |web| documents::why(web, &query)).await,
            Endpoint::Talk => self.blocking(move |web| documents::talk(web, &query)).await,
            Endpoint::Asks => self.blocking(documents::asks).await,
            Endpoint::Changes => self.slow(move |_, fleet| documents::changes(fleet, &query)).await,
            Endpoint::Diff => {
                self.slow(move |web, fleet| documents::diff(web, fleet, &query)).await
            }
            Endpoint::Begin => self.blocking(documents::begin).await,
            Endpoint::Answer => self.order(move |web| orders::answer(web, &bytes, caller)).await,
            Endpoint::Send => {
                self.launch(move |web| orders::send(web, &bytes, caller.as_ref())).await
            }
            Endpoint::Stop => {
                self.order(move |web| orders::stop(web, &bytes, caller.as_ref())).await
            }
            Endpoint::Launch => {
                self.launch(move |web| orders::launch(web, &bytes, caller.as_ref())).await
            }
        }
    }

    /// Returns the routes with their handlers.
    fn routes(self: &Arc<Self>) -> Vec<Route> {
        let route = |row: RouteRow| {
            let (web, endpoint) = (Arc::clone(self), row.endpoint);
            let handler =
                move |call: Call| -> Answer { Box::pin(Arc::clone(&web).answer(endpoint, call)) };
            Route {
                path: row.path,
                method: if row.method == "POST" { Method::POST } else { Method::GET },
                access: row.access,
                lifetime: endpoint.lifetime(),
                handler: Box::new(handler),
            }
        };
        routes().into_iter().map(route).collect()
    }
}

/// Answers with a file of the page; briefly, if the browser has it already.
fn asset(at: usize, headers: &HeaderMap) -> Response {
    let Some(asset) = ASSETS.get(at) else { return StatusCode::NOT_FOUND.into_response() };
    let sent = asset.sent();
    // The digest of what is sent: a browser must not keep a file of another build.
    let tag = format!("\"{}\"", hex(digest(&SHA256, sent.as_bytes()).as_ref()));
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| *known == tag);
    let tags = [(header::ETAG, tag), (header::CACHE_CONTROL, "no-cache".to_owned())];
    if is_known {
        return (StatusCode::NOT_MODIFIED, tags).into_response();
    }
    (tags, [(header::CONTENT_TYPE, asset.kind)], sent).into_response()
}

/// Serves until it is told to end. Calls `serving` with a link and the address once it serves; a Unix socket has none.
pub fn run(
    mut loaded: Loaded,
    settings: WebSettings,
    (place, right): (&Place, &Instance),
    serving: impl FnOnce(&Links, Option<SocketAddr>) -> io::Result<()>,
) -> Result<(), Failure> {
    kernel::keep_memory_together();
    // A long-lived process profits from a cache of the files it has read.
    loaded.host = Arc::new(Host { file_cache: Some(Arc::default()), ..Host::clone(&loaded.host) });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(MAX_CONCURRENT)
        .build()?;
    let served = runtime.block_on(serve(loaded, settings, (place, right), serving));
    // Do not wait for a thread that hangs in a system call.
    runtime.shutdown_background();
    served
}

async fn serve(
    loaded: Loaded,
    settings: WebSettings,
    (place, right): (&Place, &Instance),
    serving: impl FnOnce(&Links, Option<SocketAddr>) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let (listener, _own_socket, names, address) = open(&settings).await?;
    let private = place.listen(right)?;
    private.set_nonblocking(true)?;
    let private = UnixListener::from_std(private)?;
    let keys = Keys::open(&loaded.host)
        .map_err(|why| Failure::new(Kind::Failed, format!("there is no key for tokens: {why}")))?;
    let (fleet, keys, budget) = (loaded.fleet(), Arc::new(keys), Arc::default());
    let feeder = Arc::new(Feeder::new(fleet.clone(), loaded.source_faults()));
    let gate = Gate {
        fleet: fleet.clone(),
        control: settings.control,
        proxy_users: settings.proxy_users.clone(),
    };
    let web = Arc::new(Web {
        fleet,
        loaded,
        settings,
        keys: Arc::clone(&keys),
        codes: Codes::default(),
        budget: Arc::clone(&budget),
        feeder,
        history: documents::History::default(),
        orders: Arc::new(Semaphore::new(MAX_ORDERS)),
        launches: Arc::new(Semaphore::new(MAX_LAUNCHES)),
        slow_questions: Arc::new(Semaphore::new(MAX_SLOW_QUESTIONS)),
        url: address.map(link::url_of),
    });
    let server = Arc::new(Server {
        names,
        tokens: Box::new(keys),
        budget,
        peers: Peers::Checked(Arc::new(gate)),
        routes: web.routes(),
        policy: POLICY,
        refusals: reply::refused,
    });
    let limits = Limits { connections: max_connections(), body_bytes: MAX_BODY_BYTES };
    tokio::spawn(Arc::clone(&server).serve(listener, (Door::Open, limits)));
    tokio::spawn(server.serve(Listener::Unix(private), (Door::Private, limits)));
    serving(&pair::links(&web)?, address)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = hangup.recv() => {}
    }
    Ok(())
}

/// Returns the maximum number of connections: at most half of the limit of open files, because answering
/// questions opens files too.
fn max_connections() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let files = files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
    MAX_CONNECTIONS.min(files / 2).max(1)
}

/// Listens on the configured address. Returns with it the file of a Unix socket, which is removed when it is dropped.
async fn open(
    settings: &WebSettings,
) -> Result<(Listener, Option<OwnSocket>, OwnNames, Option<SocketAddr>), Failure> {
    let failed = |error: io::Error| {
        Failure::new(Kind::Failed, format!("{}: {error}", settings.listen))
            .hint("--listen ADDRESS chooses another address; port 0 is any free port")
    };
    match &settings.listen {
        WebAddress::Tcp(address) => {
            let listener = TcpListener::bind(address).await.map_err(failed)?;
            // With port 0 the kernel chooses the port.
            let address = listener.local_addr().unwrap_or(*address);
            let names = OwnNames::new(address, &[]).with_https(&settings.hosts);
            Ok((Listener::Tcp(listener), None, names, Some(address)))
        }
        WebAddress::Unix(path) => {
            let others_too = !settings.proxy_users.is_empty();
            let (listener, own) = OwnSocket::listen(path, others_too).map_err(failed)?;
            let names = OwnNames::of_proxies(&settings.hosts);
            Ok((Listener::Unix(listener), Some(own), names, None))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_question_without_a_thread_is_called_off_with_its_request() {
        let cancellation = Cancellation::default();
        let (request, order) = EndedWithRequest::begin(&cancellation);
        drop(request);
        // `Fleet::diff` opens an order of its own once there is a thread.
        let work = cancellation.open();
        assert!(cancellation.is_cancelled(), "it would run on without a client");
        drop((work, order));
        let (_request, _order) = EndedWithRequest::begin(&cancellation);
        assert!(!cancellation.is_cancelled());
    }

    #[test]
    fn a_browser_keeps_a_file_of_the_page_only_as_long_as_its_text_is_the_same() {
        let tag = |at| asset(at, &HeaderMap::new()).headers()[header::ETAG].clone();
        let tags: HashSet<_> = (0..ASSETS.len()).map(tag).collect();
        assert_eq!(tags.len(), ASSETS.len(), "each text has a tag of its own");
        let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, tag(1))]);
        let codes = [1, 2].map(|at| asset(at, &headers).status());
        assert_eq!(codes, [StatusCode::NOT_MODIFIED, StatusCode::OK]);
    }
}
