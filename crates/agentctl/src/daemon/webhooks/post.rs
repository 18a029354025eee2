//! One try to deliver one event: one request, one answer, no redirect, no proxy, bounded in time and size.

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

use super::address::{Judge, Lookup};
use super::{Signing, World, body, headers};
use crate::config::WebhookEndpoint;

/// So much of an answer is read: enough for its sender to finish a sentence.
const ANSWER_BYTES: u64 = 64 << 10;
/// What follows a status is waited for no longer than this.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// Why an event was not taken.
pub(super) struct Trouble {
    pub(super) at: Time,
    /// In a sentence, without a secret.
    pub(super) what: String,
    /// Nobody answered, or nobody takes anything now: another event would fare no better.
    pub(super) closed: bool,
    /// It asked for this much time.
    pub(super) wait: Option<Duration>,
    /// It asked never to be sent this again.
    pub(super) hopeless: bool,
}

pub(super) struct Post {
    endpoint: Arc<WebhookEndpoint>,
    host: Arc<Host>,
    lookup: Lookup,
    /// Made for the first try: an endpoint that never hears anything costs nothing.
    agent: Mutex<Option<Agent>>,
}

impl Post {
    pub(super) fn new(endpoint: Arc<WebhookEndpoint>, world: &World) -> Self {
        let (host, lookup) = (Arc::clone(&world.host), Arc::clone(&world.lookup));
        Self { endpoint, host, lookup, agent: Mutex::new(None) }
    }

    /// Delivers an event, and returns when; anything but a 2xx is trouble.
    pub(super) fn post(&self, event: &Event) -> Result<Time, Trouble> {
        let silent =
            |what| Trouble { at: self.host.now(), what, closed: true, wait: None, hopeless: false };
        let mut response = self.send(event).map_err(silent)?;
        let status = response.status();
        let wait =
            response.headers().get("retry-after").and_then(|v| v.to_str().ok()?.parse().ok());
        // Hung up on before it has said everything, a receiver may take that for a failure.
        let answer = response.body_mut().as_reader().take(ANSWER_BYTES);
        let _unread = std::io::copy(&mut { answer }, &mut std::io::sink());
        if status.is_success() {
            return Ok(self.host.now());
        }
        let what = match status.as_u16() {
            300..=399 => format!("it answered {}, and redirects are not followed", status.as_u16()),
            other => format!("it answered {other}"),
        };
        let closed = matches!(status.as_u16(), 429 | 502..=504);
        let hopeless = status.as_u16() == 410;
        let wait = wait.map(Duration::from_secs);
        Err(Trouble { at: self.host.now(), what, closed, wait, hopeless })
    }

    fn send(&self, event: &Event) -> Result<Response<ureq::Body>, String> {
        let agent = self.agent()?;
        let secret = self.endpoint.secret.as_ref().map(|s| s.read(&self.host)).transpose();
        let secret = secret.map_err(|why| format!("its secret cannot be had: {why}"))?;
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
            // One named by a variable would resolve by itself, behind our back.
            .proxy(None)
            .max_idle_connections(0)
            .timeout_global(Some(endpoint.timeout))
            .timeout_recv_body(Some(ANSWER_TIME))
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
        let judge = Judge { endpoint: Arc::clone(endpoint), lookup: Arc::clone(&self.lookup) };
        let agent = Agent::with_parts(config.build(), wire, judge);
        *kept = Some(agent.clone());
        Ok(agent)
    }

    /// Ends whatever is on its way, and refuses what would follow.
    pub(super) fn cut_off(&self) {
        let kept = self.agent.lock().unwrap_or_else(PoisonError::into_inner).clone();
        kept.into_iter().for_each(Agent::shutdown);
    }
}

/// What went wrong, in words that hold no part of the address.
fn sentence(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "it did not answer in time".into(),
        ureq::Error::HostNotFound => "its name has no address".into(),
        ureq::Error::Io(error) => format!("it cannot be reached: {error}"),
        ureq::Error::Other(why) => why.to_string(),
        ureq::Error::Rustls(error) => format!("its certificate cannot be checked: {error}"),
        ureq::Error::Tls(why) => format!("it cannot be spoken to in cipher: {why}"),
        ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => {
            "its answer is not HTTP".into()
        }
        _ => "the request failed".into(),
    }
}
