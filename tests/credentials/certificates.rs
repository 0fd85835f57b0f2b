//! New certificates for each test, and TLS servers that use them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::TlsAcceptor;

/// An authority, and files with its certificates.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

/// The client authentication of a server.
pub(crate) enum Clients {
    /// None.
    Any,
    /// Requests a certificate, and admits clients without one.
    Optional,
    /// Requires a certificate.
    Required,
}

/// A certificate and its key, in files and as text.
pub(crate) struct Pair {
    pub(crate) cert_file: PathBuf,
    pub(crate) key_file: PathBuf,
    /// A line of the key.
    pub(crate) key_line: String,
}

impl Authority {
    /// Creates an authority with its files in a folder of this name.
    pub(crate) fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("certificates")
            .join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = named(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        std::fs::write(folder.join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    /// Returns the file with its own certificate.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Returns a client's certificate.
    pub(crate) fn client(&self, name: &str) -> Pair {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let (cert_file, key_file) = (
            self.folder.join(format!("{name}.pem")),
            self.folder.join(format!("{name}.key")),
        );
        std::fs::write(&cert_file, cert.pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        Pair {
            cert_file,
            key_file,
            key_line: key.serialize_pem().lines().nth(1).unwrap().to_owned(),
        }
    }

    /// Returns a server on 127.0.0.1 with a certificate of this authority.
    pub(crate) fn server(&self, clients: &Clients) -> TlsAcceptor {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let known =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            Clients::Any => builder.with_no_client_auth(),
            Clients::Optional => {
                builder.with_client_cert_verifier(known.allow_unauthenticated().build().unwrap())
            }
            Clients::Required => builder.with_client_cert_verifier(known.build().unwrap()),
        };
        let key = key.serialize_der().try_into().unwrap();
        let config = builder
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut all = DistinguishedName::new();
    all.push(DnType::CommonName, name);
    all
}
