//! Errors of the HTTP client, and those of TLS in words: a clause whose subject is the peer, with what to do.

use std::error::Error as StdError;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, OtherError};
use url::Url;

use super::error::place;
use super::resolver::ResolveError;
use super::{NetError, NetFault, Sent};

/// Texts of hyper's errors, which have no predicates: bytes that are no HTTP/1 response, and a head above a limit.
const OTHER_PROTOCOL: &str = "invalid HTTP version parsed";
const TOO_LONG_HEAD: &str = "message head is too large";

/// How the text of an error of a proxy's tunnel begins; hyper-util does not show its type.
const TUNNEL: &str = "tunnel error: ";

/// Returns the error for a request that this system cannot send.
pub(super) fn unusable(fault: NetFault, what: &str, reason: &dyn StdError) -> NetError {
    let message = format!("{what} cannot be set up on this system: {reason}");
    NetError::new(fault, Sent::No, message)
}

/// reqwest uses one TLS configuration for both ends of a tunnel. So the proxy would receive the peer's client
/// certificate, and would be trusted by the peer's authorities.
pub(super) fn not_proxied(url: &Url) -> NetError {
    let message = format!(
        "cannot connect to `{}` through an `https` proxy: the proxy would be trusted by the target's CA and receive its client certificate; use an `http` proxy or add the host to NO_PROXY",
        place(url)
    );
    NetError::new(NetFault::Tls, Sent::No, message)
}

/// What an error depends on beside its cause.
pub(super) struct Connection {
    pub(super) url: Url,
    /// Why the system's certificates could not be loaded.
    pub(super) without_roots: Option<Arc<str>>,
    /// The proxy in between, without its credentials.
    pub(super) proxy: Option<String>,
}

/// Returns the error for a request without a response head.
pub(super) fn before_response(error: &reqwest::Error, connection: &Connection) -> NetError {
    let place = place(&connection.url);
    let cause = Cause::find(error);
    if error.is_builder() {
        let message = format!("`{place}` cannot be in an HTTP request; check the host in the URL");
        return NetError::new(NetFault::Protocol, Sent::No, message);
    }
    if error.is_connect() {
        return before_request(cause, connection, &place);
    }
    // Without a tunnel, what answered may be the proxy.
    let place = match connection
        .proxy
        .as_ref()
        .filter(|_| !is_secure(&connection.url))
    {
        Some(proxy) => format!("{place}` through the proxy `{proxy}"),
        None => place,
    };
    match cause.kind {
        Kind::Tls(error) => NetError::new(
            NetFault::Tls,
            // A peer authenticates its client before it reads a request.
            if refuses_client(&error) {
                Sent::No
            } else {
                Sent::Unknown
            },
            format!(
                "the TLS connection to `{place}` failed: {}",
                describe(&error)
            ),
        ),
        Kind::Malformed(text) if text.contains(OTHER_PROTOCOL) => {
            let repair = if is_secure(&connection.url) {
                "enable HTTP/1.1 on the agent or its proxy if it speaks only HTTP/2"
            } else {
                "use an `https` or `wss` URL if the port speaks TLS, and enable HTTP/1.1 if it speaks only HTTP/2"
            };
            NetError::new(
                NetFault::Protocol,
                // An answer with a damaged first line looks the same, and its peer has the request.
                Sent::Unknown,
                format!("`{place}` does not speak HTTP/1.1 on this port; {repair}"),
            )
        }
        Kind::Malformed(text) if text.contains(TOO_LONG_HEAD) => NetError::new(
            NetFault::Protocol,
            Sent::Unknown,
            format!(
                "the response of `{place}` has more than 100 headers, or headers of more than 400 KB; remove headers on the agent or its proxy"
            ),
        ),
        Kind::Malformed(text) => NetError::new(
            NetFault::Protocol,
            Sent::Unknown,
            format!("the response of `{place}` is not HTTP: {text}"),
        ),
        _ => NetError::new(
            NetFault::Cut,
            Sent::Unknown,
            format!(
                "the connection to `{place}` broke off before the response: {}",
                cause.last
            ),
        ),
    }
}

/// Returns the error for a connection that was not opened.
fn before_request(cause: Cause, connection: &Connection, place: &str) -> NetError {
    let secure = is_secure(&connection.url);
    // Without a tunnel, the proxy is the only peer of the connection.
    if let Some(proxy) = &connection.proxy
        && (cause.tunnel.is_some() || !secure)
        && !matches!(cause.kind, Kind::Refused(_))
    {
        return from_proxy(cause, proxy, place);
    }
    match cause.kind {
        Kind::Refused(text) => NetError::new(
            NetFault::AddressRefused,
            Sent::No,
            format!("`{place}` is not allowed: {text}"),
        ),
        Kind::NoAddress(text) => NetError::new(
            NetFault::Dns,
            Sent::No,
            format!("the host of `{place}` cannot be resolved: {text}"),
        ),
        Kind::Tls(error) => {
            let note = match &connection.without_roots {
                Some(reason) => {
                    format!(
                        " (no certificate authority could be loaded from this system: {reason})"
                    )
                }
                None => String::new(),
            };
            NetError::new(
                NetFault::Tls,
                Sent::No,
                format!("no TLS connection to `{place}`: {}{note}", describe(&error)),
            )
        }
        // The TCP connection was open, so the TLS handshake broke off.
        Kind::Io(io) if secure && is_cut(io) => NetError::new(
            NetFault::Tls,
            Sent::No,
            format!("the TLS handshake with `{place}` broke off: {}", cause.last),
        ),
        _ => NetError::new(
            NetFault::Unreachable,
            Sent::No,
            format!("cannot connect to `{place}`: {}", cause.last),
        ),
    }
}

/// Returns the error for a connection that a proxy did not open.
fn from_proxy(cause: Cause, proxy: &str, place: &str) -> NetError {
    let (tunnel, reason) = match cause.tunnel.as_deref() {
        Some("proxy authorization required") => return proxy_auth(proxy),
        Some("unsuccessful") => (true, "it refuses a tunnel to this host".to_owned()),
        Some("proxy response headers too long") => (true, "its response is too long".to_owned()),
        Some("unexpected end of file") => (true, "it closed the connection".to_owned()),
        _ => match cause.kind {
            Kind::Tls(error) => (false, describe(&error)),
            Kind::Other | Kind::Io(_) | Kind::Malformed(_) => (false, cause.last),
            Kind::NoAddress(text) | Kind::Refused(text) => (false, text),
        },
    };
    let message = if tunnel {
        format!("the proxy `{proxy}` opened no connection to `{place}`: {reason}")
    } else {
        format!("cannot connect to the proxy `{proxy}` for `{place}`: {reason}")
    };
    NetError::new(NetFault::Unreachable, Sent::No, message)
}

/// Returns the error for status 407.
pub(super) fn proxy_auth(proxy: &str) -> NetError {
    let message = format!(
        "the proxy `{proxy}` requires a user name and a password, or others; put them into the URL of the proxy, as in `http://USER:PASSWORD@HOST:PORT`"
    );
    NetError::new(NetFault::ProxyAuth, Sent::No, message)
}

fn is_secure(url: &Url) -> bool {
    matches!(url.scheme(), "https" | "wss")
}

/// Returns the error for a name that was not resolved in time.
pub(super) fn unresolved(url: &Url) -> NetError {
    let message = format!(
        "cannot connect to `{}`: name resolution timed out",
        place(url)
    );
    NetError::new(NetFault::Unreachable, Sent::No, message)
}

/// Returns the error for an incomplete body.
pub(super) fn in_body(error: &reqwest::Error, url: &Url) -> NetError {
    let (place, cause) = (place(url), Cause::find(error));
    NetError::new(
        NetFault::Cut,
        Sent::Unknown,
        format!("the response of `{place}` broke off: {}", cause.last),
    )
}

/// Returns the error of an upgrade that failed after the peer accepted it.
pub(super) fn upgrade_failed(error: &reqwest::Error, url: &Url) -> NetError {
    let (place, cause) = (place(url), Cause::find(error));
    let message = format!("cannot upgrade the connection to `{place}`: {}", cause.last);
    NetError::new(NetFault::Protocol, Sent::Unknown, message)
}

fn is_cut(kind: io::ErrorKind) -> bool {
    use io::ErrorKind as K;
    matches!(
        kind,
        K::UnexpectedEof
            | K::ConnectionReset
            | K::ConnectionAborted
            | K::BrokenPipe
            | K::InvalidData
    )
}

enum Kind {
    Refused(String),
    NoAddress(String),
    Tls(rustls::Error),
    /// The head of the response is invalid.
    Malformed(String),
    Io(io::ErrorKind),
    Other,
}

/// The most specific error of a chain and the text of the last one. Outer errors contain only the place.
struct Cause {
    kind: Kind,
    last: String,
    /// Why a proxy opened no tunnel.
    tunnel: Option<String>,
}

impl Cause {
    fn find(error: &reqwest::Error) -> Self {
        let mut cause = Cause {
            kind: Kind::Other,
            last: "the request failed".to_owned(),
            tunnel: None,
        };
        let mut next = error.source();
        while let Some(link) = next {
            // reqwest's own errors print the URL.
            if !link.is::<reqwest::Error>() {
                cause.last = link.to_string();
            }
            if let Some(reason) = cause.last.strip_prefix(TUNNEL) {
                cause.tunnel = Some(reason.to_owned());
            }
            cause.classify(link);
            // The source of an I/O error is the source of the error that it wraps.
            let wrapped = link
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref);
            next = match wrapped {
                Some(inner) => Some(inner as &(dyn StdError + 'static)),
                None => link.source(),
            };
        }
        if error.is_timeout() {
            "it took too long".clone_into(&mut cause.last);
        }
        cause
    }

    fn classify(&mut self, link: &(dyn StdError + 'static)) {
        if let Some(error) = link.downcast_ref::<ResolveError>() {
            self.kind = match error {
                ResolveError::NotPublic(_) | ResolveError::NotLoopback => {
                    Kind::Refused(error.to_string())
                }
                ResolveError::Empty | ResolveError::System(_) => Kind::NoAddress(error.to_string()),
                ResolveError::Proxy(_) => Kind::Other,
            };
        } else if let Some(error) = link.downcast_ref::<rustls::Error>() {
            self.kind = Kind::Tls(error.clone());
        } else if let Some(error) = link.downcast_ref::<io::Error>() {
            // Inner errors are more specific: outer ones may only wrap them.
            if matches!(self.kind, Kind::Other | Kind::Io(_)) {
                self.kind = Kind::Io(error.kind());
            }
        } else if link.downcast_ref().is_some_and(malformed) {
            self.kind = Kind::Malformed(self.last.clone());
        }
    }
}

/// Returns whether the response is malformed. hyper has no predicate for unexpected bytes, only a text.
fn malformed(error: &hyper::Error) -> bool {
    error.is_parse() || error.to_string().contains("unexpected message")
}

/// The maximum number of names of a certificate in an error.
const MAX_NAMES: usize = 3;

/// The end of the year 9999, in seconds since 1970.
const LAST_SECOND: u64 = 253_402_300_799;

/// Describes why the connection failed.
pub(super) fn describe(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => certificate(error),
        Error::AlertReceived(alert) => self::alert(*alert),
        Error::NoApplicationProtocol => NO_HTTP_1_1.into(),
        Error::InvalidMessage(_) | Error::InappropriateMessage { .. } => {
            "it does not speak TLS on this port, or damages it; use an `http` or `ws` URL if the port has no TLS".into()
        }
        Error::PeerIncompatible(_) => {
            "it has no TLS version or algorithm in common with this client, which requires TLS 1.2 or 1.3".into()
        }
        Error::PeerMisbehaved(_)
        | Error::InappropriateHandshakeMessage { .. }
        | Error::PeerSentOversizedRecord
        | Error::DecryptError => "it violates the TLS protocol".into(),
        Error::NoCertificatesPresented => "it has presented no certificate".into(),
        Error::UnsupportedNameType => {
            "its certificate cannot be checked for this kind of host name".into()
        }
        Error::General(text) => text.clone(),
        Error::FailedToGetCurrentTime => "the clock of this machine cannot be read".into(),
        Error::FailedToGetRandomBytes => "the system provides no random bytes".into(),
        _ => "the handshake failed".into(),
    }
}

const NO_HTTP_1_1: &str = "it offers no HTTP/1.1 over TLS, only another protocol such as HTTP/2; enable HTTP/1.1 on the agent or its proxy";

/// Returns whether the peer ended the handshake because of the client certificate, so that it has read no request.
pub(super) fn refuses_client(error: &Error) -> bool {
    use AlertDescription as A;
    matches!(
        error,
        Error::AlertReceived(
            A::CertificateRequired
                | A::NoCertificate
                | A::BadCertificate
                | A::UnsupportedCertificate
                | A::CertificateRevoked
                | A::CertificateExpired
                | A::CertificateUnknown
                | A::UnknownCA
                | A::AccessDenied
        )
    )
}

fn certificate(error: &CertificateError) -> String {
    use CertificateError as C;
    let text = match error {
        C::UnknownIssuer => {
            "no trusted authority has issued its certificate, which may be self-signed; set `tls.caFile` to the certificate of its authority, or to its own"
        }
        C::Expired => "its certificate has expired; renew it",
        C::ExpiredContext { not_after, .. } => {
            return format!("its certificate expired on {}; renew it", date(*not_after));
        }
        C::NotValidYet => "its certificate is not valid yet; check the clock of this machine",
        C::NotValidYetContext { not_before, .. } => {
            return format!(
                "its certificate is not valid before {}; check the clock of this machine",
                date(*not_before)
            );
        }
        C::NotValidForName => {
            "its certificate is for another name; use a name of the certificate in the URL, or create a certificate with this subjectAltName"
        }
        C::NotValidForNameContext {
            expected,
            presented,
        } => {
            if presented.is_empty() {
                let host = expected.to_str();
                let kind = match host.parse::<IpAddr>() {
                    Ok(_) => "IP",
                    Err(_) => "DNS",
                };
                return format!(
                    "its certificate names no host, and the common name does not count; create one with `-addext subjectAltName={kind}:{host}`"
                );
            }
            let host = expected.to_str();
            // rustls writes the kind of a name before it.
            let as_dns = format!("DnsName(\"{host}\")");
            if host.parse::<IpAddr>().is_ok() && presented.contains(&as_dns) {
                return format!(
                    "its certificate has `{host}` as a DNS name, which does not count for an address; create one with `-addext subjectAltName=IP:{host}`"
                );
            }
            let names = names(presented);
            return format!(
                "its certificate is not for `{}` but for {names}; use a name of the certificate in the URL, or create a certificate with this subjectAltName",
                expected.to_str()
            );
        }
        C::BadSignature => {
            "a signature of its certificate or of the handshake is invalid, or made with an RSA key of less than 2048 bits; check `tls.caFile` and the key"
        }
        C::Revoked => "its certificate has been revoked; replace it",
        C::BadEncoding => "its certificate is malformed; create another one",
        C::UnhandledCriticalExtension => {
            "its certificate has a critical extension that is not supported; create another one"
        }
        C::InvalidPurpose | C::InvalidPurposeContext { .. } => {
            "its certificate is not for servers; create one with the extended key usage `serverAuth`"
        }
        C::UnsupportedSignatureAlgorithmContext { .. }
        | C::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "its certificate uses a signature algorithm that is not supported; create one with SHA-256 and an RSA, ECDSA or Ed25519 key"
        }
        C::Other(error) => return other(error),
        _ => "its certificate cannot be verified; create another one",
    };
    text.into()
}

fn other(error: &OtherError) -> String {
    let text = match error.0.downcast_ref() {
        Some(webpki::Error::CaUsedAsEndEntity) => {
            "its certificate is that of an authority (CA:TRUE) and may be self-signed; set `tls.caFile` to this certificate, or create one with `openssl req -x509 -addext basicConstraints=critical,CA:FALSE`"
        }
        Some(webpki::Error::UnsupportedCertVersion) => {
            "its certificate has X.509 version 1; create one of version 3, with the host as subjectAltName"
        }
        Some(webpki::Error::EndEntityUsedAsCa) => {
            "the authority of its certificate is no authority (CA:FALSE); issue the certificate by one with CA:TRUE"
        }
        _ => "its certificate cannot be verified; create another one",
    };
    text.into()
}

fn alert(alert: AlertDescription) -> String {
    use AlertDescription as A;
    let text = match alert {
        A::NoApplicationProtocol => NO_HTTP_1_1,
        A::CertificateRequired | A::NoCertificate => {
            "it requires a client certificate; set `auth` of the type `mtls`, or for a gateway the files of certificate and key"
        }
        A::BadCertificate
        | A::UnsupportedCertificate
        | A::CertificateRevoked
        | A::CertificateExpired
        | A::CertificateUnknown
        | A::UnknownCA
        | A::AccessDenied => {
            "it requires another client certificate, or refuses the one of this client; check `auth` of the type `mtls`"
        }
        A::ProtocolVersion => {
            "it supports neither TLS 1.2 nor TLS 1.3; enable one of them on the agent"
        }
        A::HandshakeFailure | A::InsufficientSecurity => {
            "it has no algorithm in common with this client, or requires a client certificate; of its keys, this client supports RSA, ECDSA P-256 and P-384, and Ed25519"
        }
        A::UnrecognisedName => "it does not serve this host name; check the host in the URL",
        other => {
            let name = format!("{other:?}");
            let name = name.split('(').next().unwrap_or_default();
            let mut words = String::new();
            for c in name.chars() {
                if c.is_uppercase() && !words.is_empty() {
                    words.push(' ');
                }
                words.extend(c.to_lowercase());
            }
            return format!("it ended the handshake with the alert `{words}`");
        }
    };
    text.into()
}

fn date(time: UnixTime) -> String {
    // The format has four digits for the year.
    let seconds = time.as_secs().min(LAST_SECOND);
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Lists the names of a certificate.
fn names(presented: &[String]) -> String {
    // rustls writes `DnsName("a.example")` or `IpAddress(127.0.0.1)`.
    let name = |text: &String| {
        let inner = text
            .split_once('(')
            .and_then(|(_, inner)| inner.strip_suffix(')'));
        format!("`{}`", inner.unwrap_or(text).trim_matches('"'))
    };
    let mut names: Vec<_> = presented.iter().take(MAX_NAMES).map(name).collect();
    if presented.len() > MAX_NAMES {
        names.push("others".into());
    }
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests;
