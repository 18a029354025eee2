//! The checks of a request, and the response to a request that fails one.

use std::borrow::Cow;

use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::Access;
use super::names::OwnNames;
use super::token::{BearerCheck, TokenCheck, WrongTokenBudget, check};

/// Why a request is refused.
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// A stable word for programs.
    pub(crate) code: &'static str,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) hint: Option<Cow<'static, str>>,
    header: Option<Box<(HeaderName, HeaderValue)>>,
}

/// Writes a refusal as a response.
pub(crate) type RefusalForm = fn(Refusal) -> Response;

impl Refusal {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        reason: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { status, code, reason: reason.into(), hint: None, header: None }
    }

    /// Adds a hint.
    pub(crate) fn hint(self, hint: impl Into<Cow<'static, str>>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    fn with_header(self, name: HeaderName, value: &'static str) -> Self {
        Self { header: Some(Box::new((name, HeaderValue::from_static(value)))), ..self }
    }

    /// The caller may not use the server.
    pub(crate) fn forbidden(code: &'static str, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, reason)
    }

    /// The process that connects is not known.
    pub(crate) fn unproven() -> Self {
        Self::forbidden("caller_unknown", "the process that connects cannot be determined")
    }

    /// The path is none of the server's.
    pub(super) fn not_found(paths: impl Iterator<Item = &'static str>) -> Self {
        let paths = paths.collect::<Vec<_>>().join(", ");
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("there is only {paths}"))
    }

    /// The path exists, with another method.
    pub(super) fn method_not_allowed(allowed: &Method) -> Self {
        let value = HeaderValue::from_str(allowed.as_str()).ok();
        Self {
            header: value.map(|value| Box::new((header::ALLOW, value))),
            ..Self::new(StatusCode::METHOD_NOT_ALLOWED, "method", format!("only {allowed}"))
        }
    }

    /// Too many wrong tokens came in.
    pub(crate) fn too_many() -> Self {
        let reason = "too many wrong tokens";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many", reason)
            .with_header(header::RETRY_AFTER, "1")
    }

    /// Writes it as a line of text.
    pub(crate) fn text(self) -> Response {
        let body = format!("{}\n", self.reason);
        self.with_body(body.into_response())
    }

    /// Adds its status and its header to a response.
    pub(crate) fn with_body(self, mut response: Response) -> Response {
        *response.status_mut() = self.status;
        response.headers_mut().extend(self.header.map(|header| *header));
        response
    }
}

/// Refuses a request that another name was used for, or that a web page of another origin sends, except a link to a file
/// of the page. Without names every name is accepted.
pub(super) fn check_caller(
    names: Option<&OwnNames>,
    request: &Request,
    access: Option<Access>,
) -> Result<(), Refusal> {
    let headers = request.headers();
    if let Some(names) = names {
        let host = single_value(headers, &header::HOST);
        if !host.is_some_and(|host| names.contain(host)) || request.uri().authority().is_some() {
            return Err(Refusal::forbidden("unknown_host", "unknown host"));
        }
    }
    let other_origin =
        || Refusal::forbidden("other_origin", "requests from other web pages are refused");
    if headers.contains_key(header::ORIGIN) {
        let origin = single_value(headers, &header::ORIGIN);
        let is_own = |origin: &str| names.is_some_and(|names| names.has_origin(origin));
        if !origin.is_some_and(is_own) {
            return Err(other_origin());
        }
    }
    let mut sites = headers.get_all("sec-fetch-site").iter();
    let is_own = sites.all(|site| site == "same-origin" || site == "none");
    if is_own || (access == Some(Access::Public) && is_navigation(request)) {
        return Ok(());
    }
    Err(other_origin())
}

/// Says whether the browser opens the address in a tab of its own. The page then holds no data until its own script asks
/// for it, and no other page can read or frame it. Scripts cannot set these headers.
fn is_navigation(request: &Request) -> bool {
    let has = |name: &'static str, value: &str| {
        single_value(request.headers(), &HeaderName::from_static(name)) == Some(value)
    };
    request.method() == Method::GET
        && has("sec-fetch-mode", "navigate")
        && has("sec-fetch-dest", "document")
}

/// Refuses a request without the right token.
pub(super) fn check_token(
    (tokens, budget): (&dyn BearerCheck, &WrongTokenBudget),
    authorization: Option<&str>,
) -> Result<(), Refusal> {
    let unauthorized = |reason| {
        Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", reason)
            .with_header(header::WWW_AUTHENTICATE, "Bearer")
    };
    match check(tokens, budget, authorization) {
        TokenCheck::Right => Ok(()),
        TokenCheck::Missing => Err(unauthorized("a token is needed")),
        TokenCheck::Wrong => Err(unauthorized("the token is wrong")),
        TokenCheck::TooManyWrong => Err(Refusal::too_many()),
    }
}

/// Refuses a body that is not JSON: a web form of another page cannot send this type.
pub(super) fn check_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let kind = single_value(headers, &header::CONTENT_TYPE).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let reason = "the body must have the type application/json";
    Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "type", reason))
}

/// Reads the body, up to a limit.
pub(super) async fn json_body(request: Request, limit: usize) -> Result<Bytes, Refusal> {
    let too_large = || {
        let reason = format!("the body has more than {limit} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", reason)
    };
    let length = single_value(request.headers(), &header::CONTENT_LENGTH);
    if length.is_some_and(|length| length.parse::<usize>().is_ok_and(|length| length > limit)) {
        return Err(too_large());
    }
    to_bytes(request.into_body(), limit).await.map_err(|_| too_large())
}

/// Returns the value of a header that occurs exactly once. Of two values, a proxy and this server could
/// each believe another.
pub(super) fn single_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}
