//! Loads a compiled fold as a kernel program: the code of `ccp-lang` in the frame of `bpf/fold.bpf.c`.

use std::ffi::CString;
use std::io::Write;
use std::mem::offset_of;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

use ccp_lang::{Layout, Program};

use crate::frame::{Frame, Frames};
use crate::intf::{CCP_ACK_NOW as ACK_NOW, ccp_flow, ccp_fold};
use crate::kernel::Kernel;
use crate::{Error, Result};

/// Offset in a structure; it fits an instruction's 16 bits by construction (checked at compile time).
const fn field(offset: usize) -> i16 {
    assert!(offset <= i16::MAX as usize);
    offset as i16
}

/// Locations of a fold's registers.
pub(crate) const LAYOUT: Layout = Layout {
    control: field(offset_of!(ccp_flow, control)),
    local: field(offset_of!(ccp_flow, local)),
    report: field(offset_of!(ccp_flow, report)),
    time_zero_us: field(offset_of!(ccp_flow, time_zero_us)),
    fold_error: field(offset_of!(ccp_flow, fold_error)),
    inband: field(offset_of!(ccp_flow, inband)),
    prim: field(offset_of!(ccp_fold, prim)),
    imp: field(offset_of!(ccp_fold, impl_)),
};

fn kernel_name(program: &Program) -> CString {
    let name: String = format!("fold_{}", program.uid).chars().take(15).collect();
    CString::new(name).unwrap_or_default()
}

/// The verifier's last message, and the index of the instruction that it checked.
fn complaint(log: &str) -> (&str, Option<usize>) {
    let lines = || log.lines().rev().map(str::trim_end);
    let noise = ["processed ", "verification time", "stack depth", "insns processed"];
    let reason = lines().find(|l| !l.is_empty() && !noise.iter().any(|n| l.starts_with(n))).unwrap_or("");
    let at = lines().find_map(|l| l.split_once(": (").and_then(|(index, _)| index.parse().ok()));
    (reason, at)
}

fn refused(program: &Program, errno: i32, log: &str, body_at: usize, lines: &[u32]) -> Error {
    let os = std::io::Error::from_raw_os_error(errno);
    let (reason, at) = complaint(log);
    let line = at.and_then(|insn| lines.get(insn.checked_sub(body_at)?));
    let place = line.map_or_else(
        || format!("{}, program \"{}\"", program.origin, program.name),
        |line| format!("{}:{line}, program \"{}\"", program.origin, program.name),
    );
    let error = Error::new("verifier.refused", "the kernel's verifier rejected the fold program").at(place);
    if errno == libc::EPERM || errno == libc::EACCES && log.is_empty() {
        return error.why(os).fix("run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON");
    }
    let saved = save_log(&std::env::temp_dir(), log);
    error
        .why(format!("{os}: {reason}"))
        .fix(format!("make the program smaller or simpler; the complete log is in {saved}"))
}

/// Writes the log to a new file, whose name no other user can guess: root writes, and any user may link.
fn save_log(directory: &Path, log: &str) -> String {
    let saved = tempfile::Builder::new()
        .prefix("ccp-verifier-")
        .suffix(".log")
        .tempfile_in(directory)
        .and_then(|mut file| file.write_all(log.as_bytes()).and_then(|()| Ok(file.keep()?.1)));
    saved.map_or_else(|e| format!("nowhere ({e})"), |path| path.display().to_string())
}

/// Compiles a fold and loads it in a frame.
pub(crate) fn load(program: &Program, kernel: &Kernel, frame: &Frame) -> Result<OwnedFd> {
    let (body, lines) = ccp_lang::codegen_with_lines(program, &LAYOUT).map_err(|e| {
        let place = format!("{}:{}, program \"{}\"", program.origin, e.line, program.name);
        Error::new(e.slug, e.message.clone()).at(place).why(&e.why).fix(e.fix.clone())
    })?;
    let body: Vec<u64> = body.iter().map(|insn| insn.to_u64()).collect();
    // Setting Micros reads the time of the ACK.
    let (code, body_at) = frame.around(&body, program.prims_used | 1 << ACK_NOW);
    let name = kernel_name(program);
    let try_load = |log: &mut [u8]| {
        let mut opts = libbpf_sys::bpf_prog_load_opts {
            sz: std::mem::size_of::<libbpf_sys::bpf_prog_load_opts>() as u64,
            expected_attach_type: kernel.member(frame.member)?,
            attach_btf_id: kernel.ops_type_id,
            ..Default::default()
        };
        if !log.is_empty() {
            opts.log_level = 1;
            opts.log_size = log.len() as u32;
            opts.log_buf = log.as_mut_ptr().cast();
        }
        // SAFETY: name, code and log outlive the call; their lengths are given.
        Ok(unsafe {
            libbpf_sys::bpf_prog_load(
                libbpf_sys::BPF_PROG_TYPE_STRUCT_OPS,
                name.as_ptr(),
                c"GPL".as_ptr(),
                code.as_ptr().cast(),
                code.len() as u64,
                &raw mut opts,
            )
        })
    };
    let mut fd = try_load(&mut [])?;
    if fd < 0 {
        let mut log = vec![0u8; 4 << 20];
        fd = try_load(&mut log)?;
        if fd < 0 {
            let end = log.iter().position(|b| *b == 0).unwrap_or(0);
            return Err(refused(program, -fd, &String::from_utf8_lossy(&log[..end]), body_at, &lines));
        }
    }
    // SAFETY: a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Checks a program with the kernel's verifier, without a loaded datapath; nothing stays loaded.
pub fn verify(program: &Program) -> Result<()> {
    let kernel = Kernel::read()?;
    for frame in Frames::new(&kernel, None)?.all() {
        load(program, &kernel, frame)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::{complaint, save_log};

    #[test]
    fn each_log_gets_a_new_file_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let place = |log| std::path::PathBuf::from(save_log(directory.path(), log));
        let (first, second) = (place("first"), place("second"));
        assert_ne!(first, second);
        for (path, log) in [(first, "first"), (second, "second")] {
            assert_eq!(std::fs::read_to_string(&path).unwrap(), log);
            assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        }
        assert!(save_log(&directory.path().join("missing"), "").starts_with("nowhere"));
    }

    #[test]
    fn the_verifiers_last_words_and_place_are_found() {
        let log = "0: R1=ctx() R10=fp0\n0: (bf) r7 = r1\n12: (79) r1 = *(u64 *)(r0 +0)\nR0 invalid mem access 'scalar'\n\
                   processed 12 insns (limit 1000000) max_states_per_insn 0\n";
        assert_eq!(complaint(log), ("R0 invalid mem access 'scalar'", Some(12)));
        assert_eq!(complaint(""), ("", None));
    }
}
