//! Clients of R-TCP: one detector and one limiter for all connections to a client, as `clients.h` of `ccp-rtcp` has it.
//! Each connection adds what it delivers and loses, and learns what it may send.

use std::collections::BTreeMap;

use ccp_rtcp_core::types::{
    RTCP_APART, RTCP_CAPPED, RTCP_GONE, RTCP_LIMITED, RTCP_OPEN, RTCP_PROBING, RTCP_RAISED,
    RTCP_SEEKS_NOTHING, RTCP_STAGE_CAPPED, RTCP_STAGE_LIFTED, RTCP_STAGE_PROBING, RTCP_STAGE_RAISED,
    RTCP_UNDECIDED_US, rtcp_seeking,
};
use ccp_rtcp_core::{Detector, Limiter, Member as Sharing, Options, Progress, Remote, Row};
use ccp_tcp::Sock;

/// A mean size of packets is that of so many.
const SEGS_OF_A_MEAN: u64 = 32;

/// Namespace, and which other ends.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
struct Key {
    netns: u32,
    remote: Remote,
}

/// What a connection remembers of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Member {
    key: Key,
    address: [u8; 16],
    port: u16,
    sharing: Sharing,
    /// Number of the client that it is counted in.
    client: Option<u64>,
    delivered_pkts: u32,
    lost_pkts: u32,
    /// When the mean packet was last computed.
    sent_bytes: u64,
    sent_segs: u64,
    /// Mean packet of what was sent before: small writes make small ones.
    seg_bytes: u64,
    in_flight_bytes: u64,
    is_active: bool,
    is_sharing: bool,
    /// It may send so much; 0: it is not capped.
    pub rate_bytes_per_s: u64,
    /// Its client is limited.
    pub is_limited: bool,
    /// It seems to be: an estimate waits for its verdict.
    pub is_suspected: bool,
    /// It is to find out whether more gets through now: an `enum rtcp_seeking`.
    pub seeks: rtcp_seeking,
}

impl Member {
    /// The rate that bounds pacing; 0: none does.
    pub fn pacing_cap_bytes_per_s(&self, options: &Options) -> u64 {
        (u128::from(self.rate_bytes_per_s) * u128::from(options.margin_ratio_ppm) / 1_000_000) as u64
    }

    /// The window that the rate fills [segments]; none if it is not bounded. Pacing alone bounds whom it can while a
    /// verdict is on its way: that needs a loss, and a small window has none.
    pub fn window_pkts(&self, sock: &Sock, floor_pkts: u32, is_paced: bool) -> Option<u32> {
        let rate = self.rate_bytes_per_s;
        if rate == 0 || (is_paced && !self.is_limited) {
            return None;
        }
        let bytes = u128::from(rate) * u128::from(sock.srtt_us) / 1_000_000;
        let pkts = bytes.div_ceil(u128::from(sock.mss_bytes));
        Some(u32::try_from(pkts).unwrap_or(u32::MAX).max(floor_pkts))
    }

    /// Bytes of a packet, as a mean.
    fn seg_bytes(&mut self, sock: &Sock) -> u64 {
        let segs = sock.data_segs_out - self.sent_segs;
        if segs >= SEGS_OF_A_MEAN || self.seg_bytes == 0 {
            let mss_bytes = u64::from(sock.mss_bytes);
            let mean = (sock.bytes_sent - self.sent_bytes).checked_div(segs).unwrap_or(mss_bytes);
            self.seg_bytes = mean.min(mss_bytes);
            self.sent_bytes = sock.bytes_sent;
            self.sent_segs = sock.data_segs_out;
        }
        self.seg_bytes
    }
}

struct Client {
    number: u64,
    /// It is forgotten then, if nobody comes back.
    over_us: u64,
    last_us: u64,
    /// The detector is told of full segments.
    delivered_bytes: u64,
    lost_bytes: u64,
    in_flight_bytes: u64,
    open_flows: u32,
    active_flows: u32,
    /// Of these, those that would use up an equal share of the rate.
    sharing_flows: u64,
    /// The verdict of the latest row that went out, where that is of the client.
    told: u32,
    limiter: Limiter,
    /// Its connections cannot share a bucket, and are clients of their own.
    is_apart: bool,
}

/// All clients of a world.
#[derive(Default)]
pub(crate) struct Clients {
    by_key: BTreeMap<Key, Client>,
    /// Numbers that were given.
    numbers: u64,
}

impl Client {
    fn is_limited(&self) -> bool {
        self.limiter.detector().state().limited != 0
    }

    fn verdict(&self) -> u32 {
        if self.is_apart {
            return RTCP_APART;
        }
        if !self.is_limited() {
            let was_found = self.limiter.detector().state().detected != 0;
            return if was_found { RTCP_GONE } else { RTCP_OPEN };
        }
        match self.limiter.stage() {
            RTCP_STAGE_CAPPED => RTCP_CAPPED,
            RTCP_STAGE_PROBING => RTCP_PROBING,
            RTCP_STAGE_RAISED | RTCP_STAGE_LIFTED => RTCP_RAISED,
            _ => RTCP_LIMITED,
        }
    }

    fn row(&self, key: &Key, now_us: u64) -> Row {
        let detector = self.limiter.detector().state();
        Row {
            t_us: now_us,
            bucket_bytes: detector.bucket_bytes.into(),
            rate_bytes_per_s: detector.rate_bytes_per_s.into(),
            tokens_bytes: detector.tokens_bytes(now_us).into(),
            netns: key.netns,
            verdict: self.verdict(),
            active_flows: self.active_flows,
            remote: key.remote,
            pad: 0,
        }
    }

    /// Adds what the connection has delivered and lost. Returns the sums.
    fn add(&mut self, member: &mut Member, sock: &Sock) -> Progress {
        let in_flight_bytes = u64::from(sock.packets_in_flight()) * u64::from(sock.mss_bytes);
        let seg_bytes = member.seg_bytes(sock);
        let mss_bytes = u64::from(self.limiter.detector().state().mss_bytes);
        let delivered_bytes = u64::from(sock.delivered.wrapping_sub(member.delivered_pkts)) * seg_bytes;
        let lost_bytes = u64::from(sock.lost.wrapping_sub(member.lost_pkts)) * seg_bytes;
        self.delivered_bytes += delivered_bytes;
        self.lost_bytes += lost_bytes;
        member.sharing.add(sock.mstamp_us, delivered_bytes, lost_bytes);
        self.in_flight_bytes = self.in_flight_bytes + in_flight_bytes - member.in_flight_bytes;
        self.last_us = self.last_us.max(sock.mstamp_us);
        member.delivered_pkts = sock.delivered;
        member.lost_pkts = sock.lost;
        member.in_flight_bytes = in_flight_bytes;
        Progress {
            time_us: self.last_us,
            delivered_pkts: self.delivered_bytes.checked_div(mss_bytes).unwrap_or(0),
            lost_pkts: self.lost_bytes.checked_div(mss_bytes).unwrap_or(0),
            in_flight_bytes: self.in_flight_bytes,
            min_rtt_us: if sock.min_rtt_us == u32::MAX { 0 } else { sock.min_rtt_us },
            srtt_us: sock.srtt_us,
        }
    }

    /// Among how many the rate is shared: equation 22 of the paper, with the number that it gave at the ACK before.
    fn share(&mut self, member: &mut Member, sock: &Sock) -> u64 {
        let rate_bytes_per_s = u64::from(self.limiter.detector().state().rate_bytes_per_s);
        let share_bytes_per_s = rate_bytes_per_s / self.sharing_flows.max(1);
        let pending_bytes = sock.write_seq - sock.snd_una;
        let would_send = u128::from(share_bytes_per_s) * u128::from(sock.srtt_us);
        let shares = pending_bytes > 0 && u128::from(pending_bytes) * 1_000_000 >= would_send;
        self.sharing_flows += u64::from(shares && !member.is_sharing);
        self.sharing_flows -= u64::from(!shares && member.is_sharing);
        member.is_sharing = shares;
        self.sharing_flows.max(1)
    }

    /// The connection learns what it may send now. Returns what is known of the client.
    fn teach(&mut self, member: &mut Member, sock: &Sock, options: &Options, sums: &Progress) -> Row {
        let mut rate = self.limiter.rate_bytes_per_s(sums).unwrap_or(0);
        if self.is_limited() {
            rate /= self.share(member, sock);
        }
        if options.observe == 0 {
            member.rate_bytes_per_s = rate;
            member.is_limited = self.is_limited();
            member.is_suspected = self.limiter.seems_limited();
            member.seeks = if member.is_limited { self.limiter.seeks() } else { RTCP_SEEKS_NOTHING };
        }
        self.row(&member.key, sums.time_us)
    }

    fn rest(&mut self, member: &mut Member) {
        self.active_flows -= u32::from(member.is_active);
        self.sharing_flows -= u64::from(member.is_sharing);
        member.is_active = false;
        member.is_sharing = false;
    }

    /// It was limited, and nobody has come back for long.
    fn is_over(&self, now_us: u64) -> bool {
        self.open_flows == 0 && now_us > self.over_us
    }

    /// An estimation has begun, and has found nothing yet.
    fn is_undecided(&self) -> bool {
        let detector = self.limiter.detector().state();
        detector.transfer.triggered != 0 && detector.detected == 0
    }
}

impl Clients {
    fn of(&mut self, member: &Member) -> Option<&mut Client> {
        self.by_key.get_mut(&member.key).filter(|client| Some(client.number) == member.client)
    }

    /// The connection counts as one of its client's from now on.
    pub fn join(
        &mut self,
        netns: u32,
        address: [u8; 16],
        port: u16,
        sock: &Sock,
        options: &Options,
    ) -> Member {
        let mut key = Key { netns, remote: Remote::of(address, port, options) };
        if let Some(client) = self.by_key.get_mut(&key).filter(|c| c.is_apart && !c.is_over(sock.mstamp_us)) {
            client.over_us = sock.mstamp_us + options.kept_us;
            key.remote = Remote::single(address, port);
        }
        if self.by_key.get(&key).is_some_and(|c| c.is_over(sock.mstamp_us)) {
            self.by_key.remove(&key);
        }
        let numbers = &mut self.numbers;
        let client = self.by_key.entry(key).or_insert_with(|| {
            *numbers += 1;
            Client {
                number: *numbers,
                over_us: 0,
                last_us: 0,
                delivered_bytes: 0,
                lost_bytes: 0,
                in_flight_bytes: 0,
                open_flows: 0,
                active_flows: 0,
                sharing_flows: 0,
                told: RTCP_OPEN,
                limiter: Limiter::new(Detector::new(*options, sock.mss_bytes as u16)),
                is_apart: false,
            }
        });
        if client.limiter.detector().state().undetected != 0 {
            // The limit is gone for those that were there; who comes looks anew.
            client.limiter = Limiter::new(Detector::new(*options, sock.mss_bytes as u16));
        }
        client.open_flows += 1;
        Member {
            key,
            address,
            port,
            client: Some(client.number),
            delivered_pkts: sock.delivered,
            lost_pkts: sock.lost,
            ..Member::default()
        }
    }

    /// A connection that was one of another client's joins anew.
    fn join_anew(&mut self, member: &Member, sock: &Sock, options: &Options) -> Member {
        let joined = self.join(member.key.netns, member.address, member.port, sock, options);
        let (sent_bytes, sent_segs, seg_bytes) = (member.sent_bytes, member.sent_segs, member.seg_bytes);
        Member { sent_bytes, sent_segs, seg_bytes, ..joined }
    }

    /// The connection's client has fallen apart: it goes on with one of its own.
    fn part(&mut self, member: &mut Member, sock: &Sock, options: &Options) {
        let is_active = member.is_active;
        let mut own = self.join_anew(member, sock, options);
        own.sharing = member.sharing.clone();
        (own.delivered_pkts, own.lost_pkts) = (member.delivered_pkts, member.lost_pkts);
        self.leave(std::mem::replace(member, own), options.kept_us, sock.mstamp_us);
        let seen = *member.sharing.state();
        let Some(client) = self.of(member).filter(|_| is_active) else { return };
        member.is_active = true;
        client.active_flows += 1;
        let is_known = client.active_flows > 1 || client.limiter.detector().state().started != 0;
        if is_known || !member.sharing.is_short(sock.mstamp_us) {
            return;
        }
        // What it has been through since its transfer began.
        client.delivered_bytes = seen.delivered_bytes;
        client.lost_bytes = seen.lost_bytes;
        client.limiter.set_options(options);
        client.limiter.start(&Progress { time_us: seen.start_us, ..Progress::default() });
        let delivered_pkts = seen.calm_bytes / u64::from(sock.mss_bytes);
        client.limiter.ack(&Progress { time_us: seen.calm_us, delivered_pkts, ..Progress::default() });
    }

    /// Has the connection leave a client that has fallen apart.
    fn make_whole(&mut self, member: &mut Member, sock: &Sock, options: &Options) {
        if self.of(member).is_some_and(|client| client.is_apart) {
            self.part(member, sock, options);
        }
    }

    /// Whether this is another verdict on the client than the last one that was asked about.
    pub fn is_news(&mut self, member: &Member, row: &Row) -> bool {
        let Some(client) = self.of(member) else { return false };
        std::mem::replace(&mut client.told, row.verdict) != row.verdict
    }

    /// The connection ends, or is no longer looked at.
    pub fn leave(&mut self, mut member: Member, kept_us: u64, now_us: u64) {
        let Some(client) = self.of(&member) else { return };
        client.rest(&mut member);
        client.in_flight_bytes -= member.in_flight_bytes;
        let is_kept = client.is_limited() || client.is_apart;
        client.over_us = now_us + if is_kept { kept_us } else { u64::from(RTCP_UNDECIDED_US) };
        client.open_flows -= 1;
        if client.open_flows == 0 && !is_kept && !client.is_undecided() {
            self.by_key.remove(&member.key);
        }
    }

    /// The connection has something to send again, after it had nothing.
    pub fn start(&mut self, member: &mut Member, sock: &Sock, options: &Options) -> Option<Row> {
        self.make_whole(member, sock, options);
        if self.of(member).is_none() {
            *member = self.join_anew(member, sock, options);
        }
        let client = self.of(member).filter(|_| !member.is_active)?;
        let sums = client.add(member, sock);
        member.sharing.start(sums.time_us);
        client.limiter.set_options(options);
        member.is_active = true;
        client.active_flows += 1;
        if client.active_flows == 1 {
            client.limiter.start(&sums);
        }
        Some(client.teach(member, sock, options, &sums))
    }

    /// An ACK has come in.
    pub fn ack(&mut self, member: &mut Member, sock: &Sock, options: &Options) -> Option<Row> {
        self.make_whole(member, sock, options);
        let client = self.of(member)?;
        let sums = client.add(member, sock);
        client.limiter.set_options(options);
        client.limiter.ack(&sums);
        let judged = options.falls_apart != 0 && !member.key.remote.is_single();
        if judged && member.sharing.ack(sock.mss_bytes, &sums) {
            client.is_apart = true;
        }
        let row = client.teach(member, sock, options, &sums);
        if sock.write_seq == sock.snd_una {
            client.rest(member);
        }
        Some(row)
    }
}
