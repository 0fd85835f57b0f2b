//! A certificate authority for tests.
#![allow(
    missing_docs,
    clippy::new_without_default,
    reason = "used only in tests"
)]
#![allow(clippy::unwrap_used)]

use std::{fs, path::PathBuf, sync::Arc};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use tokio_rustls::TlsConnector;

use crate::folder::Folder;

/// An authority, and a folder for its certificates.
pub struct Authority {
    folder: Folder,
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
}

impl Authority {
    /// Creates an authority in a new folder.
    ///
    /// # Panics
    /// The folder cannot be written.
    pub fn new() -> Self {
        let folder = Folder::new();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params
            .distinguished_name
            .push(DnType::CommonName, "Authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap();
        fs::write(folder.file("ca.pem"), root.pem()).unwrap();
        let root = root.der().clone();
        let issuer = Issuer::new(params, key);
        Self {
            folder,
            issuer,
            root,
        }
    }

    /// Issues a certificate for a name, and writes it to `NAME.pem` and `NAME.key`.
    ///
    /// # Panics
    /// The name is not a valid host name, or the folder cannot be written.
    pub fn signed(&self, name: &str) -> (CertificateDer<'static>, KeyPair) {
        self.issue(name, 4000)
    }

    /// Issues a certificate like [`signed`](Self::signed) that expires at the beginning of `year`.
    ///
    /// # Panics
    /// Like [`signed`](Self::signed).
    pub fn issue(&self, name: &str, year: i32) -> (CertificateDer<'static>, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.into()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(self.file(&format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(self.file(&format!("{name}.key")), key.serialize_pem()).unwrap();
        (certificate.der().clone(), key)
    }

    /// Returns the path of a file in the folder. `ca.pem` is the certificate of the authority.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.file(name)
    }

    /// Creates a client that trusts the authority and, if given, presents a certificate.
    ///
    /// # Panics
    /// The certificate does not match its key.
    pub fn client(&self, own: Option<(CertificateDer<'static>, KeyPair)>) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
                builder
                    .with_client_auth_cert(vec![certificate], key)
                    .unwrap()
            }
        };
        TlsConnector::from(Arc::new(config))
    }
}
