//! Congestion controls offered by features.

use ccp_int::FlowKey;

use super::World;
use super::hosts::Hosts;
use crate::control::Control;
use crate::features::{Ends, Offer};

impl World {
    /// Offers a feature's congestion controls to flows.
    pub fn offer(&mut self, offer: Box<dyn Offer>) {
        self.offers.push(offer);
    }

    pub fn offers(&self, congestion: &str) -> bool {
        self.offers.iter().any(|offer| offer.control(congestion, Ends::default()).is_some())
    }

    /// The congestion control for a connection from this host; none for other names.
    pub(super) fn offered(&self, congestion: &str, key: &FlowKey, sender: usize) -> Option<Control> {
        let ends = Ends {
            netns: Hosts::netns(sender),
            saddr: key.src.octets(),
            daddr: key.dst.octets(),
            sport: key.src_port,
            dport: key.dst_port,
        };
        self.offers.iter().find_map(|offer| offer.control(congestion, ends)).map(Control::Offered)
    }
}
