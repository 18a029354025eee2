//! One try to deliver one event: one request and one response, without redirects or proxy, with limits on
//! time and size.

use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentctl_core::events::Event;
use agentctl_core::host::Host;
use agentctl_core::model::Time;
use agentctl_core::talk::Trust;
use ureq::Agent;
use ureq::config::Config;
use ureq::http::{Request, Response};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::transport::{Connector, RustlsConnector, TcpConnector};

use super::address::{CheckedResolver, Lookup};
use super::{Signing, World, body, headers};
use crate::config::WebhookEndpoint;

/// Maximum number of bytes read of a response body.
const MAX_RESPONSE_BYTES: u64 = 64 << 10;
/// Timeout for the body of a response.
const RESPONSE_BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// A failed try.
pub(super) struct DeliveryError {
    pub(super) at: Time,
    /// A sentence for the log, without a secret.
    pub(super) what: String,
    /// No response, or the endpoint is overloaded: any other event would fail too.
    pub(super) unreachable: bool,
    /// The endpoint's `Retry-After`.
    pub(super) retry_after: Option<Duration>,
    /// The endpoint answered 410 Gone: do not retry.
    pub(super) gone: bool,
}

pub(super) struct Post {
    endpoint: Arc<WebhookEndpoint>,
    host: Arc<Host>,
    lookup: Lookup,
    /// Created at the first try, so that an endpoint without events costs no memory.
    agent: Mutex<Option<Agent>>,
}

impl Post {
    pub(super) fn new(endpoint: Arc<WebhookEndpoint>, world: &World) -> Self {
        let (host, lookup) = (Arc::clone(&world.host), Arc::clone(&world.lookup));
        Self { endpoint, host, lookup, agent: Mutex::new(None) }
    }

    /// Delivers an event and returns the time of the response. Any status but 2xx is an error.
    pub(super) fn post(&self, event: &Event) -> Result<Time, DeliveryError> {
        let failed = |what| DeliveryError {
            at: self.host.now(),
            what,
            unreachable: true,
            retry_after: None,
            gone: false,
        };
        let mut response = self.send(event).map_err(failed)?;
        let status = response.status();
        let retry_after =
            response.headers().get("retry-after").and_then(|v| v.to_str().ok()?.parse().ok());
        // Read the body: a receiver may count a connection that is closed early as a failure.
        let answer = response.body_mut().as_reader().take(MAX_RESPONSE_BYTES);
        let _unread = std::io::copy(&mut { answer }, &mut std::io::sink());
        if status.is_success() {
            return Ok(self.host.now());
        }
        let what = match status.as_u16() {
            300..=399 => format!("it answered {}, and redirects are not followed", status.as_u16()),
            other => format!("it answered {other}"),
        };
        let unreachable = matches!(status.as_u16(), 429 | 502..=504);
        let gone = status.as_u16() == 410;
        let retry_after = retry_after.map(Duration::from_secs);
        Err(DeliveryError { at: self.host.now(), what, unreachable, retry_after, gone })
    }

    fn send(&self, event: &Event) -> Result<Response<ureq::Body>, String> {
        let agent = self.agent()?;
        let secret = self.endpoint.secret.as_ref().map(|s| s.read(&self.host)).transpose();
        let secret = secret.map_err(|why| format!("cannot read its secret: {why}"))?;
        let body = body(event);
        let body_alone = self.endpoint.body_signatures;
        let signing = secret.as_deref().map(|secret| Signing { secret, body_alone });
        let headers = headers(&event.id, self.host.now(), &body, signing)?;
        let mut request = Request::post(&self.endpoint.url)
            .header("content-type", "application/json")
            .header("connection", "close");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(body).map_err(|_| "the request cannot be made")?;
        agent.run(request).map_err(|error| sentence(&error))
    }

    fn agent(&self) -> Result<Agent, String> {
        let mut kept = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(agent) = &*kept {
            return Ok(agent.clone());
        }
        let endpoint = &self.endpoint;
        let mut config = Config::builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            // A proxy from `HTTP_PROXY` would resolve names itself, past our address checks.
            .proxy(None)
            .max_idle_connections(0)
            .timeout_global(Some(endpoint.timeout))
            .timeout_recv_body(Some(RESPONSE_BODY_TIMEOUT))
            .user_agent(concat!("agentctl/", env!("CARGO_PKG_VERSION")));
        if endpoint.secure {
            let trust = Trust::load(endpoint.ca_file.as_deref()).map_err(|e| e.to_string())?;
            let authorities =
                trust.authorities.iter().map(|der| Certificate::from_der(der).to_owned());
            let roots: RootCerts = authorities.collect::<Vec<_>>().into();
            let tls = TlsConfig::builder()
                .root_certs(roots)
                .unversioned_rustls_crypto_provider(trust.provider);
            config = config.tls_config(tls.build());
        }
        let wire = ().chain(TcpConnector::default()).chain(RustlsConnector::default());
        let resolver =
            CheckedResolver { endpoint: Arc::clone(endpoint), lookup: Arc::clone(&self.lookup) };
        let agent = Agent::with_parts(config.build(), wire, resolver);
        *kept = Some(agent.clone());
        Ok(agent)
    }

    /// Aborts a running request and refuses later ones.
    pub(super) fn abort(&self) {
        let kept = self.agent.lock().unwrap_or_else(PoisonError::into_inner).clone();
        kept.into_iter().for_each(Agent::shutdown);
    }
}

/// Describes an error without any part of the URL, which may be a secret.
fn sentence(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "it did not answer in time".into(),
        ureq::Error::HostNotFound => "its host name cannot be resolved".into(),
        ureq::Error::Io(error) => format!("it cannot be reached: {error}"),
        ureq::Error::Other(why) => why.to_string(),
        ureq::Error::Rustls(error) => format!("its certificate cannot be checked: {error}"),
        ureq::Error::Tls(why) => format!("TLS failed: {why}"),
        ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => {
            "its answer is not HTTP".into()
        }
        _ => "the request failed".into(),
    }
}
