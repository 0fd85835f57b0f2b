#![allow(clippy::unwrap_used)]
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use egress::credential::{ClientAuth, Endpoints, SignInFlow};
use egress::{NetError, Request, Response};
use http::{HeaderMap, StatusCode};
use peer::BoxFuture;
use serde_json::{Value, json};
use testkit::folder::Folder;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::plugin::{CallInput, Plugin};
use crate::remote_agent::Answer;

/// An authorization server that issues a code, and no token until the person is done.
#[derive(Default)]
struct Server {
    codes: AtomicUsize,
    polls: AtomicUsize,
    is_done: AtomicBool,
}

impl HttpClient for Server {
    fn exchange(&self, request: Request) -> BoxFuture<'_, Result<Response, NetError>> {
        let (status, body) = match request.url.path() {
            "/device" => {
                let nth = self.codes.fetch_add(1, Ordering::Relaxed);
                let code = format!("WDJB-{nth}");
                (
                    StatusCode::OK,
                    json!({"device_code": "d", "user_code": code, "verification_uri": "https://as.example/go"}),
                )
            }
            "/refuses" => (StatusCode::UNAUTHORIZED, Value::Null),
            _ if self.is_done.load(Ordering::Relaxed) => {
                (StatusCode::OK, json!({"access_token": "one"}))
            }
            _ => {
                self.polls.fetch_add(1, Ordering::Relaxed);
                (
                    StatusCode::BAD_REQUEST,
                    json!({"error": "authorization_pending"}),
                )
            }
        };
        Box::pin(async move {
            Ok(Response {
                status,
                headers: HeaderMap::new(),
                body: Box::pin(futures_util::stream::iter([Ok(body.to_string().into())])),
            })
        })
    }
}

/// A person who declines when the test says so.
#[derive(Default)]
struct Decliner {
    asked: AtomicUsize,
    may_decline: Notify,
}

impl Person for Decliner {
    fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, Answer> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {
            self.may_decline.notified().await;
            Answer::without_words(AnswerAction::Decline)
        })
    }
}

fn sign_in(folder: &Folder) -> SignIn {
    let url = |path: &str| Some(Url::parse(&format!("https://as.example{path}")).unwrap());
    let endpoints = Endpoints {
        token: url("/token"),
        device: url("/device"),
        ..Endpoints::default()
    };
    let file = TokenFile::new(folder.file("tokens"), "desk".into(), &[], false);
    let grant = Grant::Person {
        flow: SignInFlow::DeviceCode,
        file: file.clone(),
    };
    let mut client = OAuth2::at(endpoints, "cli".into(), grant);
    client.client_auth = ClientAuth::None;
    SignIn {
        client: Arc::new(client),
        file,
        endpoint: TokenEndpoint {
            allow_private: false,
            trust: None,
        },
        net: Arc::new(Server::default()),
        origin: "https://desk.example".into(),
    }
}

fn deadline(wait: Duration) -> Deadline {
    Deadline::new(wait, CancellationToken::new(), CancellationToken::new())
}

#[tokio::test(start_paused = true)]
async fn refusal_of_a_person_is_for_all_calls_that_wait() {
    let (folder, person) = (Folder::new(), Decliner::default());
    let (sign_in, end) = (sign_in(&folder), deadline(Duration::from_secs(60)));
    let ask = || sign_in.ask_in_turn(&person, &end, true);
    let decline = async {
        while person.asked.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        person.may_decline.notify_one();
    };
    let (one, other, third, ()) = tokio::join!(ask(), ask(), ask(), decline);
    for refused in [one, other, third] {
        let error = refused.unwrap_err();
        assert_eq!(error.reason, Reason::TokenUnavailable);
        assert!(
            error.message.contains("declined to sign in"),
            "{}",
            error.message
        );
    }
    assert_eq!(person.asked.load(Ordering::Relaxed), 1);
    // Later calls do not ask again so soon, unless a person uses the command.
    let refused = ask().await.unwrap_err();
    assert!(
        refused.message.contains("remote-agent sign-in desk"),
        "{}",
        refused.message
    );
    assert_eq!(person.asked.load(Ordering::Relaxed), 1);
    sign_in.forget_refusals();
    for asked in 2..=3 {
        person.may_decline.notify_one();
        ask().await.unwrap_err();
        assert_eq!(person.asked.load(Ordering::Relaxed), asked);
        tokio::time::advance(REFUSAL_TIME).await;
    }
}

/// A person of a host that ends the call with the question, and what the host answers when it repeats the call.
#[derive(Default)]
struct Repeated {
    answer: parking_lot::Mutex<Option<Answer>>,
    asked: parking_lot::Mutex<Vec<String>>,
}

impl Person for Repeated {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer> {
        self.asked.lock().push(question.id.clone());
        let answer = self.answer.lock().take();
        let answer = answer.unwrap_or_else(|| Answer::without_words(AnswerAction::Later));
        Box::pin(std::future::ready(answer))
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_call_finds_the_sign_in_that_was_begun() {
    let (folder, person) = (Folder::new(), Repeated::default());
    let server = Arc::new(Server::default());
    let sign_in = SignIn {
        net: server.clone(),
        ..sign_in(&folder)
    };
    let end = deadline(Duration::from_secs(60));
    let ask = || sign_in.ask_in_turn(&person, &end, true);
    for action in [None, Some(AnswerAction::Unreachable), None] {
        // A caller that reaches no person does not end the sign-in of another.
        *person.answer.lock() = action.map(Answer::without_words);
        ask().await.unwrap_err();
    }
    assert_eq!(server.codes.load(Ordering::Relaxed), 1);
    // The person signs in between the calls.
    server.is_done.store(true, Ordering::Relaxed);
    *person.answer.lock() = Some(Answer::read(r#"{"action": "answer"}"#));
    ask().await.unwrap();
    assert!(sign_in.file.read().unwrap().is_some());
    assert!(sign_in.client.signing_in.lock().await.running.is_none());
    let asked = person.asked.lock().clone();
    assert!(asked.iter().all(|id| *id == asked[0]), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn sign_in_between_two_calls_ends_with_its_code() {
    let (folder, person) = (Folder::new(), Repeated::default());
    let server = Arc::new(Server::default());
    let sign_in = SignIn {
        net: server.clone(),
        ..sign_in(&folder)
    };
    let end = deadline(Duration::from_secs(60));
    sign_in.ask_in_turn(&person, &end, true).await.unwrap_err();
    tokio::time::sleep(Duration::from_secs(31 * 60)).await;
    let before = server.polls.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(server.polls.load(Ordering::Relaxed), before);
    sign_in.ask_in_turn(&person, &end, true).await.unwrap_err();
    assert_eq!(server.codes.load(Ordering::Relaxed), 2);
    // A person who refuses ends it at once.
    *person.answer.lock() = Some(Answer::without_words(AnswerAction::Decline));
    sign_in.ask_in_turn(&person, &end, true).await.unwrap_err();
    assert!(sign_in.client.signing_in.lock().await.running.is_none());
}

#[tokio::test(start_paused = true)]
async fn agent_that_refuses_each_token_causes_one_question() {
    let (folder, person) = (Folder::new(), Decliner::default());
    let server = Arc::new(Server::default());
    server.is_done.store(true, Ordering::Relaxed);
    let sign_in = SignIn {
        net: server.clone(),
        ..sign_in(&folder)
    };
    let end = deadline(Duration::from_secs(60));
    sign_in.ask_in_turn(&person, &end, true).await.unwrap();
    // After the time in which a new token is not replaced.
    let mut files = std::fs::read_dir(folder.file("tokens")).unwrap();
    let stored = files.find_map(|file| {
        let path = file.unwrap().path();
        let is_token = path
            .extension()
            .is_some_and(|extension| extension == "json");
        is_token.then_some(path)
    });
    let stored = stored.unwrap();
    let mut token: Value = serde_json::from_slice(&std::fs::read(&stored).unwrap()).unwrap();
    token["issuedAt"] = json!(token["issuedAt"].as_u64().unwrap() - 60);
    std::fs::write(&stored, token.to_string()).unwrap();
    tokio::time::advance(Duration::from_secs(2)).await;
    let authorization = egress::Authorization {
        credential: Arc::new(Credential::OAuth2(Arc::clone(&sign_in.client))),
        endpoint: sign_in.endpoint.clone(),
    };
    let url = Url::parse("https://desk.example/refuses").unwrap();
    let call = Request {
        method: http::Method::POST,
        access: egress::AddressPolicy::for_url(&url, false, false).unwrap(),
        url,
        headers: HeaderMap::new(),
        body: None,
        trust: None,
        repeatable: true,
        authorization: None,
        send_state: None,
    };
    let called = egress::auth::exchange(&*sign_in.net, authorization, call).await;
    assert!(called.is_err());
    assert!(sign_in.is_needed().await);
    let refused = sign_in.ask_in_turn(&person, &end, true).await.unwrap_err();
    assert!(
        refused.message.contains("refuses the token"),
        "{}",
        refused.message
    );
    assert_eq!(server.codes.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn call_waits_for_the_sign_in_of_another_only_within_its_deadline() {
    let (folder, person) = (Folder::new(), Decliner::default());
    let sign_in = sign_in(&folder);
    let asks = deadline(Duration::from_secs(60));
    let waits = deadline(Duration::from_secs(5));
    let asking = sign_in.ask_in_turn(&person, &asks, true);
    let waiting = sign_in.ask_in_turn(&person, &waits, true);
    tokio::select! {
        biased;
        _ = asking => unreachable!("no person answers"),
        waited = waiting => {
            let error = waited.unwrap_err();
            assert_eq!(error.reason, Reason::TokenUnavailable);
            assert!(error.message.contains("another call is asking"), "{}", error.message);
        }
    }
}

/// A person who says at once that it is done, and declines when asked again.
#[derive(Default)]
struct Hasty(parking_lot::Mutex<Vec<Option<String>>>);

impl Person for Hasty {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer> {
        self.0.lock().push(question.error.clone());
        let answer = match question.error {
            None => Answer::read(r#"{"action": "answer", "content": {"answer": "Done"}}"#),
            Some(_) => Answer::without_words(AnswerAction::Decline),
        };
        Box::pin(std::future::ready(answer))
    }
}

#[tokio::test(start_paused = true)]
async fn person_who_was_too_early_is_asked_again() {
    let (folder, person) = (Folder::new(), Hasty::default());
    let refused = sign_in(&folder).ask(&person).await.map(drop).unwrap_err();
    assert_eq!(refused, "the person declined to sign in");
    let errors = person.0.lock().clone();
    assert_eq!(
        errors,
        [None, Some("the server has no sign-in yet".to_owned())]
    );
}

/// Returns the reason and the message of a message to a target without a token, with a person who could sign in.
async fn refusal(more: &Value, caller: &Value) -> (Value, String) {
    let folder = Folder::new();
    std::fs::write(folder.file("budget.json"), "damaged").unwrap();
    let auth = json!({"type": "oauth2", "grant": "device_code", "clientId": "c", "tokenUrl": "http://127.0.0.1:9/token",
        "deviceAuthorizationUrl": "http://127.0.0.1:9/device"});
    let target =
        json!({"alias": "desk", "baseUrl": "http://127.0.0.1:9", "default": true, "auth": auth});
    let mut config = json!({"stateDir": folder.path(), "targets": [target]});
    for (name, value) in more.as_object().unwrap() {
        config[name] = value.clone();
    }
    let plugin = Plugin::new(&config.to_string(), Arc::new(base::log::Silent)).unwrap();
    let request = json!({"action": "send", "parts": [{"kind": "text", "text": "hi"}]});
    let call = CallInput {
        request: request.to_string(),
        caller: Some(caller.to_string()),
        person: Some(Arc::new(Decliner::default())),
        ..CallInput::default()
    };
    let refused: Value = serde_json::from_str(&Arc::new(plugin).start(call).await).unwrap();
    let error = &refused["error"];
    (
        error["reason"].clone(),
        error["message"].as_str().unwrap().to_owned(),
    )
}

#[tokio::test]
async fn no_person_signs_in_for_a_message_that_is_refused() {
    let budget = json!({"budget": {"total": {"calls": 1}}});
    let depth = json!({"policy": {"maxDelegationDepth": 2}});
    let chain = json!({"chain": {"hop": 7, "chain": "row-1"}});
    for (config, caller, expected) in [
        (budget, json!({}), "budget_unusable"),
        (depth, chain, "delegation_too_deep"),
        (json!({}), json!({}), "token_unavailable"),
    ] {
        let (reason, message) = refusal(&config, &caller).await;
        assert_eq!(reason, expected, "{message}");
    }
}

#[tokio::test]
async fn sign_in_does_not_begin_where_the_host_cannot_show_it() {
    let (_, begun) = refusal(&json!({}), &json!({})).await;
    assert!(!begun.contains("no person is signed in"), "{begun}");
    let (_, not_begun) = refusal(&json!({}), &json!({"no_sign_in": true})).await;
    assert!(not_begun.contains("no person is signed in"), "{not_begun}");
}
