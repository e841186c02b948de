use crate::packet::{Ecn, Judged, Packet};

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TestPacket {
    pub id: u64,
    pub flow: u64,
    pub len_bytes: u32,
    pub ecn: Ecn,
    pub hops: u8,
    pub corrupted: bool,
    /// The number of an ACK.
    pub ack: Option<u64>,
}

impl Default for TestPacket {
    fn default() -> Self {
        TestPacket {
            id: 0,
            flow: 0,
            len_bytes: 1500,
            ecn: Ecn::NotEct,
            hops: 64,
            corrupted: false,
            ack: None,
        }
    }
}

impl Packet for TestPacket {
    fn len_bytes(&self) -> u32 {
        self.len_bytes
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }

    fn flow_id(&self) -> u64 {
        self.flow
    }

    fn hop(&mut self) -> bool {
        self.hops = self.hops.saturating_sub(1);
        self.hops > 0
    }

    fn corrupt(&mut self, _choice: u64) {
        self.corrupted = true;
    }

    fn judge(&self, waiting: &Self) -> Judged {
        match (self.ack, waiting.ack) {
            (Some(newer), Some(older)) if newer > older => Judged::Superfluous,
            (Some(_), Some(_)) => Judged::Needed,
            _ => Judged::Unrelated,
        }
    }

    fn too_big(&self, mtu_bytes: u32) -> Option<Self> {
        Some(TestPacket { id: u64::from(mtu_bytes), len_bytes: 576, ..TestPacket::default() })
    }
}
