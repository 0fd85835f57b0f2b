//! The server processes: A2A servers, an authorization server, and a gateway with its agents.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use a2a_server::service::Service;
use a2a_server::store::memory::MemoryStore;
use axum::Router;
use egress::HttpClient;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use memchr::memmem;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::openclaw::{GATEWAY_TOKEN, OpenClaw, Runs};
use super::random::SimulatedEnvironment;

/// The authorization server, which issues the tokens for the last A2A server.
pub(super) const LOGIN_HOST: &str = "login.example";

/// A prefix of every credential that must not appear in any output.
const SECRET: &str = "s3cret";

/// The client secret at [`LOGIN_HOST`].
pub(super) const CLIENT_SECRET: &str = "s3cret-client";

/// The token of all webhooks.
pub(super) const HOOK_TOKEN: &str = "t-1";

/// The number of A2A servers.
pub(super) const SERVERS: usize = 3;

/// All servers of a simulation.
pub(super) struct Servers {
    pub(super) hosts: Mutex<BTreeMap<String, Running>>,
    pub(super) gateway: Mutex<Option<RunningGateway>>,
    pub(super) openclaw: Arc<OpenClaw>,
    pub(super) stores: Vec<Arc<MemoryStore>>,
    pub(super) environments: Mutex<Vec<Arc<SimulatedEnvironment>>>,
    /// The number of tokens that the authorization server issued.
    tokens: Mutex<u64>,
    pub(super) state_dir: TempDir,
    pub(super) runs: Runs,
    /// The number of starts of each server.
    pub(super) starts: Mutex<Vec<u64>>,
}

pub(super) struct Running {
    pub(super) router: Router,
    pub(super) service: Service,
    pub(super) closed: CancellationToken,
}

pub(super) struct RunningGateway {
    pub(super) nets: BTreeMap<String, Arc<dyn HttpClient>>,
    pub(super) shutdown: CancellationToken,
    pub(super) serving: JoinHandle<()>,
}

impl Servers {
    pub(super) fn new() -> Self {
        Self {
            hosts: Mutex::default(),
            gateway: Mutex::default(),
            openclaw: Arc::default(),
            stores: (0..SERVERS).map(|_| Arc::default()).collect(),
            environments: Mutex::default(),
            tokens: Mutex::default(),
            state_dir: tempfile::tempdir().unwrap(),
            runs: Arc::default(),
            starts: Mutex::new(vec![0; SERVERS]),
        }
    }

    /// Returns the router of a host, and the token that is cancelled when the server stops.
    pub(super) fn router(&self, host: &str) -> Option<(Router, CancellationToken)> {
        let hosts = self.hosts.lock().unwrap();
        let running = hosts.get(host)?;
        Some((running.router.clone(), running.closed.clone()))
    }

    /// Returns the network of the gateway for one process, and the token that is cancelled when the gateway stops.
    pub(super) fn gateway(&self, name: &str) -> Option<(Arc<dyn HttpClient>, CancellationToken)> {
        let gateway = self.gateway.lock().unwrap();
        let gateway = gateway.as_ref()?;
        Some((Arc::clone(&gateway.nets[name]), gateway.shutdown.clone()))
    }

    pub(super) fn is_up(&self, server: usize) -> bool {
        self.hosts.lock().unwrap().contains_key(&host_of(server))
    }

    /// Checks that a host receives only its own credential.
    ///
    /// # Errors
    /// The header contains another credential.
    pub(super) fn credential(&self, host: &str, headers: &HeaderMap) -> Result<(), String> {
        let Some(value) = headers.get(AUTHORIZATION) else {
            return Ok(());
        };
        let value = value.to_str().unwrap_or_default();
        // A corrupted message may register another webhook or token.
        if is_near(value.as_bytes(), format!("Bearer {HOOK_TOKEN}").as_bytes()) {
            return Ok(());
        }
        let own = match host {
            LOGIN_HOST => value.starts_with("Basic "),
            _ => (0..SERVERS).any(|server| host == host_of(server) && self.accepts(server, value)),
        };
        let issued = host == host_of(SERVERS - 1) && value.starts_with("Bearer s3cret-access-");
        if own || issued {
            Ok(())
        } else {
            Err(value.to_owned())
        }
    }

    pub(super) fn accepts(&self, server: usize, authorization: &str) -> bool {
        let token = match server + 1 == SERVERS {
            false => token_of(server),
            true => access_token(*self.tokens.lock().unwrap()),
        };
        authorization == format!("Bearer {token}")
    }

    /// Returns the number of issued tokens.
    pub(super) fn issued(&self) -> u64 {
        *self.tokens.lock().unwrap()
    }

    /// Issues a token. The server refuses the earlier ones from now on.
    pub(super) fn issue_token(&self) -> String {
        let mut tokens = self.tokens.lock().unwrap();
        *tokens += 1;
        let token = access_token(*tokens);
        format!(r#"{{"access_token": "{token}", "token_type": "Bearer", "expires_in": 3600}}"#)
    }

    /// Returns whether a text contains a credential or a part of one. Ignores a credential in which the network changed a
    /// bit.
    pub(super) fn are_credentials_in(&self, text: &str) -> bool {
        let is_changed = |rest: &[u8]| {
            let servers = (0..SERVERS).map(token_of);
            let issued = (1..=self.issued()).map(access_token);
            let others = [CLIENT_SECRET, GATEWAY_TOKEN].map(str::to_owned);
            let mut all = servers.chain(issued).chain(others);
            all.any(|own| {
                let shown = rest.get(..own.len()).unwrap_or_default();
                shown != own.as_bytes() && is_near(shown, own.as_bytes())
            })
        };
        let bytes = text.as_bytes();
        memmem::find_iter(bytes, SECRET).any(|at| !is_changed(&bytes[at..]))
    }

    /// Sets the offset of the time of day of all servers, in seconds.
    pub(super) fn adjust_clocks(&self, seconds: i64) {
        for env in self.environments.lock().unwrap().iter() {
            env.adjust(seconds);
        }
    }
}

pub(super) fn host_of(server: usize) -> String {
    format!("server-{server}.example")
}

/// Returns the token of a server. The last server accepts tokens of the authorization server.
pub(super) fn token_of(server: usize) -> String {
    format!("{SECRET}-token-{server}{server}")
}

/// Returns a token of the authorization server. Two tokens always differ in more than one bit.
fn access_token(number: u64) -> String {
    format!("{SECRET}-access-{number:04}{number:04}")
}

/// Returns whether two texts differ at most in the bit that the network changes.
pub(super) fn is_near(one: &[u8], other: &[u8]) -> bool {
    let changed = one
        .iter()
        .zip(other)
        .map(|(one, other)| (one ^ other).count_ones());
    one.len() == other.len() && changed.sum::<u32>() <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn altered_credential_is_not_detected() {
        let servers = Servers::new();
        servers.issue_token();
        servers.issue_token();
        for shown in [
            "s3cret-token-00",
            "s3cret-token-11",
            "s3cret-access-00010001",
            "s3cret-access-00020002 s3cret-tokmn-00",
            "s3cret-client",
            "s3cret-tok",
            "s3cret",
        ] {
            assert!(servers.are_credentials_in(shown), "{shown}");
        }
        for changed in ["s3cret-tokmn-00", "s3cret-access-0001000q", "secret", ""] {
            assert!(!servers.are_credentials_in(changed), "{changed}");
        }
    }
}
