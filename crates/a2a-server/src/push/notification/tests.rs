#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn config(
    token: Option<&str>,
    scheme: &str,
    credentials: Option<&str>,
) -> TaskPushNotificationConfig {
    TaskPushNotificationConfig {
        url: "https://hook.test/a?key=s3cret".to_owned(),
        id: None,
        task_id: "t1".to_owned(),
        token: token.map(str::to_owned),
        authentication: Some(AuthenticationInfo {
            scheme: scheme.to_owned(),
            credentials: credentials.map(str::to_owned),
        }),
        tenant: None,
    }
}

fn authorization_of(config: &TaskPushNotificationConfig) -> Option<String> {
    let (_, headers) = parse_config(config).unwrap();
    let value = headers.get(AUTHORIZATION)?;
    Some(value.to_str().unwrap().to_owned())
}

#[test]
fn rejects_scheme_that_is_no_short_token() {
    let long = "A".repeat(65);
    for scheme in [long.as_str(), "two words", "a\r\nb"] {
        for credentials in [None, Some("cred")] {
            assert!(
                parse_config(&config(None, scheme, credentials)).is_err(),
                "{scheme:?}"
            );
        }
    }
    assert!(parse_config(&config(None, "Bearer", None)).is_ok());
}

#[test]
fn credentials_precede_token() {
    let both = config(Some("tok"), "Custom", Some("cred"));
    assert_eq!(authorization_of(&both).as_deref(), Some("Custom cred"));
}

#[test]
fn scheme_without_credentials_uses_token() {
    for credentials in [None, Some("")] {
        let token = config(Some("tok"), "Basic", credentials);
        assert_eq!(authorization_of(&token).as_deref(), Some("Bearer tok"));
    }
}

#[test]
fn credentials_without_scheme_are_bearer() {
    let bare = config(None, "", Some("cred"));
    assert_eq!(authorization_of(&bare).as_deref(), Some("Bearer cred"));
}

#[test]
fn no_credentials_send_no_authorization() {
    let nothing = config(Some(""), "Bearer", None);
    assert!(parse_config(&nothing).unwrap().1.is_empty());
}

#[test]
fn invalid_header_value_is_rejected_unquoted() {
    for (field, config) in [
        ("token", config(Some("s3cret\r\nx: y"), "Bearer", Some("c"))),
        ("authentication", config(None, "Bearer", Some("s3cret\n"))),
        (
            "token",
            config(Some(&"s3cret".repeat(1000)), "Bearer", None),
        ),
    ] {
        let refused = parse_config(&config).unwrap_err();
        assert_eq!(refused.field.as_deref(), Some(field));
        assert!(!refused.text.contains("s3cret"), "{}", refused.text);
    }
}

#[test]
fn debug_headers_redact_secrets() {
    let (_, headers) = parse_config(&config(Some("s3cret"), "Bearer", Some("s3cret"))).unwrap();
    assert!(!format!("{headers:?}").contains("s3cret"));
}
