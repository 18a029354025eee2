//! Serves HTTP on TCP ports and Unix sockets: bounded connections, and the checks that every request passes before a
//! route answers it.
//!
//! The order of the checks is fixed: `Host` header, `Origin` and `Sec-Fetch-Site` headers, path, bearer token, method,
//! the process that connects, type and size of the body. A connection carries one request. A caller provides names,
//! the check of tokens, the check of processes and `Route`s, and cannot leave out a check.

mod connection;
mod names;
mod peer;
mod refusal;
mod token;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use agentctl_core::inbox::Answerer;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};

use self::connection::{BoundedListener, ConnectionInfo};
pub(crate) use self::connection::{Limits, Listener};
pub(crate) use self::names::OwnNames;
pub(crate) use self::peer::Peer;
pub(crate) use self::refusal::{Refusal, RefusalForm};
pub(crate) use self::token::{
    BearerCheck, Token, TokenSource, WrongTokenBudget, bearer, read_or_generate,
};

/// Maximum size of a body that comes without a token.
pub const MAX_PAIRING_BODY_BYTES: usize = 4 << 10;

/// The response that a route is computing.
pub(crate) type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Answers a request that passed every check.
pub(crate) type Handler = Box<dyn Fn(Call) -> Answer + Send + Sync>;

/// A request that passed every check.
pub(crate) struct Call {
    pub(crate) headers: HeaderMap,
    /// The part of the address after the question mark; empty if there is none.
    pub(crate) query: String,
    /// The body; empty where the route takes none.
    pub(crate) body: Bytes,
    /// The process that connects, where the route needs to know it and it is on this machine.
    pub(crate) caller: Option<Answerer>,
}

/// The proof that a caller needs for a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing: the answer holds no data.
    Public,
    /// No token: the route gives one away.
    Pairing,
    /// The token.
    Data,
    /// The token; the route gives orders.
    Control,
    /// A connection to the private socket. On any other the path does not exist.
    Private,
}

impl Access {
    fn needs_token(self) -> bool {
        matches!(self, Self::Data | Self::Control)
    }
}

/// One path that a server answers.
pub(crate) struct Route {
    /// The path, compared exactly.
    pub(crate) path: &'static str,
    /// The only method that is allowed on the path. A route for POST takes a JSON body.
    pub(crate) method: Method,
    /// The proof that a caller needs.
    pub(crate) access: Access,
    /// The connection is closed this long after the head of the request was read.
    pub(crate) lifetime: Duration,
    /// Computes the response.
    pub(crate) handler: Handler,
}

/// Checks the process that connects. Blocks: the kernel is asked.
pub(crate) trait PeerCheck: Send + Sync {
    /// Refuses a process that may not use a route of this access. Returns the process where it matters later.
    fn check(&self, peer: &Peer, access: Access) -> Result<Option<Answerer>, Refusal>;
}

/// The processes that may connect.
pub(crate) enum Peers {
    /// Every process with the token.
    Any,
    /// The processes that this check admits.
    Checked(Arc<dyn PeerCheck>),
}

/// How the connections of a listener are trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// Every check applies.
    Open,
    /// A socket that only this user can open: neither a name nor a token is needed.
    Private,
}

/// Everything that one server checks and answers.
pub(crate) struct Server {
    pub(crate) names: OwnNames,
    pub(crate) tokens: Box<dyn BearerCheck>,
    pub(crate) budget: Arc<WrongTokenBudget>,
    pub(crate) peers: Peers,
    pub(crate) routes: Vec<Route>,
    /// The `Content-Security-Policy` of every response.
    pub(crate) policy: &'static str,
    /// How refusals are written.
    pub(crate) refusals: RefusalForm,
}

/// A server behind one listener.
struct Served {
    server: Arc<Server>,
    door: Door,
    limits: Limits,
}

impl Server {
    /// Serves the connections of a listener until the runtime ends.
    pub(crate) async fn serve(
        self: Arc<Self>,
        listener: Listener,
        (door, limits): (Door, Limits),
    ) -> io::Result<()> {
        let served = Arc::new(Served { server: self, door, limits });
        let router = Router::new().fallback(answer).with_state(served);
        let service = router.into_make_service_with_connect_info::<ConnectionInfo>();
        axum::serve(BoundedListener::new(listener, limits), service).await
    }

    /// Checks the headers; returns the route of the request.
    fn route(&self, door: Door, request: &Request) -> Result<&Route, Refusal> {
        let names = (door == Door::Open).then_some(&self.names);
        let exists = |route: &&Route| route.access != Access::Private || door == Door::Private;
        let routes = || self.routes.iter().filter(exists);
        let route = routes().find(|route| route.path == request.uri().path());
        refusal::check_caller(names, request, route.map(|route| route.access))?;
        // A server that tells nothing without its token does not tell its paths either.
        let tells_paths = routes().any(|route| !route.access.needs_token());
        if door == Door::Open && route.map_or(!tells_paths, |route| route.access.needs_token()) {
            let authorization = refusal::single_value(request.headers(), &header::AUTHORIZATION);
            refusal::check_token((self.tokens.as_ref(), &self.budget), authorization)?;
        }
        let Some(route) = route else {
            return Err(Refusal::not_found(routes().map(|route| route.path)));
        };
        if request.method() != route.method {
            return Err(Refusal::method_not_allowed(&route.method));
        }
        Ok(route)
    }

    /// Asks the kernel about the process that connects.
    async fn caller(&self, peer: &Peer, access: Access) -> Result<Option<Answerer>, Refusal> {
        let Peers::Checked(check) = &self.peers else { return Ok(None) };
        if access == Access::Public {
            return Ok(None);
        }
        let (check, peer) = (Arc::clone(check), peer.clone());
        let checked = tokio::task::spawn_blocking(move || check.check(&peer, access));
        checked.await.unwrap_or_else(|_| Err(Refusal::unproven()))
    }

    /// Runs all checks and computes the response.
    async fn respond(
        &self,
        served: &Served,
        connection: &ConnectionInfo,
        request: Request,
    ) -> Result<Response, Refusal> {
        let route = self.route(served.door, &request)?;
        connection.lifetime.set(route.lifetime);
        let caller = self.caller(&connection.peer, route.access).await?;
        let headers = request.headers().clone();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let body = if route.method == Method::POST {
            refusal::check_json(&headers)?;
            let is_pairing = route.access == Access::Pairing;
            let most = if is_pairing { MAX_PAIRING_BODY_BYTES } else { usize::MAX };
            refusal::json_body(request, served.limits.body_bytes.min(most)).await?
        } else {
            Bytes::new()
        };
        Ok((route.handler)(Call { headers, query, body, caller }).await)
    }
}

/// Answers one request.
async fn answer(
    State(served): State<Arc<Served>>,
    ConnectInfo(connection): ConnectInfo<ConnectionInfo>,
    request: Request,
) -> Response {
    let server = &served.server;
    let mut response = match server.respond(&served, &connection, request).await {
        Ok(response) => response,
        Err(refusal) => (server.refusals)(refusal).into_response(),
    };
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    for (name, value) in [
        (header::CONNECTION, "close"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, server.policy),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    fn route(path: &'static str, lifetime: Duration) -> Route {
        let handler = |_| -> Answer { Box::pin(async { "answered".into_response() }) };
        let (method, access) = (Method::GET, Access::Data);
        Route { path, method, access, lifetime, handler: Box::new(handler) }
    }

    #[test]
    fn a_connection_lives_as_long_as_its_route_says() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let bound = tokio::net::TcpListener::bind("127.0.0.1:0");
        let listener = runtime.block_on(bound).expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = Arc::new(Server {
            names: OwnNames::new(address, &[]),
            tokens: Box::new(Token::new("0123456789abcdef").expect("random bytes")),
            budget: Arc::default(),
            peers: Peers::Any,
            routes: vec![route("/long", Duration::from_hours(1)), route("/none", Duration::ZERO)],
            policy: "default-src 'none'",
            refusals: Refusal::text,
        });
        let serve = server.serve(Listener::Tcp(listener), (Door::Open, Limits::small()));
        std::thread::spawn(move || runtime.block_on(serve));
        let get = |path: &str| {
            let mut stream = TcpStream::connect(address).expect("connected");
            let head = format!(
                "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer 0123456789abcdef\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).expect("sent");
            let mut answer = String::new();
            // A connection that timed out may be reset.
            let _reset = stream.read_to_string(&mut answer);
            answer
        };
        assert!(get("/long").ends_with("answered"));
        assert_eq!(get("/none"), "", "closed before the answer");
        assert!(get("/else").ends_with("there is only /long, /none\n"), "the default lifetime");
    }
}
