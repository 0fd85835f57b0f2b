//! Credentials in the configuration.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Secret;

/// The credential for a target.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum Auth {
    /// `Authorization: Bearer` (RFC 6750).
    #[serde(rename = "bearer")]
    Bearer {
        /// The token.
        token: Secret,
    },
    /// `Authorization: Basic` (RFC 7617).
    #[serde(rename = "basic")]
    Basic {
        /// The user's name.
        username: String,
        /// The user's password.
        password: Secret,
    },
    /// A key in a header, a query parameter or a cookie.
    #[serde(rename = "apiKey")]
    ApiKey {
        /// Where the key goes.
        #[serde(rename = "in")]
        place: KeyPlace,
        /// The header's, parameter's or cookie's name.
        name: String,
        /// The key.
        value: Secret,
    },
    /// A bearer token from an authorization server, by client credentials (RFC 6749 §4.4).
    #[serde(rename = "oauth2")]
    OAuth2 {
        /// The server's token endpoint.
        token_url: String,
        /// The client's id.
        client_id: String,
        /// The client's secret.
        client_secret: Secret,
        /// The scopes to request.
        #[serde(default)]
        scopes: Vec<String>,
        /// How the client authenticates.
        #[serde(default)]
        client_auth: ClientAuth,
        /// The audience to request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        audience: Option<String>,
    },
    /// A client certificate.
    #[serde(rename = "mtls")]
    MutualTls {
        /// The certificate chain (PEM).
        cert_file: PathBuf,
        /// Its private key (PEM).
        key_file: PathBuf,
    },
}

/// How an OAuth 2 client authenticates (RFC 6749 §2.3.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientAuth {
    /// With HTTP Basic.
    #[default]
    Basic,
    /// In the body of the token request.
    Post,
}

/// The place of an API key in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyPlace {
    /// A header.
    Header,
    /// A parameter of the URL's query.
    Query,
    /// A cookie.
    Cookie,
}
