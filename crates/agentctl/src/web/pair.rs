//! Pairing: a code of a link becomes the token of a device.

use std::time::Duration;

use agentctl_core::model::Time;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Web;
use super::codes::CODE_LIFETIME;
use super::link::Links;
use super::reply::{failed, json, refused};
use crate::failure::{Failure, Kind};
use crate::http::Refusal;

/// How long a token is good that the page keeps while it is open.
const TOKEN_LIFETIME: Duration = Duration::from_hours(12);
/// How long a token is good that the device keeps.
const KEPT_TOKEN_LIFETIME: Duration = Duration::from_hours(30 * 24);

/// The body of `/api/pair`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PairRequest {
    code: String,
    #[serde(default)]
    keep: bool,
}

/// The answer to `/api/pair`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PairDocument {
    /// The token of the device, for the header `Authorization: Bearer TOKEN`.
    token: String,
    /// It is good until then.
    until: Time,
    /// Orders are taken.
    control: bool,
    /// The version of the program.
    version: &'static str,
}

/// Exchanges a code for a token.
pub(super) fn pair(web: &Web, headers: &HeaderMap, body: &[u8]) -> Response {
    let Ok(request) = serde_json::from_slice::<PairRequest>(body) else {
        return failed(&Failure::new(Kind::Usage, "the body cannot be read"));
    };
    if !web.codes.take(&request.code) {
        return refused(if web.budget.allows_a_wrong_one() {
            let reason = "the link was used already, or is too old";
            Refusal::new(StatusCode::UNAUTHORIZED, "code", reason)
                .hint("`agentctl web --link` prints a new one")
        } else {
            Refusal::too_many()
        });
    }
    // Without https another program could take the port later, and read what the browser keeps for it.
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let is_https = origin.is_some_and(|origin| origin.starts_with("https://"));
    let kept = request.keep && is_https;
    let until = in_future(web, if kept { KEPT_TOKEN_LIFETIME } else { TOKEN_LIFETIME });
    match until.and_then(|until| Ok((web.keys.issue(until)?, until))) {
        Ok((token, until)) => {
            let (control, version) = (web.settings.control, env!("CARGO_PKG_VERSION"));
            json(&PairDocument { token, until, control, version })
        }
        Err(why) => failed(&Failure::new(Kind::Failed, why)),
    }
}

/// Answers `/api/link`.
pub(super) fn link(web: &Web) -> Response {
    match links(web) {
        Ok(links) => json(&links),
        Err(failure) => failed(&failure),
    }
}

/// Makes a code; returns the links that hold it.
pub(super) fn links(web: &Web) -> Result<Links, Failure> {
    let failure = |why| Failure::new(Kind::Failed, why);
    let code = web.codes.make().map_err(failure)?;
    let until = in_future(web, CODE_LIFETIME).map_err(failure)?;
    Ok(Links::new((web.url.as_deref(), &web.settings.hosts), &code, until))
}

fn in_future(web: &Web, span: Duration) -> Result<Time, String> {
    let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    let then = web.fleet.host.now().millis().saturating_add(millis);
    Time::from_millis(then).ok_or_else(|| "the clock is wrong".to_owned())
}
