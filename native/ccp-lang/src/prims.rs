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

/// All primitives in the order of `enum ccp_prim` in intf.h.
#[rustfmt::skip]
pub const PRIMITIVES: [Primitive; 29] = [
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
    fn ack_now_is_where_the_constant_says() {
        assert_eq!(find("Ack.now"), Some(ACK_NOW));
        assert_eq!(find("Ack.nown"), None);
    }
}
