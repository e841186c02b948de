//! The certificate of the receivers. Its length is always the same, so that simulations are reproducible.

use std::sync::Arc;

use ccp_emu::Error;
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519, SerialNumber};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

pub(crate) const NAME: &str = "receiver";

pub(crate) struct Identity {
    pub certificate: CertificateDer<'static>,
    pub key: PrivateKeyDer<'static>,
    pub roots: Arc<RootCertStore>,
}

/// Makes a certificate, signed by itself. Errors: `quic_sim.tls`.
pub(crate) fn identity() -> ccp_emu::Result<Identity> {
    let key = KeyPair::generate_for(&PKCS_ED25519).map_err(bad)?;
    let mut parameters = CertificateParams::new([NAME.to_string()]).map_err(bad)?;
    parameters.serial_number = Some(SerialNumber::from(1));
    let certificate = parameters.self_signed(&key).map_err(bad)?.der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).map_err(bad)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok(Identity { certificate, key, roots: Arc::new(roots) })
}

pub(crate) fn bad(why: impl std::fmt::Display) -> Error {
    Error::new("quic_sim.tls", "cannot prepare TLS for the connections").why(why)
}
