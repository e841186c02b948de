//! R-TCP for the connections of a world.

use ccp_int::FlowKey;
use ccp_rtcp_core::{Ack, Options, Row};

use super::World;
use super::hosts::Hosts;
use crate::Result;
use crate::control::Control;
use crate::rtcp::{Attached, Ends, NAMES};

impl World {
    /// Offers `rtcp_cubic` and `rtcp_bbr` to flows: CUBIC and BBR, bounded by R-TCP. `records`: each of their ACKs makes a
    /// row.
    ///
    /// # Errors
    ///
    /// `rtcp.bad_options`, or `rtcp.name_taken`: they are on offer already.
    pub fn attach_rtcp(&mut self, options: Options, records: bool) -> Result<()> {
        if self.rtcp.is_some() {
            return Err(ccp_emu::Error::new("rtcp.name_taken", "R-TCP is attached already")
                .why("a world has its congestion controls once")
                .fix("attach it once, with the options of all flows"));
        }
        self.rtcp = Some(Attached::new(options, records)?);
        Ok(())
    }

    /// Verdicts on clients since the last call, in order.
    pub fn take_verdicts(&mut self) -> Vec<Row> {
        self.rtcp.as_ref().map(Attached::take_rows).unwrap_or_default()
    }

    /// ACKs that R-TCP has seen since the last call, in order; none if they are not recorded.
    pub fn take_acks(&mut self) -> Vec<Ack> {
        self.rtcp.as_ref().map(Attached::take_acks).unwrap_or_default()
    }

    pub(super) fn offers_rtcp(&self, congestion: &str) -> bool {
        self.rtcp.is_some() && NAMES.contains(&congestion)
    }

    /// One of R-TCP's for a connection from this host; none if there is none of this name.
    pub(super) fn rtcp_control(&self, congestion: &str, key: &FlowKey, sender: usize) -> Option<Control> {
        let ends = Ends {
            netns: Hosts::netns(sender),
            saddr: key.src.octets(),
            daddr: key.dst.octets(),
            sport: key.src_port,
            dport: key.dst_port,
        };
        Control::rtcp(congestion, self.rtcp.as_ref()?, ends)
    }
}
