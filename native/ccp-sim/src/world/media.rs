//! Packets of media over RTP.

use super::World;
use crate::app::{Act, App, Rtp, SentReport};
use crate::packet::{Payload, SimPacket};

impl World {
    /// Sends what is due of a flow of media.
    pub(super) fn send_media(&mut self, index: usize) {
        while let App::Rtp(rtp) = &mut self.flows[index].app
            && let Some(act) = rtp.take_due(self.now_ns)
        {
            let (sender, receiver) = (self.flows[index].sender, self.flows[index].receiver);
            let flow = index as u32;
            let (from, to, payload) = match act {
                Act::Packet { number, len_bytes } => {
                    (sender, receiver, Payload::Media { flow, number, len_bytes })
                }
                Act::SenderReport => (sender, receiver, Payload::SenderReport { flow, sent_ns: self.now_ns }),
                Act::Report(report) => (receiver, sender, Payload::Report { flow, report }),
            };
            self.counters.sent_pkts += 1;
            let packet = SimPacket::datagram(self.flows[index].v6, payload);
            self.network.arrive(self.now_ns, from, to, packet);
        }
    }

    pub(super) fn on_media(&mut self, flow: u32, number: u32) {
        let now_ns = self.now_ns;
        self.with_rtp(flow, |rtp| rtp.on_packet(now_ns, number));
    }

    pub(super) fn on_sender_report(&mut self, flow: u32, sent_ns: u64) {
        let now_ns = self.now_ns;
        self.with_rtp(flow, |rtp| rtp.on_sender_report(now_ns, sent_ns));
    }

    pub(super) fn on_media_report(&mut self, flow: u32, report: &SentReport) {
        let now_ns = self.now_ns;
        self.with_rtp(flow, |rtp| rtp.on_report(now_ns, report));
    }

    fn with_rtp(&mut self, flow: u32, act: impl FnOnce(&mut Rtp)) {
        if let App::Rtp(rtp) = &mut self.flows[flow as usize].app {
            act(rtp);
            self.set_flow_timer(flow as usize);
        }
    }
}
