// SPDX-License-Identifier: MIT
//! TLS, if the command line names a certificate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;

use super::renewed::{read, Renewed};
use crate::failure::{Exit, Failure};

pub struct Tls(Renewed<ServerConfig>);

impl Tls {
    pub fn new(certificate: &Path, key: &Path) -> Result<Self, Failure> {
        let paths = vec![certificate.to_path_buf(), key.to_path_buf()];
        let (certificate, key) = (paths[0].clone(), paths[1].clone());
        Renewed::new(paths, Box::new(move || load(&certificate, &key))).map(Self)
    }

    pub fn acceptor(&self) -> TlsAcceptor {
        self.0.get().into()
    }

    pub fn renew(&self) {
        self.0.renew();
    }
}

fn load(certificate: &PathBuf, key: &PathBuf) -> Result<ServerConfig, Failure> {
    let says = |path: &PathBuf, what: &str| {
        Failure::new(Exit::BadFile, format!("{} {what}", path.display()))
    };
    let pem = read(certificate)?.0;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|e| says(certificate, &format!("is damaged: {e}")))?;
    if chain.is_empty() {
        return Err(says(certificate, "has no certificate in PEM"));
    }
    let pem = read(key)?.0;
    let private = PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|_| says(key, "has no private key in PEM without a password"))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| says(certificate, &format!("cannot be used: {e}")))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|e| {
            let with = format!("cannot be used with {}: {e}", key.display());
            says(certificate, &with)
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
