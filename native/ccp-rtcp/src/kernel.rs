//! Which of the programs the running kernel accepts.

use libbpf_rs::ReferencesType;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Enum, Func, FuncProto, Ptr, Struct};

use crate::{Error, Result};

/// Congestion controls of the kernel; those of modules appear once they are loaded.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Differences between kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// `cwnd_event_tx_start` is a separate hook, since 7.1.
    pub has_tx_start: bool,
    /// `cong_control` has the parameters `(sk, ack, flag, rs)`, since 6.10, instead of `(sk, rs)`.
    pub cong_control_has_flag: bool,
    /// `struct_ops` are registered through links, since 6.4.
    pub has_links: bool,
    /// Programs can call BBR's functions: they are built in, or this process may read modules (CAP_SYS_ADMIN).
    pub calls_bbr: bool,
}

fn need<T>(found: Option<T>, what: &str) -> Result<T> {
    found.ok_or_else(|| {
        Error::new("rtcp.no_struct_ops", "this kernel cannot run eBPF congestion control")
            .why(format!("the kernel's BTF has no {what}"))
            .fix("use Linux 6.1 or newer with CONFIG_BPF_JIT, CONFIG_BPF_SYSCALL and CONFIG_DEBUG_INFO_BTF")
    })
}

impl Kernel {
    pub fn of(btf: &Btf<'_>) -> Result<Self> {
        let registered = "bpf_struct_ops_tcp_congestion_ops";
        need(btf.type_by_name::<Struct<'_>>(registered), registered)?;
        let ops = need(btf.type_by_name::<Struct<'_>>("tcp_congestion_ops"), "struct tcp_congestion_ops")?;
        let member = |name: &str| ops.iter().find(|m| m.name.is_some_and(|n| n == name));
        let control = need(member("cong_control"), "cong_control")?;
        let pointer = need(btf.type_by_id::<Ptr<'_>>(control.ty), "cong_control as a pointer")?;
        let proto = need(FuncProto::try_from(pointer.referenced_type()).ok(), "cong_control's prototype")?;
        let kinds = btf.type_by_name::<Enum<'_>>("bpf_attach_type");
        Ok(Kernel {
            has_tx_start: member("cwnd_event_tx_start").is_some(),
            cong_control_has_flag: proto.iter().count() == 4,
            has_links: kinds
                .is_some_and(|kinds| kinds.iter().any(|k| k.name.is_some_and(|n| n == "BPF_STRUCT_OPS"))),
            calls_bbr: btf.type_by_name::<Func<'_>>("bbr_init").is_some() || sees_modules(),
        })
    }

    /// The congestion controls of the object that fit, one of each.
    pub fn fitting(&self) -> [&'static str; 2] {
        match (self.has_tx_start, self.cong_control_has_flag) {
            (true, _) => ["cubic_7_1", "bbr_7_1"],
            (false, true) => ["cubic_7_0", "bbr_7_0"],
            (false, false) => ["cubic_7_0", "bbr_6_9"],
        }
    }
}

fn sees_modules() -> bool {
    let mut first = 0;
    // SAFETY: the pointer is valid for the call.
    unsafe { libbpf_sys::bpf_btf_get_next_id(0, &raw mut first) == 0 }
}

/// Whether sockets can now choose this congestion control.
pub(crate) fn offers(name: &str) -> bool {
    std::fs::read_to_string(AVAILABLE).is_ok_and(|all| all.split_whitespace().any(|one| one == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_gets_the_programs_that_it_takes() {
        let fitting = |has_tx_start, cong_control_has_flag| {
            Kernel { has_tx_start, cong_control_has_flag, has_links: true, calls_bbr: true }.fitting()
        };
        assert_eq!(fitting(false, false), ["cubic_7_0", "bbr_6_9"]);
        assert_eq!(fitting(false, true), ["cubic_7_0", "bbr_7_0"]);
        assert_eq!(fitting(true, true), ["cubic_7_1", "bbr_7_1"]);
    }

    #[test]
    fn a_kernel_without_struct_ops_is_reported_apart() {
        let btf =
            Btf::from_path(env!("CCP_RTCP_OBJECT")).expect("the programs have BTF, but not the kernel's");
        assert_eq!(Kernel::of(&btf).expect_err("it has no such type").slug, "rtcp.no_struct_ops");
    }
}
