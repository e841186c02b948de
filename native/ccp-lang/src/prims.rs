//! The primitives a datapath offers to a fold program, and the registers that every program has.

/// One value that the datapath measures for each ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Primitive {
    /// Name in fold programs, for example `Flow.rtt_sample_us`.
    pub name: &'static str,
    /// Unit for people; empty for flags and enumerations.
    pub unit: &'static str,
    /// A flag: the datapath promises to set it to 0 or 1 and to nothing else.
    pub is_bool: bool,
    /// What it measures.
    pub doc: &'static str,
}

/// How many primitives CCP itself defines; the rest are ccplane's own and unknown to portus.
pub const N_PORTUS_PRIMS: usize = 15;

/// Index of `Ack.now`, the datapath's clock [us].
pub const ACK_NOW: u8 = 5;

/// Index of the first of `Int.*`, which are the last ones: a flow keeps them from ACK to ACK.
pub const INT_AGE_US: u8 = 29;

/// Room for the primitives of an ACK, by their index.
pub const MAX_PRIMITIVES: usize = 48;

/// The primitives of an ACK, by their index.
pub type Prims = [u64; MAX_PRIMITIVES];

/// What they are where nobody measures anything.
pub const NOTHING: Prims = {
    let mut prims = [0; MAX_PRIMITIVES];
    prims[RTT_SAMPLE_US as usize] = NO_RTT_SAMPLE as u64;
    prims[INT_AGE_US as usize] = u64::MAX;
    prims
};

/// Index of `Flow.rtt_sample_us`.
pub(crate) const RTT_SAMPLE_US: u8 = 13;

/// Index of `Flow.srtt_us`.
pub(crate) const SRTT_US: u8 = 16;

/// What `Flow.rtt_sample_us` is at an ACK that gives no sample.
pub(crate) const NO_RTT_SAMPLE: u32 = u32::MAX;

/// All primitives in the order of `enum ccp_prim` in intf.h.
#[rustfmt::skip]
pub const PRIMITIVES: [Primitive; 43] = [
    num("Ack.bytes_acked", "bytes", "acknowledged in order"),
    num("Ack.bytes_misordered", "bytes", "acknowledged out of order"),
    num("Ack.ecn_bytes", "bytes", "acknowledged with an ECN mark"),
    num("Ack.ecn_packets", "packets", "acknowledged with an ECN mark"),
    num("Ack.lost_pkts_sample", "packets", "newly marked lost"),
    num("Ack.now", "us", "the datapath's clock"),
    num("Ack.packets_acked", "packets", "acknowledged in order"),
    num("Ack.packets_misordered", "packets", "acknowledged out of order"),
    num("Flow.bytes_in_flight", "bytes", "sent and not yet acknowledged"),
    num("Flow.bytes_pending", "bytes", "waiting in the socket"),
    num("Flow.packets_in_flight", "packets", "sent and not yet acknowledged"),
    num("Flow.rate_incoming", "bytes/s", "rate at which data arrived at the receiver"),
    num("Flow.rate_outgoing", "bytes/s", "rate at which data was sent"),
    num("Flow.rtt_sample_us", "us", "round-trip time; 4294967295 when this ACK gives no sample"),
    flag("Flow.was_timeout", "a retransmission timeout fired"),
    num("Flow.min_rtt_us", "us", "the kernel's windowed minimum round-trip time"),
    num("Flow.srtt_us", "us", "the kernel's smoothed round-trip time"),
    num("Flow.mss", "bytes", "maximum segment size"),
    num("Flow.delivered", "packets", "delivered since the connection began"),
    num("Flow.lost", "packets", "marked lost since the connection began"),
    num("Flow.retrans", "packets", "retransmitted since the connection began"),
    num("Flow.ca_state", "", "0 Open, 1 Disorder, 2 CWR, 3 Recovery, 4 Loss"),
    flag("Flow.app_limited", "the rate sample was limited by the application"),
    num("Flow.snd_ssthresh", "bytes", "slow-start threshold; all ones while infinite"),
    flag("Flow.cwnd_limited", "the window, not the application, limits sending"),
    num("Flow.local_congestion", "", "times a local queue refused a packet since the last fold"),
    flag("Flow.ecn_ok", "ECN was negotiated"),
    num("Flow.delivered_bytes", "bytes", "cumulatively acknowledged since the connection began"),
    num("Flow.rate_allowed", "bytes/s", "what an extension of the datapath lets it send; 0 while none bounds it"),
    num("Int.age_us", "us", "since the packet left this host that the last echo is of; all ones while nobody echoes"),
    flag("Int.fresh", "this ACK brought a new echo"),
    num("Int.hop", "", "the hop with the longest wait, counted from the sender; all below are of it"),
    num("Int.node", "", "its id"),
    num("Int.hops", "", "hops that wrote"),
    flag("Int.all_known", "every hop of the path tells depth and room of its queue"),
    num("Int.queue_bytes", "bytes", "its queue, in full-size packets"),
    num("Int.free_bytes", "bytes", "room in its queue, in full-size packets; all ones if unlimited, 0 if it does not say"),
    num("Int.arrival_bytes_per_s", "bytes/s", "what arrives there, of all flows"),
    num("Int.link_bytes_per_s", "bytes/s", "what its queue drains at; 0 if it does not say"),
    num("Int.flow_count", "", "flows it sees; 0 if it does not say"),
    num("Int.losses_congestion", "packets", "of the flow since it began that a node's own queue dropped"),
    num("Int.losses_link", "packets", "since then, lost between two nodes that both tell"),
    num("Int.losses_unknown", "packets", "since then, lost where some node tells nothing"),
];

const fn num(name: &'static str, unit: &'static str, doc: &'static str) -> Primitive {
    Primitive { name, unit, is_bool: false, doc }
}

const fn flag(name: &'static str, doc: &'static str) -> Primitive {
    Primitive { name, unit: "", is_bool: true, doc }
}

/// Returns the index of the primitive `name`.
pub fn find(name: &str) -> Option<u8> {
    PRIMITIVES.iter().position(|p| p.name == name).map(|i| i as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portus_gives_the_first_fifteen_the_same_numbers_and_types() {
        let scope = portus::lang::Scope::new();
        for (i, prim) in PRIMITIVES[..N_PORTUS_PRIMS].iter().enumerate() {
            let kind =
                if prim.is_bool { portus::lang::Type::Bool(None) } else { portus::lang::Type::Num(None) };
            assert_eq!(
                scope.get(prim.name),
                Some(&portus::lang::Reg::Primitive(i as u8, kind)),
                "{}",
                prim.name
            );
        }
    }

    #[test]
    fn portus_does_not_know_the_others() {
        let scope = portus::lang::Scope::new();
        assert!(PRIMITIVES[N_PORTUS_PRIMS..].iter().all(|p| !scope.has(p.name)));
    }

    #[test]
    fn those_of_in_band_telemetry_are_the_last() {
        assert_eq!(find("Int.age_us"), Some(INT_AGE_US));
        for (i, prim) in (0..).zip(&PRIMITIVES) {
            assert_eq!(prim.name.starts_with("Int."), i >= INT_AGE_US, "{}", prim.name);
        }
    }

    #[test]
    fn ack_now_is_where_the_constant_says() {
        assert_eq!(find("Ack.now"), Some(ACK_NOW));
        assert_eq!(find("Flow.rtt_sample_us"), Some(RTT_SAMPLE_US));
        assert_eq!(find("Ack.nown"), None);
    }
}
