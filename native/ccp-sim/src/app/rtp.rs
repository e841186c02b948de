//! Media over RTP: paced frames over UDP without congestion control, and RTCP reports (RFC 3550), as sent by
//! `experiments/traffic/rtp_ends.py`.

use serde::Serialize;

use super::ns;

/// Time in which packets may still arrive after the last one was sent.
pub(crate) const DRAIN_NS: u64 = 1_000_000_000;

/// A packet of media.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct MediaPacket {
    pub frame: u32,
    pub len_bytes: u32,
    pub sent_us: u64,
    /// `None`: lost.
    pub arrived_us: Option<u64>,
}

/// A receiver report that arrived at the sender.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct MediaReport {
    pub arrived_us: u64,
    /// Lost packets since the report before, in 1/256 of those expected.
    pub fraction_lost: u8,
    /// Highest packet number received.
    pub highest: u32,
    /// `None` before a report of the sender arrived.
    pub rtt_us: Option<u64>,
}

/// A receiver report on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentReport {
    pub fraction_lost: u8,
    pub highest: u32,
    /// Time of the last report of the sender, and how long ago it arrived.
    pub echo_ns: Option<(u64, u64)>,
}

/// State of the receiver (RFC 3550, appendix A).
#[derive(Debug, Default)]
struct Receiver {
    base: u32,
    highest: Option<u32>,
    received: u32,
    expected_before: u32,
    received_before: u32,
    due_ns: Option<u64>,
    /// Times at which the sender's last report was sent and arrived.
    sender_report_ns: Option<(u64, u64)>,
}

impl Receiver {
    fn report(&mut self, now_ns: u64) -> Option<SentReport> {
        let highest = self.highest?;
        let expected = highest - self.base + 1;
        let expected_now = expected - self.expected_before;
        let lost = expected_now.saturating_sub(self.received - self.received_before);
        (self.expected_before, self.received_before) = (expected, self.received);
        let fraction_lost = (u64::from(lost) << 8).checked_div(u64::from(expected_now)).unwrap_or(0);
        Some(SentReport {
            fraction_lost: u8::try_from(fraction_lost).unwrap_or(u8::MAX),
            highest,
            echo_ns: self.sender_report_ns.map(|(sent_ns, arrived_ns)| (sent_ns, now_ns - arrived_ns)),
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// The sender sends a packet of this number and payload.
    Packet {
        number: u32,
        len_bytes: u32,
    },
    SenderReport,
    Report(SentReport),
}

#[derive(Debug)]
pub(crate) struct Rtp {
    frames_per_s: f64,
    /// Payload of each packet of a frame.
    frame: Vec<u32>,
    report_ns: u64,
    start_ns: u64,
    stop_ns: u64,
    frames: u32,
    /// Packets of the current frame that are sent.
    sent_of_frame: usize,
    sender_report_ns: u64,
    receiver: Receiver,
    pub packets: Vec<MediaPacket>,
    pub reports: Vec<MediaReport>,
}

impl Rtp {
    pub fn new(frames_per_s: f64, frame: &[u32], report_us: u64) -> Self {
        Rtp {
            frames_per_s,
            frame: frame.to_vec(),
            report_ns: ns(report_us),
            start_ns: u64::MAX,
            stop_ns: u64::MAX,
            frames: 0,
            sent_of_frame: 0,
            sender_report_ns: u64::MAX,
            receiver: Receiver::default(),
            packets: Vec::new(),
            reports: Vec::new(),
        }
    }

    pub fn begin(&mut self, now_ns: u64, stop_ns: Option<u64>) {
        (self.start_ns, self.stop_ns) = (now_ns, stop_ns.unwrap_or(u64::MAX));
        self.sender_report_ns = now_ns;
    }

    fn frame_ns(&self) -> u64 {
        let since_ns = f64::from(self.frames) * 1e9 / self.frames_per_s;
        self.start_ns.saturating_add(since_ns.round() as u64)
    }

    pub fn due_ns(&self) -> Option<u64> {
        let due_ns = self.frame_ns().min(self.sender_report_ns);
        let due_ns = due_ns.min(self.receiver.due_ns.unwrap_or(u64::MAX));
        (due_ns < self.stop_ns).then_some(due_ns)
    }

    /// What an end does now.
    pub fn take_due(&mut self, now_ns: u64) -> Option<Act> {
        if self.due_ns().is_none_or(|due_ns| due_ns > now_ns) {
            return None;
        }
        if self.sender_report_ns <= now_ns {
            self.sender_report_ns += self.report_ns;
            return Some(Act::SenderReport);
        }
        if let Some(due_ns) = self.receiver.due_ns.filter(|due_ns| *due_ns <= now_ns) {
            self.receiver.due_ns = Some(due_ns + self.report_ns);
            return self.receiver.report(now_ns).map(Act::Report);
        }
        let (number, len_bytes) = (self.packets.len() as u32, self.frame[self.sent_of_frame]);
        let sent = MediaPacket { frame: self.frames, len_bytes, sent_us: now_ns / 1000, arrived_us: None };
        self.packets.push(sent);
        self.sent_of_frame += 1;
        if self.sent_of_frame == self.frame.len() {
            (self.frames, self.sent_of_frame) = (self.frames + 1, 0);
        }
        Some(Act::Packet { number, len_bytes })
    }

    /// A packet arrived; a second copy does not count.
    pub fn on_packet(&mut self, now_ns: u64, number: u32) {
        let packet = &mut self.packets[number as usize];
        if packet.arrived_us.is_some() {
            return;
        }
        packet.arrived_us = Some(now_ns / 1000);
        let receiver = &mut self.receiver;
        if receiver.highest.is_none() {
            receiver.base = number;
            receiver.due_ns = Some(now_ns + self.report_ns);
        }
        receiver.highest = receiver.highest.max(Some(number));
        receiver.received += 1;
    }

    pub fn on_sender_report(&mut self, now_ns: u64, sent_ns: u64) {
        self.receiver.sender_report_ns = Some((sent_ns, now_ns));
    }

    pub fn on_report(&mut self, now_ns: u64, report: &SentReport) {
        let rtt_us = report.echo_ns.map(|(sent_ns, held_ns)| (now_ns - sent_ns - held_ns) / 1000);
        self.reports.push(MediaReport {
            arrived_us: now_ns / 1000,
            fraction_lost: report.fraction_lost,
            highest: report.highest,
            rtt_us,
        });
    }

    /// Payload that arrived.
    pub fn received_bytes(&self) -> u64 {
        let arrived = self.packets.iter().filter(|packet| packet.arrived_us.is_some());
        arrived.map(|packet| u64::from(packet.len_bytes)).sum()
    }
}
