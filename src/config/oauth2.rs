//! The settings of a client of an authorization server, and the rules for them that the JSON Schema cannot express.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base::settings;
use egress::address::{is_literal, is_this_machine};
use serde::{Deserialize, Serialize};
use url::Url;

use super::{ConfigError, Secret, normal_url};

/// The parameters of the protocol, which `tokenParams` cannot set.
const PROTOCOL_PARAMETERS: [&str; 28] = [
    "access_token",
    "actor_token",
    "actor_token_type",
    "assertion",
    "audience",
    "client_assertion",
    "client_assertion_type",
    "client_id",
    "client_secret",
    "code",
    "code_challenge",
    "code_challenge_method",
    "code_verifier",
    "device_code",
    "grant_type",
    "password",
    "redirect_uri",
    "refresh_token",
    "request",
    "request_uri",
    "resource",
    "response_mode",
    "response_type",
    "scope",
    "state",
    "subject_token",
    "subject_token_type",
    "username",
];

settings! {
    /// A client of an authorization server.
    #[derive(Debug, Clone, Deserialize, Serialize)]
    pub struct OAuth2 {
        /// How it gets tokens.
        #[serde(skip_serializing_if = "Grant::is_default")]
        pub grant: Grant,
        /// The issuer, whose metadata names the endpoints (RFC 8414).
        #[serde(skip_serializing_if = "Option::is_none")]
        pub issuer: Option<String>,
        /// The server's token endpoint.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub token_url: Option<String>,
        /// The server's authorization endpoint.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub authorization_url: Option<String>,
        /// The server's device authorization endpoint.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub device_authorization_url: Option<String>,
        /// The address to which the server sends the browser back.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub redirect_url: Option<String>,
        /// The client's id.
        pub client_id: String,
        /// The client's secret.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub client_secret: Option<Secret>,
        /// The scopes to request.
        pub scopes: Vec<String>,
        /// How the client authenticates. `check.rs` fills in the default.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub client_auth: Option<ClientAuth>,
        /// The private key of `private_key_jwt` (PEM).
        #[serde(skip_serializing_if = "Option::is_none")]
        pub client_key_file: Option<PathBuf>,
        /// The id of that key.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub client_key_id: Option<String>,
        /// The certificate chain of `tls` (PEM).
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cert_file: Option<PathBuf>,
        /// Its private key (PEM).
        #[serde(skip_serializing_if = "Option::is_none")]
        pub key_file: Option<PathBuf>,
        /// The audience to request.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub audience: Option<String>,
        /// The resource to request (RFC 8707).
        #[serde(skip_serializing_if = "Option::is_none")]
        pub resource: Option<String>,
        /// Further parameters of requests to the server.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub token_params: BTreeMap<String, String>,
        /// The file with the token to exchange.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub subject_token_file: Option<PathBuf>,
        /// The type of that token.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub subject_token_type: Option<String>,
        /// Who shares a sign-in.
        #[serde(skip_serializing_if = "Per::is_default")]
        pub per: Per,
    }
}

/// How a client gets tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// As itself (RFC 6749 §4.4).
    #[default]
    ClientCredentials,
    /// A person signs in with a code on another device (RFC 8628).
    DeviceCode,
    /// A person signs in with a browser (RFC 6749 §4.1).
    AuthorizationCode,
    /// In exchange for another token (RFC 8693).
    TokenExchange,
}

impl Grant {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether a person signs in.
    pub fn is_personal(self) -> bool {
        matches!(self, Self::DeviceCode | Self::AuthorizationCode)
    }
}

/// Who shares a sign-in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// All callers of the target.
    #[default]
    Target,
    /// Each person has one of their own.
    User,
}

impl Per {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How an OAuth 2 client authenticates (RFC 6749 §2.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    /// With HTTP Basic.
    Basic,
    /// In the body of the token request.
    Post,
    /// Not at all.
    None,
    /// With a signed assertion (RFC 7523).
    PrivateKeyJwt,
    /// With a client certificate (RFC 8705).
    Tls,
}

impl OAuth2 {
    /// Returns how the client authenticates: with its secret, if it has one or no other way is chosen.
    pub(super) fn client_auth(&self) -> ClientAuth {
        let default = match self.grant.is_personal() && self.client_secret.is_none() {
            true => ClientAuth::None,
            false => ClientAuth::Basic,
        };
        self.client_auth.unwrap_or(default)
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// The setting, and the reason.
    pub(super) fn check(&self, allow_private: bool) -> Result<(), (String, String)> {
        let invalid = |field: &str, reason: &str| Err((field.to_owned(), reason.to_owned()));
        for (field, what, url) in [
            ("tokenUrl", "token endpoint", &self.token_url),
            ("issuer", "issuer", &self.issuer),
            (
                "authorizationUrl",
                "authorization endpoint",
                &self.authorization_url,
            ),
            (
                "deviceAuthorizationUrl",
                "device authorization endpoint",
                &self.device_authorization_url,
            ),
        ] {
            if let Some(url) = url {
                check_endpoint(url, what, allow_private)
                    .map_err(|reason| (field.to_owned(), reason))?;
            }
        }
        if let Some(i) = self.scopes.iter().position(|scope| !is_scope(scope)) {
            let reason = "a scope is one word without quotes and backslashes; list each by itself";
            return invalid(&format!("scopes/{i}"), reason);
        }
        let mut names = self.token_params.keys();
        if let Some(name) = names.find(|name| PROTOCOL_PARAMETERS.contains(&name.as_str())) {
            let reason =
                "this parameter belongs to the protocol; another setting of `auth` sets it";
            return invalid(&format!("tokenParams/{name}"), reason);
        }
        if let Some(resource) = &self.resource
            && !Url::parse(resource).is_ok_and(|url| url.fragment().is_none())
        {
            return invalid(
                "resource",
                "a resource is an absolute URI without a fragment",
            );
        }
        self.check_grant()?;
        self.check_client_auth()
    }

    /// Refuses settings that have no effect with the grant, and requires those that it needs.
    fn check_grant(&self) -> Result<(), (String, String)> {
        let (grant, has_issuer) = (self.grant, self.issuer.is_some());
        #[rustfmt::skip] // One row a line.
        let settings = [
            ("authorizationUrl", self.authorization_url.is_some(), Grant::AuthorizationCode, !has_issuer),
            ("deviceAuthorizationUrl", self.device_authorization_url.is_some(), Grant::DeviceCode, !has_issuer),
            ("subjectTokenFile", self.subject_token_file.is_some(), Grant::TokenExchange, true),
            ("subjectTokenType", self.subject_token_type.is_some(), Grant::TokenExchange, false),
            ("redirectUrl", self.redirect_url.is_some(), Grant::AuthorizationCode, false),
        ];
        for (field, is_given, of, is_needed) in settings {
            let reason = match (is_given, grant == of) {
                (true, false) => "this setting has no effect with the grant of this target",
                (false, true) if is_needed && field != "subjectTokenFile" => {
                    "the grant of this target needs this setting, or `issuer`"
                }
                (false, true) if is_needed => "the grant of this target needs this setting",
                _ => continue,
            };
            return Err((field.to_owned(), reason.to_owned()));
        }
        if self.per == Per::User && !grant.is_personal() {
            let reason = "only with `device_code` and `authorization_code` each person signs in";
            return Err(("per".to_owned(), reason.to_owned()));
        }
        if let Some(redirect) = &self.redirect_url {
            let url = normal_url(redirect)
                .map_err(|reason| ("redirectUrl".to_owned(), format!("the URL {reason}")))?;
            if url.scheme() != "https" && !is_this_machine(&url) {
                let reason = "a browser returns to this machine over http, or elsewhere over https";
                return Err(("redirectUrl".to_owned(), reason.to_owned()));
            }
        }
        Ok(())
    }

    /// Refuses settings that have no effect with the client's authentication, and requires those that it needs.
    fn check_client_auth(&self) -> Result<(), (String, String)> {
        let client_auth = self.client_auth();
        let with_secret = matches!(client_auth, ClientAuth::Basic | ClientAuth::Post);
        let (with_key, with_certificate) = (
            client_auth == ClientAuth::PrivateKeyJwt,
            client_auth == ClientAuth::Tls,
        );
        #[rustfmt::skip] // One row a line.
        let settings = [
            ("clientSecret", self.client_secret.is_some(), with_secret, true),
            ("clientKeyFile", self.client_key_file.is_some(), with_key, true),
            ("clientKeyId", self.client_key_id.is_some(), with_key, false),
            ("certFile", self.cert_file.is_some(), with_certificate, true),
            ("keyFile", self.key_file.is_some(), with_certificate, true),
        ];
        for (field, is_given, is_used, is_needed) in settings {
            let reason = match (is_given, is_used) {
                (true, false) => "this setting has no effect with `clientAuth` of this target",
                (false, true) if is_needed => "`clientAuth` of this target needs this setting",
                _ => continue,
            };
            return Err((field.to_owned(), reason.to_owned()));
        }
        Ok(())
    }
}

/// Names the issuer beside the token endpoint, in an error about a client that has neither.
pub(super) fn with_alternative(error: ConfigError) -> ConfigError {
    if error.missing_key.as_deref() != Some("tokenUrl") || !error.path.ends_with("/auth") {
        return error;
    }
    let message = "the key `issuer` is missing: its metadata names the endpoints; without it, `tokenUrl` is needed";
    ConfigError::at(error.path, message)
}

/// Checks that the connection to an endpoint, which receives secrets, is encrypted or local.
fn check_endpoint(text: &str, what: &str, allow_private: bool) -> Result<(), String> {
    let url = normal_url(text).map_err(|reason| format!("the {what} {reason}"))?;
    // A name below `localhost` may resolve to another machine.
    let is_local = is_literal(&url) && is_this_machine(&url);
    if url.scheme() != "https" && !allow_private && !is_local {
        return Err(format!(
            "the {what} must use https; http is allowed only on this machine, or with allowPrivateNetwork"
        ));
    }
    Ok(())
}

/// Returns whether a character is allowed in a scope (RFC 6749 §3.3).
fn is_scope(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\\'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use serde_json::{Value, json};

    use super::super::{Auth, Config};
    use super::*;

    const ISSUER: &str = "https://as.example";

    fn parse(auth: &Value) -> Result<OAuth2, ConfigError> {
        let mut auth = auth.clone();
        auth["type"] = json!("oauth2");
        let target = json!({"alias": "desk", "baseUrl": "https://desk.example", "auth": auth});
        let mut config = Config::parse(&json!({ "targets": [target] }).to_string())?;
        match config.targets.remove(0).auth {
            Some(Auth::OAuth2(settings)) => Ok(*settings),
            _ => panic!("a client"),
        }
    }

    /// Reads a table of `WORD {SETTINGS}`, in which `AS` is the issuer, and adds a client to the settings.
    fn rows(table: &str) -> impl Iterator<Item = (&str, Value)> {
        table.lines().map(str::trim).map(|row| {
            let (word, settings) = row.split_once(' ').unwrap();
            let settings = settings.replace("\"AS\"", &json!(ISSUER).to_string());
            let mut settings: Value = serde_json::from_str(&settings).unwrap();
            settings["clientId"] = json!("a");
            (word, settings)
        })
    }

    #[test]
    fn client_without_a_server_needs_the_issuer() {
        for (auth, expected) in [
            (json!({"clientSecret": "b"}), "the key `issuer` is missing"),
            (
                json!({"grant": "device_code", "tokenUrl": ISSUER}),
                "needs this setting, or `issuer`",
            ),
            (
                json!({"clientSecret": "b", "isuer": ISSUER}),
                "did you mean `issuer`?",
            ),
        ] {
            let mut auth = auth;
            auth["clientId"] = json!("a");
            let error = parse(&auth).unwrap_err();
            assert!(error.message.contains(expected), "{error}");
        }
    }

    #[test]
    fn client_authentication_follows_from_the_secret() {
        for (expected, mut auth) in rows(
            r#"none {"grant": "device_code"}
            post {"grant": "authorization_code", "clientSecret": "b", "clientAuth": "post"}
            basic {"grant": "authorization_code", "clientSecret": "b"}
            private_key_jwt {"clientAuth": "private_key_jwt", "clientKeyFile": "/k"}
            tls {"clientAuth": "tls", "certFile": "/c", "keyFile": "/k"}
            none {"grant": "token_exchange", "subjectTokenFile": "/t", "clientAuth": "none"}"#,
        ) {
            auth["issuer"] = json!(ISSUER);
            let settings = parse(&auth).unwrap_or_else(|error| panic!("{error}: {auth}"));
            assert_eq!(json!(settings.client_auth), expected, "{auth}");
        }
    }

    #[test]
    fn contradicting_settings_are_reported_with_their_place() {
        for (field, auth) in rows(
            r#"deviceAuthorizationUrl {"grant": "device_code", "tokenUrl": "AS"}
            authorizationUrl {"grant": "authorization_code", "tokenUrl": "AS"}
            subjectTokenFile {"issuer": "AS", "grant": "token_exchange", "clientAuth": "none"}
            issuer {"issuer": "http://as.example", "grant": "device_code"}
            issuer {"issuer": "http://as.localhost", "grant": "device_code"}
            authorizationUrl {"issuer": "AS", "grant": "device_code", "authorizationUrl": "AS"}
            redirectUrl {"issuer": "AS", "grant": "authorization_code", "redirectUrl": "http://evil.example/"}
            per {"issuer": "AS", "clientSecret": "b", "per": "user"}
            tokenParams/scope {"issuer": "AS", "grant": "device_code", "tokenParams": {"scope": "all"}}
            resource {"issuer": "AS", "grant": "device_code", "resource": "api"}
            clientSecret {"issuer": "AS", "grant": "device_code", "clientAuth": "post"}
            clientSecret {"issuer": "AS", "grant": "device_code", "clientSecret": "b", "clientAuth": "none"}
            clientKeyFile {"issuer": "AS", "clientAuth": "private_key_jwt"}
            keyFile {"issuer": "AS", "clientAuth": "tls", "certFile": "/c"}"#,
        ) {
            let path = parse(&auth).map_err(|error| error.path).err();
            assert_eq!(path, Some(format!("/targets/0/auth/{field}")), "{auth}");
        }
    }

    #[test]
    fn earlier_settings_keep_their_meaning() {
        let settings = parse(&json!({"tokenUrl": ISSUER, "clientId": "a", "clientSecret": "b"}));
        let printed = serde_json::to_string(&settings.unwrap()).unwrap();
        assert_eq!(
            printed,
            r#"{"tokenUrl":"https://as.example","clientId":"a","clientSecret":"[redacted]","scopes":[],"clientAuth":"basic"}"#
        );
        for missing in ["tokenUrl", "clientId", "clientSecret"] {
            let mut auth = json!({"tokenUrl": ISSUER, "clientId": "a", "clientSecret": "b"});
            auth.as_object_mut().unwrap().remove(missing);
            let path = parse(&auth).unwrap_err().path;
            assert_eq!(path, "/targets/0/auth", "{missing}");
        }
    }
}
