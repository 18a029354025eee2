//! Documents and failures as responses.

use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::failure::{ErrorDocument, Failure, Kind};
use crate::http::Refusal;
use crate::text::json_line;

/// The body of an answer, or why there is none.
pub(super) type Body = Result<Bytes, Failure>;

const JSON: &str = "application/json; charset=utf-8";

/// Serialises a document as the command line does: text of agents holds no control characters.
pub(super) fn body(value: &impl Serialize) -> Body {
    let line = json_line(value);
    let line = line.map_err(|error| Failure::new(Kind::Failed, error.to_string()))?;
    Ok(Bytes::from(line))
}

/// Answers with a document.
pub(super) fn json(value: &impl Serialize) -> Response {
    match body(value) {
        Ok(bytes) => ok(bytes),
        Err(failure) => failed(&failure),
    }
}

/// Answers with a serialised document.
pub(super) fn ok(bytes: Bytes) -> Response {
    ([(header::CONTENT_TYPE, JSON)], bytes).into_response()
}

/// Answers with a failure: the sentence, hint and code of the command line.
pub(super) fn failed(failure: &Failure) -> Response {
    let status = match failure.kind() {
        Kind::Usage => StatusCode::BAD_REQUEST,
        Kind::NotFound | Kind::Ambiguous | Kind::NoAsk | Kind::AmbiguousAsk => {
            StatusCode::NOT_FOUND
        }
        Kind::Refused | Kind::Blocked => StatusCode::CONFLICT,
        Kind::Unanswered => StatusCode::SERVICE_UNAVAILABLE,
        Kind::Failed | Kind::TimedOut | Kind::BrokenPipe => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let line = json_line(&failure.document()).unwrap_or_default();
    (status, [(header::CONTENT_TYPE, JSON)], line).into_response()
}

/// Answers with a refusal in the same form.
pub(super) fn refused(refusal: Refusal) -> Response {
    let hint = refusal.hint.as_deref();
    let document = ErrorDocument::refusal(refusal.code, refusal.reason.as_ref(), hint);
    let line = json_line(&document).unwrap_or_default();
    let response = ([(header::CONTENT_TYPE, JSON)], line).into_response();
    refusal.with_body(response)
}
