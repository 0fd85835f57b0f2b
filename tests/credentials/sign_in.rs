//! Sign-ins of people at a real authorization server.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use egress::sign_in::Prompt;
use openclaw_remote_agent::plugin::CallInput;
use openclaw_remote_agent::remote_agent::{Answer, AnswerAction, Person, Question};
use openclaw_remote_agent::sign_in;
use parking_lot::Mutex;
use peer::BoxFuture;
use serde_json::{Value, json};
use testkit::conformance::Peers;
use testkit::folder::Folder;
use tokio::sync::mpsc;

use crate::credentials::authorization_server::{Server, server};
use crate::credentials::recorded_tool::RecordedTool;
use crate::credentials::tool_fixture::{
    ToolFixture, card, message, peers, reason, result, send_request, within_timeout,
};

/// A target with the sign-ins of one test.
struct Desk {
    folder: Folder,
    peers: Peers,
    target: Value,
}

impl Desk {
    async fn new(server: &Server, grant: &str, client: &str) -> Self {
        let rpc = json!({"message/send": result(message("pong"))});
        let peers = peers(json!({"main": {"card": card(), "rpc": rpc}})).await;
        let auth = json!({"type": "oauth2", "grant": grant, "issuer": server.issuer(), "clientId": client,
            "scopes": ["openid", "offline_access"], "tokenParams": {"prompt": "consent"}});
        let target = json!({"alias": "main", "default": true, "baseUrl": peers.origin("main"), "auth": auth});
        Self {
            folder: Folder::new(),
            peers,
            target,
        }
    }

    fn config(&self) -> Value {
        json!({"stateDir": self.folder.path(), "targets": [self.target]})
    }

    /// Signs in with the browser of a person who consents to everything.
    async fn sign_in(&self, server: &'static Server) {
        let sign_in = sign_in::open(&self.config().to_string(), None, None).unwrap();
        let mut browser = None;
        let show = |prompt: Prompt| {
            let url = match prompt {
                Prompt::Device(code) => code.complete_url.clone().unwrap(),
                Prompt::Browser(url) => url.clone(),
                Prompt::PasteAgain(reason) => panic!("{reason}"),
            };
            browser = Some(std::thread::spawn(move || {
                let end = server.browse(url.as_str());
                if end.contains("/callback?") {
                    open(&end);
                }
            }));
        };
        let token = within_timeout(sign_in.run(show, mpsc::channel(1).1))
            .await
            .unwrap();
        assert!(token.is_renewable());
        assert!(token.scope.unwrap().contains("offline_access"));
        browser.unwrap().join().unwrap();
    }

    /// Returns the tokens that the peer has received.
    fn tokens(&self) -> Vec<String> {
        let log = self.peers.log("main");
        let sent = log.iter().filter(|request| request.method == "POST");
        let token = sent.map(|request| request.headers["authorization"].strip_prefix("Bearer "));
        token.map(|token| token.unwrap().to_owned()).collect()
    }

    /// Returns the file of the stored token.
    fn stored(&self) -> PathBuf {
        let dir = fs::read_dir(self.folder.file("tokens")).unwrap();
        let mut files = dir.map(|entry| entry.unwrap().path());
        files
            .find(|file| {
                file.extension()
                    .is_some_and(|extension| extension == "json")
            })
            .unwrap()
    }
}

/// Opens a loopback address as a browser does.
fn open(url: &str) {
    use std::io::{Read as _, Write as _};
    let url = url::Url::parse(url).unwrap();
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", url.port().unwrap())).unwrap();
    let (path, query) = (url.path(), url.query().unwrap());
    write!(
        stream,
        "GET {path}?{query} HTTP/1.1\r\nhost: localhost\r\n\r\n"
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
}

#[tokio::test]
async fn device_code_gives_a_token_for_calls() {
    let server = server();
    let desk = Desk::new(server, "device_code", "person").await;
    let mut recorded = RecordedTool::new(&desk.config());
    let envelope = recorded.call(&send_request()).await;
    assert_eq!(reason(&envelope), "token_unavailable", "{envelope}");
    let error = envelope["error"]["message"].as_str().unwrap();
    assert!(error.contains("`remote-agent sign-in main`"), "{error}");
    desk.sign_in(server).await;
    assert_eq!(recorded.call(&send_request()).await["ok"], true);
    let sent = desk.tokens();
    assert!(server.is_active(&sent[0]));
    let stored: Value = serde_json::from_slice(&fs::read(desk.stored()).unwrap()).unwrap();
    let refresh = stored["refreshToken"].as_str().unwrap();
    recorded.assert_omits(&[&sent[0], refresh]);
}

/// A person who opens the link with a browser that consents, and never answers; or who declines.
struct Signer {
    server: Option<&'static Server>,
    asked: Mutex<Vec<Question>>,
    withdrawn: Mutex<Vec<String>>,
}

impl Signer {
    fn new(server: Option<&'static Server>) -> Arc<Self> {
        Arc::new(Self {
            server,
            asked: Mutex::default(),
            withdrawn: Mutex::default(),
        })
    }
}

impl Person for Signer {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer> {
        self.asked.lock().push(question.clone());
        let Some(server) = self.server else {
            return Box::pin(async { Answer::without_words(AnswerAction::Decline) });
        };
        let url = question.url.clone().unwrap();
        std::thread::spawn(move || {
            let end = server.browse(&url);
            if end.contains("/callback?") {
                open(&end);
            }
        });
        Box::pin(std::future::pending())
    }

    fn withdraw(&self, id: &str) {
        self.withdrawn.lock().push(id.to_owned());
    }
}

#[tokio::test]
async fn person_signs_in_during_the_call_that_needs_it() {
    let server = server();
    for grant in ["device_code", "authorization_code"] {
        let desk = Desk::new(server, grant, "person").await;
        let signer = Signer::new(Some(server));
        let fixture = ToolFixture::new(&desk.config());
        let call = || CallInput {
            request: send_request().to_string(),
            person: Some(signer.clone()),
            ..CallInput::default()
        };
        // Both need the token, and one of them asks.
        let both =
            futures_util::future::join(fixture.plugin.start(call()), fixture.plugin.start(call()));
        let (one, other) = within_timeout(both).await;
        for envelope in [&one, &other] {
            let envelope: Value = serde_json::from_str(envelope).unwrap();
            assert_eq!(envelope["ok"], true, "{envelope}");
        }
        let asked = signer.asked.lock().clone();
        assert_eq!(asked.len(), 1, "{asked:?}");
        let prompt = asked[0].sign_in.as_ref().unwrap();
        assert_eq!(prompt.server, server.issuer());
        assert_eq!(prompt.code.is_some(), grant == "device_code");
        assert_eq!(*signer.withdrawn.lock(), [asked[0].id.clone()]);
        let stored: Value = serde_json::from_slice(&fs::read(desk.stored()).unwrap()).unwrap();
        for secret in ["accessToken", "refreshToken"] {
            let secret = stored[secret].as_str().unwrap();
            assert!(!format!("{asked:?}{one}{other}").contains(secret));
        }
    }
}

#[tokio::test]
async fn person_who_declines_to_sign_in_ends_the_call_before_it_sends() {
    let server = server();
    let desk = Desk::new(server, "device_code", "person").await;
    let signer = Signer::new(None);
    let fixture = ToolFixture::new(&desk.config());
    let call = CallInput {
        request: send_request().to_string(),
        person: Some(signer.clone()),
        ..CallInput::default()
    };
    let envelope = within_timeout(fixture.plugin.start(call)).await;
    let envelope: Value = serde_json::from_str(&envelope).unwrap();
    assert_eq!(reason(&envelope), "token_unavailable", "{envelope}");
    assert_eq!(envelope["error"]["details"]["delivered"], "no");
    let message = envelope["error"]["message"].as_str().unwrap();
    assert!(message.contains("declined to sign in"), "{message}");
    assert!(desk.peers.log("main").is_empty());
}

#[tokio::test]
async fn browser_sign_in_is_renewed_once_for_several_processes() {
    let server = server();
    let desk = Desk::new(server, "authorization_code", "person-brief").await;
    desk.sign_in(server).await;
    let stored: Value = serde_json::from_slice(&fs::read(desk.stored()).unwrap()).unwrap();
    let first = stored["accessToken"].as_str().unwrap();
    // The server counts from its answer, and the plugin from the arrival.
    let expires_at = UNIX_EPOCH + Duration::from_secs(stored["expiresAt"].as_u64().unwrap());
    within_timeout(async {
        while server.is_active(first) || SystemTime::now() < expires_at {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let before = server.refreshes("person-brief");
    let processes = [(); 3].map(|()| ToolFixture::new(&desk.config()));
    let request = send_request();
    let calls = processes.iter().map(|process| process.call(&request));
    for envelope in futures_util::future::join_all(calls).await {
        assert_eq!(envelope["ok"], true, "{envelope}");
    }
    assert_eq!(server.refreshes("person-brief") - before, 1);
    let sent = desk.tokens();
    assert!(sent.iter().all(|token| *token == sent[0] && token != first));
}

#[tokio::test]
async fn reused_refresh_token_ends_in_a_new_sign_in() {
    let server = server();
    let desk = Desk::new(server, "authorization_code", "person").await;
    desk.sign_in(server).await;
    let expire = |text: &[u8]| {
        let mut stored: Value = serde_json::from_slice(text).unwrap();
        stored["expiresAt"] = json!(1);
        fs::write(desk.stored(), stored.to_string()).unwrap();
    };
    let old = fs::read(desk.stored()).unwrap();
    expire(&old);
    assert_eq!(
        ToolFixture::new(&desk.config()).call(&send_request()).await["ok"],
        true
    );
    // A copy of the file from before, as a backup restores it.
    expire(&old);
    let envelope = ToolFixture::new(&desk.config()).call(&send_request()).await;
    assert_eq!(reason(&envelope), "token_unavailable");
    let message = envelope["error"]["message"].as_str().unwrap();
    assert!(message.contains("sign in again"), "{message}");
    desk.sign_in(server).await;
    assert_eq!(
        ToolFixture::new(&desk.config()).call(&send_request()).await["ok"],
        true
    );
}

#[tokio::test]
async fn signed_assertion_authenticates_the_client() {
    let server = server();
    let mut desk = Desk::new(server, "client_credentials", "signed").await;
    let key = desk.folder.file("key.pem");
    fs::write(&key, server.key()).unwrap();
    desk.target["auth"] = json!({"type": "oauth2", "issuer": server.issuer(), "clientId": "signed", "scopes": ["work"],
        "clientAuth": "private_key_jwt", "clientKeyFile": key});
    let fixture = ToolFixture::new(&desk.config());
    let envelope = fixture.call(&send_request()).await;
    assert_eq!(envelope["ok"], true, "{envelope}");
    assert!(server.is_active(&desk.tokens()[0]));
}
