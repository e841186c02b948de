//! One connection, from its first byte to its last.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use mqtt_proto::v5::{
    Connack, Connect, ConnectReasonCode, Disconnect, DisconnectReasonCode, Packet, Puback, Publish, Suback,
    Subscribe, SubscribeReasonCode, Unsuback, Unsubscribe, UnsubscribeReasonCode,
};
use mqtt_proto::{QoS, QosPid};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::timeout;

use crate::acl::{Acl, Rights};
use crate::hub::{Bells, Id, Joining, Shared};
use crate::users::Users;
use crate::wire::{Broken, MAX_PACKET_BYTES, Packets, put};

/// Longest silence that a client may ask for [s]; one that is gone without a word is noticed after one and a half of it.
const MAX_KEEP_ALIVE_S: u16 = 300;

/// Longest name of a user or a client [bytes].
const MAX_NAME_BYTES: usize = 256;

/// How long a last word may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// What MQTT 3.1.1 understands: unacceptable protocol version.
const OLD_VERSION_REFUSED: [u8; 4] = [0x20, 0x02, 0x00, 0x01];

/// Who is let in.
#[derive(Debug)]
pub struct Door {
    /// Who may connect; `None` for everybody.
    pub users: Option<Users>,
    /// Who may say what; `None` for everybody everything.
    pub acl: Option<Acl>,
    /// How many connections there may be.
    pub max_connections: usize,
}

/// A connection that was let in.
pub struct Session<S> {
    packets: Packets<ReadHalf<S>>,
    writer: WriteHalf<S>,
    hub: Shared,
    id: Id,
    bells: Rc<Bells>,
    keep_alive: Duration,
    said_goodbye: bool,
}

/// Why a connection ends.
enum End {
    /// The other side said good-bye, or is gone.
    Theirs { said_goodbye: bool },
    /// This side ends it: why, for the client and for people.
    Ours(DisconnectReasonCode, String),
}

/// Lets a client in; `None` if it is none, or may not.
pub async fn admit<S: AsyncRead + AsyncWrite>(
    stream: S,
    peer: SocketAddr,
    door: &Door,
    hub: &Shared,
) -> Option<Session<S>> {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut packets = Packets::new(reader);
    let connect = match packets.next().await {
        Ok(Packet::Connect(connect)) => connect,
        Err(Broken::OldVersion) => {
            tell(hub, peer, "it does not speak MQTT 5; mosquitto_pub and mosquitto_sub do with -V 5");
            writer.write_all(&OLD_VERSION_REFUSED).await.ok()?;
            return None;
        }
        Ok(_) => {
            tell(hub, peer, "it does not begin with CONNECT");
            return None;
        }
        Err(Broken::Nonsense(_, why)) => {
            tell(hub, peer, &why);
            return None;
        }
        Err(Broken::Gone) => return None,
    };
    let keep_alive_s = match connect.keep_alive {
        0 => MAX_KEEP_ALIVE_S,
        asked => asked.min(MAX_KEEP_ALIVE_S),
    };
    let mut answer = Connack::new(false, ConnectReasonCode::Success);
    let joining = match check(&connect, door, hub) {
        Ok(client) => {
            let told = &mut answer.properties;
            told.session_expiry_interval = Some(0); // sessions end with their connection
            told.max_qos = Some(QoS::Level1);
            told.max_packet_size = u32::try_from(MAX_PACKET_BYTES).ok();
            told.assigned_client_id = connect.client_id.is_empty().then(|| Rc::as_ref(&client).into());
            told.server_keep_alive = (keep_alive_s != connect.keep_alive).then_some(keep_alive_s);
            told.subscription_id_available = Some(false);
            told.shared_subscription_available = Some(false);
            Some(joining(connect, client, door))
        }
        Err((reason, why)) => {
            let user = connect.username.as_deref().unwrap_or_default();
            tell(hub, peer, &format!("{why} (user {user:?})"));
            answer.reason_code = reason;
            None
        }
    };
    let mut out = BytesMut::new();
    put(&mut out, &answer.into(), usize::MAX);
    writer.write_all(&out).await.ok()?;
    writer.flush().await.ok()?;
    let (id, bells) = hub.borrow_mut().join(joining?);
    let keep_alive = Duration::from_millis(u64::from(keep_alive_s) * 1500);
    Some(Session { packets, writer, hub: Rc::clone(hub), id, bells, keep_alive, said_goodbye: false })
}

fn tell(hub: &Shared, peer: SocketAddr, why: &str) {
    let host = peer.ip().to_string();
    hub.borrow_mut().notices.tell("not let in", &host, || format!("{host}: {why}"));
}

/// Returns the client's name, given or made here, or why it is not let in.
fn check(connect: &Connect, door: &Door, hub: &Shared) -> Result<Rc<str>, (ConnectReasonCode, &'static str)> {
    let properties = &connect.properties;
    let names = [Some(&connect.client_id), connect.username.as_ref()];
    if names.into_iter().flatten().any(|name| name.len() > MAX_NAME_BYTES) {
        return Err((ConnectReasonCode::ClientIdentifierNotValid, "its name is too long"));
    }
    if properties.auth_method.is_some() {
        return Err((ConnectReasonCode::BadAuthMethod, "it wants another way to log in"));
    }
    if properties.receive_max == Some(0) || properties.max_packet_size == Some(0) {
        return Err((ConnectReasonCode::ProtocolError, "it takes no messages at all"));
    }
    if connect.last_will.as_ref().is_some_and(|will| will.qos == QoS::Level2) {
        return Err((ConnectReasonCode::QoSNotSupported, "its last will has QoS 2"));
    }
    if let Some(users) = &door.users {
        let user = connect.username.as_deref().unwrap_or_default();
        let password =
            connect.password.as_deref().and_then(|p| std::str::from_utf8(p).ok()).unwrap_or_default();
        if !users.allow(user, password) {
            return Err((ConnectReasonCode::NotAuthorized, "wrong user or password"));
        }
    }
    if hub.borrow().len() >= door.max_connections {
        return Err((ConnectReasonCode::QuotaExceeded, "there are too many connections"));
    }
    if !connect.client_id.is_empty() {
        return Ok(Rc::from(&*connect.client_id));
    }
    let mut random = [0; 8];
    let made = SystemRandom::new().fill(&mut random);
    made.map_err(|_| (ConnectReasonCode::UnspecifiedError, "no random numbers for its name"))?;
    Ok(format!("auto-{:016x}", u64::from_ne_bytes(random)).into())
}

fn joining(connect: Connect, client: Rc<str>, door: &Door) -> Joining {
    let user = connect.username.as_deref();
    Joining {
        rights: door.acl.as_ref().map_or_else(Rights::all, |acl| acl.rights(user, &client)),
        user: user.map(Rc::from),
        client,
        will: connect.last_will,
        receive_max: connect.properties.receive_max.unwrap_or(u16::MAX),
        max_packet_bytes: connect.properties.max_packet_size.map_or(usize::MAX, |bytes| bytes as usize),
    }
}

impl<S> Drop for Session<S> {
    /// However the task ended, nothing of it stays.
    fn drop(&mut self) {
        self.hub.borrow_mut().leave(self.id, self.said_goodbye);
    }
}

impl<S: AsyncRead + AsyncWrite> Session<S> {
    /// Serves until the connection ends.
    pub async fn serve(mut self) {
        let (hub, id, bells) = (Rc::clone(&self.hub), self.id, Rc::clone(&self.bells));
        let writing = Cell::new(false);
        let end = tokio::select! {
            end = read(&mut self.packets, &hub, id, &bells, self.keep_alive) => end,
            _ = write(&mut self.writer, &hub, id, &bells, &writing) => End::Theirs { said_goodbye: false },
            () = bells.end.notified() => {
                let reason = hub.borrow().end(id).unwrap_or(DisconnectReasonCode::UnspecifiedError);
                End::Ours(reason, String::new())
            }
        };
        match end {
            End::Theirs { said_goodbye } => self.said_goodbye = said_goodbye,
            End::Ours(reason, why) => {
                if !why.is_empty() {
                    hub.borrow_mut().tell(id, "disconnected", &why);
                }
                // In the middle of a packet there is no place for another.
                if !writing.get() {
                    let mut out = BytesMut::new();
                    put(&mut out, &Disconnect::new(reason).into(), usize::MAX);
                    let _ = timeout(GOODBYE, self.writer.write_all(&out)).await;
                    let _ = timeout(GOODBYE, self.writer.shutdown()).await;
                }
            }
        }
    }
}

async fn write<W: AsyncWrite + Unpin>(
    writer: &mut W,
    hub: &Shared,
    id: Id,
    bells: &Bells,
    writing: &Cell<bool>,
) -> io::Result<()> {
    let mut out = BytesMut::new();
    loop {
        hub.borrow_mut().next_batch(id, &mut out);
        if out.is_empty() {
            bells.write.notified().await;
            continue;
        }
        writing.set(true);
        writer.write_all(&out).await?;
        writer.flush().await?;
        writing.set(false);
        out.clear();
    }
}

async fn read<R: AsyncRead + Unpin>(
    packets: &mut Packets<R>,
    hub: &Shared,
    id: Id,
    bells: &Bells,
    keep_alive: Duration,
) -> End {
    loop {
        while hub.borrow().is_behind(id) {
            if timeout(keep_alive, bells.written.notified()).await.is_err() {
                return End::Ours(DisconnectReasonCode::KeepAliveTimeout, "reads no answers".into());
            }
        }
        let ended = match timeout(keep_alive, packets.next()).await {
            Ok(Ok(packet)) => handle(packet, hub, id),
            Ok(Err(Broken::Gone)) => Some(End::Theirs { said_goodbye: false }),
            Ok(Err(Broken::Nonsense(reason, why))) => {
                Some(End::Ours(reason, format!("sends nonsense: {why}")))
            }
            Ok(Err(Broken::OldVersion)) => Some(protocol_error("connects again")),
            Err(_) => Some(End::Ours(DisconnectReasonCode::KeepAliveTimeout, "is silent".into())),
        };
        if let Some(end) = ended {
            return end;
        }
    }
}

fn protocol_error(why: &str) -> End {
    End::Ours(DisconnectReasonCode::ProtocolError, why.into())
}

/// Does what a packet asks for; returns why the connection ends, if it does.
fn handle(packet: Packet, hub: &Shared, id: Id) -> Option<End> {
    match packet {
        Packet::Publish(publish) => return publish_from(publish, hub, id),
        Packet::Puback(puback) => hub.borrow_mut().acknowledged(id, &puback),
        Packet::Subscribe(subscribe) => subscribe_to(&subscribe, hub, id),
        Packet::Unsubscribe(unsubscribe) => unsubscribe_from(&unsubscribe, hub, id),
        Packet::Pingreq => hub.borrow_mut().answer(id, &Packet::Pingresp),
        Packet::Disconnect(disconnect) => {
            let said_goodbye = disconnect.reason_code == DisconnectReasonCode::NormalDisconnect;
            return Some(End::Theirs { said_goodbye });
        }
        other => return Some(protocol_error(&format!("sends {}", other.get_type()))),
    }
    None
}

fn publish_from(publish: Publish, hub: &Shared, id: Id) -> Option<End> {
    let pid = match publish.qos_pid {
        QosPid::Level0 => None,
        QosPid::Level1(pid) => Some(pid),
        QosPid::Level2(_) => {
            return Some(End::Ours(DisconnectReasonCode::QoSNotSupported, "publishes at QoS 2".into()));
        }
    };
    if publish.properties.topic_alias.is_some() {
        return Some(End::Ours(DisconnectReasonCode::TopicAliasInvalid, "uses topic aliases".into()));
    }
    if publish.topic_name.is_empty() || publish.properties.subscription_id.is_some() {
        return Some(protocol_error("publishes what only a broker may"));
    }
    let mut hub = hub.borrow_mut();
    let reason = hub.publish(id, publish);
    if let Some(pid) = pid {
        hub.answer(id, &Puback::new(pid, reason).into());
    }
    None
}

fn subscribe_to(subscribe: &Subscribe, hub: &Shared, id: Id) {
    let mut hub = hub.borrow_mut();
    let reasons = subscribe.topics.iter().map(|(filter, options)| {
        if subscribe.properties.subscription_id.is_some() {
            SubscribeReasonCode::SubscriptionIdentifiersNotSupported
        } else {
            hub.subscribe(id, filter, *options)
        }
    });
    let answer = Suback::new(subscribe.pid, reasons.collect());
    hub.answer(id, &answer.into());
}

fn unsubscribe_from(unsubscribe: &Unsubscribe, hub: &Shared, id: Id) {
    let mut hub = hub.borrow_mut();
    let reasons = unsubscribe.topics.iter().map(|filter| {
        if hub.unsubscribe(id, filter) {
            UnsubscribeReasonCode::Success
        } else {
            UnsubscribeReasonCode::NoSubscriptionExisted
        }
    });
    let answer = Unsuback::new(unsubscribe.pid, reasons.collect());
    hub.answer(id, &answer.into());
}
