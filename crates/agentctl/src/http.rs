//! Serves HTTP on a TCP port: bounded connections, and the checks that every request passes before a
//! route answers it.
//!
//! The order of the checks is fixed: `Host` header, `Origin` and `Sec-Fetch-Site` headers, bearer token,
//! path, method. A connection carries one request. A caller provides names, a token and `Route`s, and
//! cannot leave out a check.

mod connection;
mod names;
mod refusal;
mod token;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;

use self::connection::{BoundedListener, Lifetime};
pub(crate) use self::names::OwnNames;
use self::refusal::{Refusal, single_value};
pub(crate) use self::token::{Token, TokenSource};

/// The response that a route is computing.
pub(crate) type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Answers a request that passed every check. Gets the headers of the request.
pub(crate) type Handler = Box<dyn Fn(HeaderMap) -> Answer + Send + Sync>;

/// One path that a server answers.
pub(crate) struct Route {
    /// The path, compared exactly.
    pub(crate) path: &'static str,
    /// The only method that is allowed on the path.
    pub(crate) method: Method,
    /// The connection is closed this long after the head of the request was read.
    pub(crate) lifetime: Duration,
    /// Computes the response.
    pub(crate) handler: Handler,
}

/// Everything that one server checks and answers.
pub(crate) struct Server {
    pub(crate) names: OwnNames,
    pub(crate) token: Token,
    pub(crate) routes: Vec<Route>,
}

impl Server {
    /// Serves the connections of a listener until the runtime ends.
    pub(crate) async fn serve(self, listener: TcpListener) -> io::Result<()> {
        let router = Router::new().fallback(answer).with_state(Arc::new(self));
        let service = router.into_make_service_with_connect_info::<Lifetime>();
        axum::serve(BoundedListener::new(listener), service).await
    }

    /// Runs all checks; returns the route of the request.
    fn route(&self, request: &Request) -> Result<&Route, Refusal> {
        refusal::check_caller(&self.names, request)?;
        let authorization = single_value(request.headers(), &header::AUTHORIZATION);
        refusal::check_token(&self.token, authorization)?;
        let Some(route) = self.routes.iter().find(|route| route.path == request.uri().path())
        else {
            let paths = self.routes.iter().map(|route| route.path);
            return Err(Refusal::not_found(paths.collect::<Vec<_>>().join(", ")));
        };
        if request.method() != route.method {
            return Err(Refusal::method_not_allowed(&route.method));
        }
        Ok(route)
    }
}

/// Answers one request.
async fn answer(
    State(server): State<Arc<Server>>,
    ConnectInfo(lifetime): ConnectInfo<Lifetime>,
    request: Request,
) -> Response {
    let mut response = match server.route(&request) {
        Ok(route) => {
            lifetime.set(route.lifetime);
            (route.handler)(request.headers().clone()).await
        }
        Err(refusal) => refusal.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONNECTION, "close"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
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
        Route { path, method: Method::GET, lifetime, handler: Box::new(handler) }
    }

    #[test]
    fn a_connection_lives_as_long_as_its_route_says() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = Server {
            names: OwnNames::new(address, &[]),
            token: Token::new("0123456789abcdef").expect("random bytes"),
            routes: vec![route("/long", Duration::from_hours(1)), route("/none", Duration::ZERO)],
        };
        std::thread::spawn(move || runtime.block_on(server.serve(listener)));
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
