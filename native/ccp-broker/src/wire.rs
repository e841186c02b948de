//! Packets on a stream.

use bytes::{Buf, BytesMut};
use mqtt_proto::v5::{DisconnectReasonCode, ErrorV5, Header, Packet, PacketType};
use mqtt_proto::{Error, PollHeader, Protocol};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Longest packet that is taken [bytes]; the longest message of ours has 64 KiB.
pub const MAX_PACKET_BYTES: usize = 128 * 1024;

/// Why there is no further packet.
#[derive(Debug)]
pub enum Broken {
    /// The stream ended, or broke.
    Gone,
    /// It is no MQTT 5: why, for the client and for people.
    Nonsense(DisconnectReasonCode, String),
    /// Another version of MQTT.
    OldVersion,
}

impl Broken {
    fn malformed(why: impl ToString) -> Self {
        Self::Nonsense(DisconnectReasonCode::MalformedPacket, why.to_string())
    }
}

impl From<ErrorV5> for Broken {
    fn from(error: ErrorV5) -> Self {
        match error {
            ErrorV5::Common(Error::UnexpectedProtocol(Protocol::V310 | Protocol::V311)) => Self::OldVersion,
            error => Self::malformed(error),
        }
    }
}

/// Packets that come in.
pub struct Packets<R> {
    reader: R,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> Packets<R> {
    /// Reads from a stream.
    pub fn new(reader: R) -> Self {
        Self { reader, buffer: BytesMut::new() }
    }

    /// Waits for the next packet.
    pub async fn next(&mut self) -> Result<Packet, Broken> {
        loop {
            if let Some(packet) = take(&mut self.buffer)? {
                return Ok(packet);
            }
            if self.reader.read_buf(&mut self.buffer).await.map_err(|_| Broken::Gone)? == 0 {
                return Err(Broken::Gone);
            }
        }
    }
}

/// Takes a packet out of what came, if it is complete.
fn take(buffer: &mut BytesMut) -> Result<Option<Packet>, Broken> {
    let Some((header_bytes, body_bytes)) = lengths(buffer)? else { return Ok(None) };
    let total = header_bytes + body_bytes;
    if total > MAX_PACKET_BYTES {
        let why = format!("a packet of {total} bytes; at most {MAX_PACKET_BYTES} are taken");
        return Err(Broken::Nonsense(DisconnectReasonCode::PacketTooLarge, why));
    }
    if buffer.len() < total {
        return Ok(None);
    }
    let packet = decode(buffer[0], &buffer[header_bytes..total])?;
    buffer.advance(total);
    Ok(Some(packet))
}

/// Returns the lengths of header and body; `None` if the header is not there yet.
fn lengths(bytes: &[u8]) -> Result<Option<(usize, usize)>, Broken> {
    let mut body = 0;
    for (index, &byte) in bytes.iter().skip(1).take(4).enumerate() {
        body |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            // Longer than need be is not allowed: MQTT 5, 1.5.5.
            let minimal = index == 0 || byte != 0;
            return if minimal {
                Ok(Some((index + 2, body)))
            } else {
                Err(Broken::malformed("a padded length"))
            };
        }
    }
    if bytes.len() < 5 { Ok(None) } else { Err(Broken::malformed("a length of more than four bytes")) }
}

fn decode(control: u8, body: &[u8]) -> Result<Packet, Broken> {
    let length = u32::try_from(body.len()).map_err(Broken::malformed)?;
    let header = Header::new_with(control, length, length)?;
    if matches!(header.typ, PacketType::Pingreq | PacketType::Pingresp) && length > 0 {
        return Err(Broken::malformed("a ping with a body"));
    }
    if let Some(packet) = header.build_empty_packet() {
        return Ok(packet);
    }
    let mut offset = 0;
    let packet = header.decode_buffer(body, &mut offset)?;
    if offset != body.len() {
        return Err(Broken::malformed("bytes after the end of a packet"));
    }
    Ok(packet)
}

/// Adds a packet to what is to be written; false if it cannot be, or is longer than the other side takes.
pub fn put(out: &mut BytesMut, packet: &Packet, limit_bytes: usize) -> bool {
    match packet.encode() {
        Ok(encoded) if encoded.as_ref().len() <= limit_bytes => {
            out.extend_from_slice(encoded.as_ref());
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use mqtt_proto::v5::Publish;
    use mqtt_proto::{QosPid, TopicName};
    use proptest::prelude::*;

    use super::*;

    fn publish(length: usize) -> Packet {
        let topic = TopicName::try_from("a/b").unwrap();
        Publish::new(QosPid::Level0, topic, vec![7; length].into()).into()
    }

    #[test]
    fn packets_are_taken_when_they_are_complete() {
        let mut out = BytesMut::new();
        let sent: Vec<Packet> = [0, 1, 120, 121, 122, 20_000].into_iter().map(publish).collect();
        assert!(sent.iter().all(|packet| put(&mut out, packet, MAX_PACKET_BYTES)));
        let (mut buffer, mut came) = (BytesMut::new(), Vec::new());
        for byte in out {
            buffer.extend_from_slice(&[byte]);
            came.extend(take(&mut buffer).unwrap());
        }
        assert_eq!(came, sent);
        assert!(buffer.is_empty());
    }

    #[test]
    fn too_long_packets_are_refused_before_they_are_there() {
        let mut buffer = BytesMut::from(&[0x30, 0x81, 0x80, 0x08][..]);
        assert!(matches!(take(&mut buffer), Err(Broken::Nonsense(DisconnectReasonCode::PacketTooLarge, _))));
        assert!(!put(&mut BytesMut::new(), &publish(100), 100));
    }

    #[test]
    fn old_versions_are_told_apart_from_nonsense() {
        let old = b"\x10\x0f\x00\x04MQTT\x04\x02\x00\x3c\x00\x03abc";
        assert!(matches!(take(&mut BytesMut::from(&old[..])), Err(Broken::OldVersion)));
        for nonsense in [
            &b"\x30\xff\xff\xff\xff\x01"[..],
            b"\xc0\x01\x00",
            b"\x30\x81\x00\x00",
            b"\x00\x00",
            b"\xd0\x00\x01",
        ] {
            let mut buffer = BytesMut::from(nonsense);
            let taken = take(&mut buffer);
            assert!(
                matches!(taken, Err(Broken::Nonsense(..)) | Ok(Some(Packet::Pingresp))),
                "{nonsense:?} {taken:?}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn nothing_that_comes_breaks_more_than_its_connection(
            control in any::<u8>(), body in prop::collection::vec(any::<u8>(), 0..120),
        ) {
            let mut buffer = BytesMut::from(&[control, body.len() as u8][..]);
            buffer.extend_from_slice(&body);
            let _ = take(&mut buffer);
        }

        #[test]
        fn nor_does_a_packet_that_was_changed_on_its_way(
            at in 0..200usize, byte in any::<u8>(), connect in any::<bool>(),
        ) {
            let connect_packet = b"\x10\x2a\x00\x04MQTT\x05\xc6\x00\x3c\x03\x21\x00\x0a\x00\x03abc\x05\x18\x00\x00\x00\x01\x00\x01w\x00\x01x\x00\x01u\x00\x01p";
            let mut buffer = BytesMut::new();
            if connect { buffer.extend_from_slice(connect_packet) } else { put(&mut buffer, &publish(50), 1000); }
            let length = buffer.len();
            buffer[at % length] = byte;
            let _ = take(&mut buffer);
        }
    }
}
