#![allow(clippy::unwrap_used)]

use rustls::{InvalidMessage, PeerIncompatible};

use super::*;

#[test]
fn description_has_no_debug_text() {
    let alerts = (0..=255).map(|code| Error::AlertReceived(AlertDescription::from(code)));
    let others = [
        Error::InvalidMessage(InvalidMessage::InvalidContentType),
        Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13),
        Error::InvalidCertificate(CertificateError::UnknownIssuer),
        Error::InvalidCertificate(CertificateError::BadSignature),
        Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure),
        Error::HandshakeNotComplete,
    ];
    for error in alerts.chain(others) {
        let text = describe(&error);
        let camel_case = text.split(|c: char| !c.is_alphanumeric()).any(|word| {
            word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase)
        });
        let known = ["caFile", "serverAuth", "subjectAltName"]
            .iter()
            .any(|word| text.contains(word));
        assert!(!camel_case || known, "{text}");
    }
}

#[test]
fn names_of_a_certificate_are_bounded() {
    let listed = |all: &[&str]| {
        names(
            &all.iter()
                .map(|name| format!("DnsName(\"{name}\")"))
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(listed(&["a"]), "`a`");
    assert_eq!(listed(&["a", "b"]), "`a` and `b`");
    assert_eq!(
        listed(&["a", "b", "c", "d", "e"]),
        "`a`, `b`, `c` and others"
    );
}

#[test]
fn certificate_outside_its_dates_says_what_to_renew_or_to_check() {
    for (error, advice) in [
        (CertificateError::Expired, "expired; renew it"),
        (
            CertificateError::NotValidYet,
            "not valid yet; check the clock",
        ),
    ] {
        let text = describe(&Error::InvalidCertificate(error));
        assert!(text.contains(advice), "{text}");
    }
}

#[test]
fn certificate_without_a_name_leads_to_the_option_that_adds_one() {
    for (host, option) in [
        ("127.0.0.1", "`-addext subjectAltName=IP:127.0.0.1`"),
        ("desk.example", "`-addext subjectAltName=DNS:desk.example`"),
    ] {
        let error = CertificateError::NotValidForNameContext {
            expected: host.try_into().unwrap(),
            presented: Vec::new(),
        };
        let text = describe(&Error::InvalidCertificate(error));
        assert!(text.contains(option), "{text}");
    }
}
