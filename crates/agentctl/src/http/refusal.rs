//! The checks of a request, and the response to a request that fails one.

use std::borrow::Cow;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::names::OwnNames;
use super::token::{Token, TokenCheck};

/// Why a request is refused.
pub(super) struct Refusal {
    status: StatusCode,
    reason: Cow<'static, str>,
    header: Option<(HeaderName, HeaderValue)>,
}

impl Refusal {
    fn new(status: StatusCode, reason: &'static str) -> Self {
        Self { status, reason: reason.into(), header: None }
    }

    fn with_header(self, name: HeaderName, value: &'static str) -> Self {
        Self { header: Some((name, HeaderValue::from_static(value))), ..self }
    }

    /// The path is none of the server's.
    pub(super) fn not_found(paths: String) -> Self {
        let reason = format!("there is only {paths}").into();
        Self { status: StatusCode::NOT_FOUND, reason, header: None }
    }

    /// The path exists, with another method.
    pub(super) fn method_not_allowed(allowed: &Method) -> Self {
        let value = HeaderValue::from_str(allowed.as_str()).ok();
        Self {
            status: StatusCode::METHOD_NOT_ALLOWED,
            reason: format!("only {allowed}").into(),
            header: value.map(|value| (header::ALLOW, value)),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, format!("{}\n", self.reason)).into_response();
        response.headers_mut().extend(self.header);
        response
    }
}

/// Refuses a request that another name was used for, or that a web page of another origin sends.
pub(super) fn check_caller(names: &OwnNames, request: &Request) -> Result<(), Refusal> {
    let headers = request.headers();
    let host = single_value(headers, &header::HOST);
    if !host.is_some_and(|host| names.contain(host)) || request.uri().authority().is_some() {
        let reason = "unknown host";
        return Err(Refusal::new(StatusCode::FORBIDDEN, reason));
    }
    let other_origin =
        || Refusal::new(StatusCode::FORBIDDEN, "requests from other web pages are refused");
    if headers.contains_key(header::ORIGIN) {
        let origin = single_value(headers, &header::ORIGIN);
        let name = origin.and_then(|origin| origin.strip_prefix("http://"));
        if !name.is_some_and(|name| names.contain(name)) {
            return Err(other_origin());
        }
    }
    let mut sites = headers.get_all("sec-fetch-site").iter();
    if sites.any(|site| site != "same-origin" && site != "none") {
        return Err(other_origin());
    }
    Ok(())
}

/// Refuses a request without the right token.
pub(super) fn check_token(token: &Token, authorization: Option<&str>) -> Result<(), Refusal> {
    let unauthorized = |reason| {
        Refusal::new(StatusCode::UNAUTHORIZED, reason)
            .with_header(header::WWW_AUTHENTICATE, "Bearer")
    };
    match token.check(authorization) {
        TokenCheck::Right => Ok(()),
        TokenCheck::Missing => Err(unauthorized("a token is needed")),
        TokenCheck::Wrong => Err(unauthorized("the token is wrong")),
        TokenCheck::TooManyWrong => {
            let refusal = Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too many wrong tokens");
            Err(refusal.with_header(header::RETRY_AFTER, "1"))
        }
    }
}

/// Returns the value of a header that occurs exactly once. Of two values, a proxy and this server could
/// each believe another.
pub(super) fn single_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}
