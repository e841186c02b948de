//! The table of registered congestion-control names, by `cc_id`.

use crate::intf::{self, ccp_name};
use crate::map::{get, put};
use crate::pins::Pins;
use crate::{Error, Result, object};

/// All congestion controls of the kernel.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The argument of `setsockopt(TCP_CONGESTION)`.
    pub cc_name: String,
    /// Whether its sockets ask for ECN when they connect.
    pub needs_ecn: bool,
    /// Whether new sockets can choose it now.
    pub registered: bool,
}

/// Checks that the kernel accepts a name, and that it can be pinned.
pub(crate) fn check(cc_name: &str) -> Result<()> {
    let longest = intf::CCP_NAME_LEN as usize - 1;
    let fine =
        cc_name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'.');
    if cc_name.is_empty() || cc_name.len() > longest || !fine {
        return Err(Error::new("register.name", format!("`{cc_name}` cannot be a congestion-control name"))
            .why(format!("kernel names have at most {longest} characters; ccplane allows a-z, 0-9, _ and ."))
            .fix("choose a shorter or simpler name"));
    }
    Ok(())
}

/// Checks that a name is free, or registered here.
pub(crate) fn check_free(pins: &Pins, cc_name: &str) -> Result<()> {
    let all = std::fs::read_to_string(AVAILABLE).unwrap_or_default();
    let is_taken = all.split_whitespace().any(|one| one == cc_name) && !pins.registration(cc_name).exists();
    if is_taken { Err(object::taken(cc_name)) } else { Ok(()) }
}

pub(crate) fn unknown(cc_name: &str) -> Error {
    Error::new("register.unknown", format!("`{cc_name}` is not registered"))
        .fix("see ccp doctor for the registered names")
}

pub(crate) fn busy(pins: &Pins, cc_name: &str, e: &std::io::Error) -> Error {
    Error::new("register.busy", format!("cannot unregister `{cc_name}`"))
        .at(pins.registration(cc_name).display().to_string())
        .why(e)
        .fix("run as root")
}

pub(crate) fn full(entries: usize) -> Error {
    Error::new("register.full", "no more congestion-control names can be registered")
        .why(format!("{entries} names are registered"))
        .fix("run ccp unload, or unregister some names")
}

/// All entries, `None` for free ones.
pub(crate) fn read(pins: &Pins) -> Result<Vec<Option<Name>>> {
    let fd = pins.open_map("names")?;
    let entry = |cc_id| {
        let entry: ccp_name = get(&fd, cc_id)?;
        let bytes: Vec<u8> = entry.name.iter().map(|c| *c as u8).take_while(|b| *b != 0).collect();
        Ok((!bytes.is_empty()).then(|| Name {
            cc_name: String::from_utf8_lossy(&bytes).into_owned(),
            needs_ecn: entry.needs_ecn != 0,
            registered: entry.registered != 0,
        }))
    };
    (0..intf::CCP_MAX_NAMES).map(entry).collect()
}

pub(crate) fn write(pins: &Pins, cc_id: u32, name: &Name) -> Result<()> {
    let mut entry = ccp_name {
        registered: u32::from(name.registered),
        needs_ecn: u32::from(name.needs_ecn),
        ..Default::default()
    };
    for (to, from) in entry.name.iter_mut().zip(name.cc_name.bytes()) {
        *to = from as _;
    }
    put(&pins.open_map("names")?, cc_id, &entry)
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn names_that_the_kernel_cannot_hold_are_refused() {
        for good in ["ccp", "ccp.cubic", "ccp.flex_cubic1"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in ["", "ccp.sixteen_chars", "CCP", "ccp-cubic", "ccp/x"] {
            assert_eq!(check(bad).unwrap_err().slug, "register.name", "{bad}");
        }
    }
}
