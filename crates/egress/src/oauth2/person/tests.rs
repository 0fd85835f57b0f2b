#![allow(clippy::unwrap_used, clippy::panic)]
use std::sync::Arc;

use http::HeaderValue;
use serde_json::{Value, json};
use testkit::folder::Folder;

use super::*;
use crate::credential::{ClientAuth, Credential, Endpoints, Grant, SignInFlow, Tokens};
use crate::oauth2::{end_refreshes, get};
use crate::testing::{Next, Scripted};
use crate::{BoxFuture, NetFault, Request, Response};

/// Returns a client with an expired token, as one process has it.
fn client(folder: &Folder) -> Arc<OAuth2> {
    let endpoints = Endpoints {
        token: Some("https://as.example/token".parse().unwrap()),
        ..Endpoints::default()
    };
    let grant = Grant::Person {
        flow: SignInFlow::DeviceCode,
        file: file(folder),
    };
    Arc::new(OAuth2 {
        client_auth: ClientAuth::None,
        ..OAuth2::at(endpoints, "cli".into(), grant)
    })
}

fn file(folder: &Folder) -> TokenFile {
    TokenFile::new(folder.file("tokens"), "desk".into(), &[], false)
}

fn stored(access: &str, refresh: Option<&str>, expires_at: u64) -> StoredToken {
    StoredToken {
        alias: "desk".into(),
        user: None,
        access_token: access.into(),
        refresh_token: refresh.map(str::to_owned),
        scope: None,
        signed_in_at: 1,
        issued_at: 1,
        expires_at: Some(expires_at),
    }
}

async fn write(folder: &Folder, token: &StoredToken) {
    let file = file(folder);
    let _lock = file.lock().await.unwrap();
    file.write(token).unwrap();
}

async fn token(net: &dyn HttpClient, client: &Arc<OAuth2>) -> Result<HeaderValue, NetError> {
    let endpoint = TokenEndpoint {
        allow_private: false,
        trust: None,
    };
    Ok(get(net, client, &endpoint).await?.value)
}

fn answer(access: &str, more: Value) -> Next {
    let mut body = json!({"access_token": access, "token_type": "bearer", "expires_in": 3600});
    let more = more.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(more);
    Next::json(200, &body)
}

fn invalid_grant() -> Next {
    Next::json(400, &json!({"error": "invalid_grant"}))
}

fn body(net: &Scripted, i: usize) -> String {
    let (_, request) = net.requests().remove(i);
    String::from_utf8(request.body.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn expired_token_is_refreshed_and_the_new_refresh_token_kept() {
    let folder = Folder::new();
    write(&folder, &stored("old", Some("r1"), 2)).await;
    let net = Scripted::new([answer(
        "one",
        json!({"refresh_token": "r2", "scope": "work"}),
    )]);
    assert_eq!(token(&net, &client(&folder)).await.unwrap(), "Bearer one");
    assert_eq!(
        body(&net, 0),
        "grant_type=refresh_token&refresh_token=r1&client_id=cli"
    );
    let kept = file(&folder).read().unwrap().unwrap();
    assert_eq!(kept.refresh_token.as_deref(), Some("r2"));
    assert_eq!(
        (kept.signed_in_at, kept.scope.as_deref()),
        (1, Some("work"))
    );
    // Another process finds the token.
    assert_eq!(token(&net, &client(&folder)).await.unwrap(), "Bearer one");
    assert_eq!(net.requests().len(), 1);
}

#[tokio::test]
async fn refresh_token_stays_if_the_server_sends_none() {
    let folder = Folder::new();
    write(&folder, &stored("old", Some("r1"), 2)).await;
    let net = Scripted::new([answer("one", json!({"refresh_token": ""}))]);
    token(&net, &client(&folder)).await.unwrap();
    let kept = file(&folder).read().unwrap().unwrap();
    assert_eq!(kept.refresh_token.as_deref(), Some("r1"));
}

#[tokio::test]
async fn processes_that_refresh_at_once_send_one_request() {
    let folder = Folder::new();
    write(&folder, &stored("old", Some("r1"), 2)).await;
    let net = Scripted::new([answer("one", json!({"refresh_token": "r2"}))]);
    let processes = [(); 4].map(|()| client(&folder));
    let calls = processes.iter().map(|client| token(&net, client));
    for found in futures_util::future::join_all(calls).await {
        assert_eq!(found.unwrap(), "Bearer one");
    }
    assert_eq!(net.requests().len(), 1);
}

#[tokio::test]
async fn refused_access_token_is_refreshed_before_it_expires() {
    let folder = Folder::new();
    write(&folder, &stored("early", Some("r1"), u64::MAX)).await;
    let client = client(&folder);
    let net = Scripted::new([answer("one", json!({}))]);
    let endpoint = TokenEndpoint {
        allow_private: false,
        trust: None,
    };
    let first = get(&net, &client, &endpoint).await.unwrap();
    assert_eq!(first.value, "Bearer early");
    client.tokens.discard(&first);
    assert_eq!(token(&net, &client).await.unwrap(), "Bearer one");
}

#[tokio::test]
async fn canceled_call_loses_no_refresh_token() {
    let folder = Folder::new();
    write(&folder, &stored("old", Some("r1"), 2)).await;
    let (net, client) = (
        Scripted::new([answer("one", json!({"refresh_token": "r2"}))]),
        client(&folder),
    );
    let mut call = Box::pin(token(&net, &client));
    while net.requests().is_empty() {
        assert!(futures_util::poll!(&mut call).is_pending());
        tokio::task::yield_now().await;
    }
    drop(call);
    // The refresh holds the lock until it is stored.
    let file = file(&folder);
    let _lock = file.lock().await.unwrap();
    let kept = file.read().unwrap().unwrap();
    assert_eq!(kept.refresh_token.as_deref(), Some("r2"));
}

#[tokio::test]
async fn end_of_an_instance_waits_for_a_refresh_and_sends_no_other() {
    let folder = Folder::new();
    write(&folder, &stored("old", Some("r1"), 2)).await;
    let client = client(&folder);
    let net = Scripted::new([answer("one", json!({"refresh_token": "r2"}))]);
    let mut call = Box::pin(token(&net, &client));
    while net.requests().is_empty() {
        assert!(futures_util::poll!(&mut call).is_pending());
        tokio::task::yield_now().await;
    }
    drop(call);
    let credential = Credential::OAuth2(client.clone());
    end_refreshes(&credential).unwrap().await;
    let kept = file(&folder).read().unwrap().unwrap();
    assert_eq!(kept.refresh_token.as_deref(), Some("r2"));
    assert!(end_refreshes(&credential).is_none());

    write(&folder, &stored("old", Some("r2"), 2)).await;
    client.tokens.forget();
    let error = token(&net, &client).await.err().unwrap().to_string();
    assert!(error.contains("is closing"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn sign_in_of_another_process_applies_at_once() {
    let folder = Folder::new();
    write(&folder, &stored("annas", None, u64::MAX)).await;
    let (net, client) = (Scripted::new([]), client(&folder));
    assert_eq!(token(&net, &client).await.unwrap(), "Bearer annas");
    write(&folder, &stored("bobs", None, u64::MAX)).await;
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(token(&net, &client).await.unwrap(), "Bearer bobs");
    file(&folder).remove().unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    let error = token(&net, &client).await.err().unwrap().to_string();
    assert!(error.contains("no person is signed in"), "{error}");
}

#[tokio::test]
async fn refresh_keeps_the_granted_scopes() {
    let folder = Folder::new();
    let granted = StoredToken {
        scope: Some("read".into()),
        ..stored("old", Some("r1"), 2)
    };
    write(&folder, &granted).await;
    let client = Arc::new(OAuth2 {
        scopes: vec!["read".into(), "write".into()],
        ..OAuth2::clone(&client(&folder))
    });
    let net = Scripted::new([answer("one", json!({}))]);
    token(&net, &client).await.unwrap();
    assert!(!body(&net, 0).contains("scope"), "{}", body(&net, 0));
    let kept = file(&folder).read().unwrap().unwrap();
    assert_eq!(kept.scope.as_deref(), Some("read"));
}

#[tokio::test]
async fn agent_that_refuses_every_token_uses_up_one_refresh_token() {
    let folder = Folder::new();
    write(&folder, &stored("old", Some("r1"), u64::MAX)).await;
    let net = Scripted::new([answer("one", json!({"refresh_token": "r2"}))]);
    let endpoint = TokenEndpoint {
        allow_private: false,
        trust: None,
    };
    for _ in 0..3 {
        // Each process, and each call, has its token refused.
        let client = client(&folder);
        for _ in 0..3 {
            let token = get(&net, &client, &endpoint).await.unwrap();
            client.tokens.discard(&token);
        }
    }
    assert_eq!(net.requests().len(), 1);
}

#[tokio::test]
async fn lifetime_without_sense_causes_no_refresh_with_each_call() {
    for expires_in in [json!(0.1), json!(1), json!(0), json!(-5), json!(1e300)] {
        let folder = Folder::new();
        write(&folder, &stored("old", Some("r1"), 2)).await;
        let net = Scripted::new([answer("one", json!({"expires_in": expires_in}))]);
        for _ in 0..2 {
            let found = token(&net, &client(&folder)).await.unwrap();
            assert_eq!(found, "Bearer one", "{expires_in}");
        }
    }
}

#[tokio::test]
async fn lost_answer_of_a_rotation_ends_in_a_new_sign_in() {
    let folder = Folder::new();
    write(&folder, &stored("old", Some("s3cret-r1"), 2)).await;
    let net = Scripted::new([Next::Fails(NetFault::Cut), invalid_grant()]);
    let client = client(&folder);
    let cut = token(&net, &client).await.err().unwrap();
    assert!(!cut.to_string().contains("sign in"), "{cut}");
    // No third request: the server would count it as a theft again.
    for _ in 0..2 {
        let error = token(&net, &client).await.err().unwrap().to_string();
        assert!(
            error.contains("sign in again with `remote-agent sign-in desk`"),
            "{error}"
        );
        assert!(!error.contains("s3cret"), "{error}");
    }
    assert_eq!(net.requests().len(), 2);
}

/// A server at which another machine has refreshed the token in the shared file.
struct RotatedElsewhere(Scripted, TokenFile, StoredToken);

impl HttpClient for RotatedElsewhere {
    fn exchange(&self, request: Request) -> BoxFuture<'_, Result<Response, NetError>> {
        if self.0.requests().is_empty() {
            self.1.write(&self.2).unwrap();
        }
        self.0.exchange(request)
    }
}

#[tokio::test]
async fn file_is_read_again_once_after_invalid_grant() {
    let folder = Folder::new();
    write(&folder, &stored("old", Some("r1"), 2)).await;
    let newer = |expires_at| stored("newer", Some("r2"), expires_at);
    let valid = RotatedElsewhere(
        Scripted::new([invalid_grant()]),
        file(&folder),
        newer(u64::MAX),
    );
    assert_eq!(
        token(&valid, &client(&folder)).await.unwrap(),
        "Bearer newer"
    );

    write(&folder, &stored("old", Some("r1"), 2)).await;
    let net = Scripted::new([invalid_grant(), invalid_grant()]);
    let expired = RotatedElsewhere(net.clone(), file(&folder), newer(2));
    let error = token(&expired, &client(&folder)).await.err().unwrap();
    assert!(error.to_string().contains("sign in again"), "{error}");
    assert!(body(&net, 0).contains("=r1&") && body(&net, 1).contains("=r2&"));
}

#[tokio::test]
async fn missing_sign_in_names_the_command() {
    let folder = Folder::new();
    let net = Scripted::new([]);
    let error = token(&net, &client(&folder)).await.err().unwrap();
    let message = "no person is signed in to this target; sign in with `remote-agent sign-in desk`";
    assert_eq!(error.to_string(), message);
    write(&folder, &stored("old", None, 2)).await;
    let error = token(&net, &client(&folder)).await.err().unwrap();
    assert!(
        error.to_string().contains("has expired; sign in again"),
        "{error}"
    );
}

#[tokio::test]
async fn target_for_each_person_needs_a_person() {
    let folder = Folder::new();
    let file = TokenFile::new(folder.file("tokens"), "desk".into(), &[], true);
    let own = Arc::new(OAuth2 {
        grant: Grant::Person {
            flow: SignInFlow::DeviceCode,
            file: file.clone(),
        },
        tokens: Arc::<Tokens>::default(),
        ..OAuth2::clone(&client(&folder))
    });
    let anna = file.for_user(Some("anna"));
    let lock = anna.lock().await.unwrap();
    let annas = StoredToken {
        user: Some("anna".into()),
        ..stored("annas", None, u64::MAX)
    };
    anna.write(&annas).unwrap();
    drop(lock);
    let net = Scripted::new([]);
    let error = token(&net, &own).await.err().unwrap();
    assert!(
        error.to_string().contains("does not name the person"),
        "{error}"
    );
    let of = |user: Option<&str>| {
        let credential = own.for_user(user).unwrap();
        // The credential of one person leads to that of another.
        let credential = credential.for_user(user).unwrap();
        match &*credential {
            crate::credential::Credential::OAuth2(client) => Arc::clone(client),
            _ => panic!("a client"),
        }
    };
    assert_eq!(
        token(&net, &of(Some("anna"))).await.unwrap(),
        "Bearer annas"
    );
    let error = token(&net, &of(Some("bob")))
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("`remote-agent sign-in desk --person bob`"),
        "{error}"
    );
    assert!(token(&net, &of(None)).await.is_err());
}
