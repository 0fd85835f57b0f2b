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
