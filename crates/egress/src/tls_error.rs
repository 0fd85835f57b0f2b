//! Errors of TLS in words: a clause whose subject is the peer, with what to do.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, OtherError};

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
            let names = names(presented);
            return format!(
                "its certificate is not for `{}` but for {names}; use a name of the certificate in the URL, or create a certificate with this subjectAltName",
                expected.to_str()
            );
        }
        C::BadSignature => {
            "a signature of its certificate or of the handshake is invalid; check `tls.caFile`"
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
            "it requires a client certificate; set `auth` of the type `mtls`"
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
