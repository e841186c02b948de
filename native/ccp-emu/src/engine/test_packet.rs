use crate::packet::{Ecn, Packet};

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TestPacket {
    pub id: u64,
    pub flow: u64,
    pub len_bytes: u32,
    pub ecn: Ecn,
    pub hops: u8,
    pub corrupted: bool,
}

impl Default for TestPacket {
    fn default() -> Self {
        TestPacket { id: 0, flow: 0, len_bytes: 1500, ecn: Ecn::NotEct, hops: 64, corrupted: false }
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
}
