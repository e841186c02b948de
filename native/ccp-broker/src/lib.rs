//! The embedded MQTT 5 broker: one thread, bounded memory, Mosquitto's password files and access lists.
//!
//! QoS 0 and 1, retained messages, last wills, message expiry. Not here, and said so in CONNACK: QoS 2, sessions that
//! outlast their connection, shared subscriptions, subscription identifiers, topic aliases.

mod acl;
mod connection;
mod hub;
mod message;
mod notices;
mod outbox;
mod retained;
mod topic;
mod users;
mod wire;

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ccp_error::Error;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use acl::Acl;
use connection::{Door, admit};
use hub::Shared;
use users::Users;

/// How many clients may be connected, and how many more may be about to say who they are.
const MAX_CONNECTIONS: usize = 1000;
const MAX_STRANGERS: usize = 100;

/// How long a client may take to say who it is, the handshake of TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// After an accept that failed, most often for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where to listen, and for whom.
#[derive(Debug)]
pub struct Settings<'a> {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Certificates and key for TLS, PEM; `None` for plain TCP.
    pub tls: Option<(&'a [u8], &'a [u8])>,
    /// Text of a password file of Mosquitto; `None` lets everybody in.
    pub users: Option<&'a str>,
    /// Text of an access list of Mosquitto; `None` lets everybody publish and read everything.
    pub acl: Option<&'a str>,
}

/// A broker that listens, and is not served yet.
pub struct Broker {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    door: Door,
}

impl Broker {
    /// Listens.
    ///
    /// # Errors
    /// `bus.no_password_file`, `bus.bad_acl`, `bus.tls_files`, `bus.port_taken`.
    pub fn bind(settings: &Settings<'_>) -> Result<Self, Error> {
        let users = settings.users.map(Users::parse).transpose().map_err(|e| {
            Error::new("bus.no_password_file", format!("cannot use the password file: {e}"))
                .fix("write it with `mosquitto_passwd` of Mosquitto 2")
        })?;
        let acl = settings.acl.map(Acl::parse).transpose().map_err(|e| {
            Error::new("bus.bad_acl", format!("cannot use the access list: {e}"))
                .fix("write it as Mosquitto's acl_file; broker/mosquitto/acl is one")
        })?;
        let tls = settings.tls.map(|(certificates, key)| acceptor(certificates, key)).transpose()?;
        let listen = |address: SocketAddr| {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = listen(settings.listen).map_err(|e: io::Error| {
            Error::new("bus.port_taken", format!("cannot listen on {}: {e}", settings.listen))
                .fix("stop what listens there, perhaps a Mosquitto, or choose another address or port")
        })?;
        Ok(Self { listener, tls, door: Door { users, acl, max_connections: MAX_CONNECTIONS } })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves clients on this thread, for ever.
    ///
    /// # Errors
    /// If the event loop cannot be made.
    pub fn serve(self) -> io::Result<Infallible> {
        // A panic ends one connection: one line says where, the rest goes on.
        std::panic::set_hook(Box::new(|info| notices::say(&format!("a connection broke: {info}"))));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        tokio::task::LocalSet::new().block_on(&runtime, self.accept())
    }

    async fn accept(self) -> io::Result<Infallible> {
        let hub = Shared::default();
        let door = Rc::new(self.door);
        let strangers = Arc::new(Semaphore::new(MAX_STRANGERS));
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        tokio::task::spawn_local(tick(Rc::clone(&hub)));
        loop {
            // The rest waits in the kernel's backlog.
            let stranger = Arc::clone(&strangers).acquire_owned().await.map_err(io::Error::other)?;
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(e) => {
                    hub.borrow_mut().notices.tell("not let in", "accept", || e.to_string());
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let (door, hub, tls) = (Rc::clone(&door), Rc::clone(&hub), self.tls.clone());
            tokio::task::spawn_local(serve_one(stream, peer, tls, door, hub, stranger));
        }
    }
}

fn acceptor(certificates: &[u8], key: &[u8]) -> Result<TlsAcceptor, Error> {
    let refuse = |why: String| {
        Error::new("bus.tls_files", "cannot use the certificate or its key")
            .why(why)
            .fix("give both as PEM files")
    };
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(certificates)
        .collect::<Result<_, _>>()
        .map_err(|e| refuse(e.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| refuse(e.to_string()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|e| refuse(e.to_string()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn serve_one(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    door: Rc<Door>,
    hub: Shared,
    stranger: OwnedSemaphorePermit,
) {
    // A message that waits 40 ms for the ACK of the one before is of no use.
    let _ = stream.set_nodelay(true);
    if let Some(tls) = tls {
        let admitted = timeout(CONNECT_TIMEOUT, async {
            let stream = tls.accept(stream).await.ok()?;
            admit(stream, peer, &door, &hub).await
        });
        let admitted = admitted.await;
        drop(stranger);
        if let Ok(Some(session)) = admitted {
            session.serve().await;
        }
    } else {
        let admitted = timeout(CONNECT_TIMEOUT, admit(stream, peer, &door, &hub)).await;
        drop(stranger);
        if let Ok(Some(session)) = admitted {
            session.serve().await;
        }
    }
}

async fn tick(hub: Shared) {
    loop {
        hub.borrow_mut().tick();
        tokio::time::sleep(notices::INTERVAL).await;
    }
}
