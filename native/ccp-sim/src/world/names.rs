//! Congestion controls by name: the kernel's, and those registered by an agent.

use ccp_emu::Error;
use ccp_record::intf;

use crate::Result;
use crate::control::Control;
use crate::features::NAMES;

const MAX_NAMES: usize = intf::CCP_MAX_NAMES as usize;
/// Without the final zero.
const MAX_NAME_BYTES: usize = intf::CCP_NAME_LEN as usize - 1;

#[derive(Debug)]
struct Name {
    cc_name: String,
    needs_ecn: bool,
    is_registered: bool,
}

/// Names of agents' congestion controls; `ccp` is always one.
#[derive(Debug)]
pub(super) struct Names(Vec<Name>);

/// Whether the name is reserved.
fn is_kernels(cc_name: &str) -> bool {
    Control::plain(cc_name).is_some() || NAMES.iter().any(|names| names.contains(&cc_name))
}

impl Default for Names {
    fn default() -> Self {
        Names(vec![Name { cc_name: "ccp".to_owned(), needs_ecn: false, is_registered: true }])
    }
}

impl Names {
    pub fn register(&mut self, cc_name: &str, needs_ecn: bool) -> Result<()> {
        if let Some(name) = self.0.iter_mut().find(|name| name.cc_name == cc_name) {
            (name.needs_ecn, name.is_registered) = (needs_ecn, true);
            return Ok(());
        }
        if cc_name.is_empty() || cc_name.len() > MAX_NAME_BYTES || is_kernels(cc_name) {
            return Err(Error::new("register.bad_name", format!("`{cc_name}` cannot be registered"))
                .why(format!("a name has 1 to {MAX_NAME_BYTES} bytes, and differs from the kernel's names"))
                .fix("choose another name"));
        }
        if self.0.len() == MAX_NAMES {
            return Err(Error::new("register.full", "no more congestion-control names can be registered")
                .why(format!("{MAX_NAMES} names are registered")));
        }
        self.0.push(Name { cc_name: cc_name.to_owned(), needs_ecn, is_registered: true });
        Ok(())
    }

    pub fn unregister(&mut self, cc_name: &str) -> Result<()> {
        let found = self.0.iter_mut().find(|name| name.cc_name == cc_name && name.is_registered);
        let name =
            found.ok_or_else(|| Error::new("register.unknown", format!("`{cc_name}` is not registered")))?;
        name.is_registered = false;
        Ok(())
    }

    pub fn registered(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|name| name.is_registered).map(|name| name.cc_name.as_str())
    }

    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|name| name.cc_name.as_str())
    }

    /// The index of a registered name, and whether it wants ECN.
    pub fn find(&self, cc_name: &str) -> Option<(u32, bool)> {
        let index = self.0.iter().position(|name| name.cc_name == cc_name && name.is_registered)?;
        Some((index as u32, self.0[index].needs_ecn))
    }

    pub fn check(&self, cc_name: &str) -> Result<()> {
        if self.find(cc_name).is_some() || Control::plain(cc_name).is_some() {
            return Ok(());
        }
        let names: Vec<_> = self.registered().collect();
        Err(Error::new("sim.no_congestion_control", format!("no congestion control `{cc_name}`"))
            .at("congestion")
            .why(format!("registered: {}", names.join(", ")))
            .fix("use reno, cubic or bbr, or register the name first"))
    }
}
