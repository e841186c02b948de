//! Runs the compiled code in the kernel, as a program for BPF_PROG_TEST_RUN on one `struct ccp_flow`.

use std::ffi::{CStr, c_char, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use ccp_lang::prims::{ACK_NOW, INT_AGE_US, PRIMITIVES, Prims};
use ccp_lang::{FoldError, Folded, Implicit, Layout, Machine, Outcome, Program, codegen};

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct FlowLayout {
    flow_bytes: u64,
    fold_bytes: u64,
    control: u64,
    local: u64,
    report: u64,
    time_zero_us: u64,
    fold_error: u64,
    inband: u64,
    prim: u64,
    imp: u64,
}

unsafe extern "C" {
    fn difftest_flow_layout() -> FlowLayout;
}

/// Offsets of the members of `struct ccp_flow` and `struct ccp_fold`, and the sizes of both [bytes].
pub fn flow_layout() -> (Layout, usize, usize) {
    // SAFETY: returns constants.
    let l = unsafe { difftest_flow_layout() };
    let offset = |n: u64| i16::try_from(n).expect("struct ccp_flow is smaller than 32 KiB");
    let layout = Layout {
        prim: offset(l.prim),
        control: offset(l.control),
        local: offset(l.local),
        report: offset(l.report),
        imp: offset(l.imp),
        time_zero_us: offset(l.time_zero_us),
        fold_error: offset(l.fold_error),
        inband: offset(l.inband),
    };
    (layout, l.flow_bytes as usize, l.fold_bytes as usize)
}

/// A map with one flow, followed by the rest of a fold's state.
pub struct Kernel {
    map: OwnedFd,
    flow: *mut u8,
    map_bytes: usize,
    /// Offset of `struct ccp_fold`.
    fold_at: i16,
    layout: Layout,
}

pub struct Loaded {
    fd: OwnedFd,
    /// Instructions of the fold itself.
    pub n_insns: usize,
}

impl Loaded {
    /// Number of instructions that the verifier processed, including repetitions.
    pub fn verified_insns(&self) -> u32 {
        let mut info = libbpf_sys::bpf_prog_info::default();
        let mut bytes = size_of::<libbpf_sys::bpf_prog_info>() as u32;
        // SAFETY: the structure is as long as said.
        let err = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(self.fd.as_raw_fd(), &mut info, &mut bytes) };
        assert_eq!(err, 0, "BPF_OBJ_GET_INFO_BY_FD: {}", std::io::Error::from_raw_os_error(-err));
        info.verified_insns
    }
}

impl Kernel {
    pub fn new() -> Result<Self, String> {
        let (layout, flow_bytes, fold_bytes) = flow_layout();
        let bytes = flow_bytes + fold_bytes;
        let opts = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
            map_flags: libbpf_sys::BPF_F_MMAPABLE,
            ..Default::default()
        };
        let (kind, name) = (libbpf_sys::BPF_MAP_TYPE_ARRAY, c"ccp_difftest".as_ptr());
        // SAFETY: name and options outlive the call.
        let fd = unsafe { libbpf_sys::bpf_map_create(kind, name, 4, bytes as u32, 1, &opts) };
        if fd < 0 {
            return Err(format!("cannot create a map: {}", std::io::Error::from_raw_os_error(-fd)));
        }
        // SAFETY: a new descriptor that nothing else owns.
        let map = unsafe { OwnedFd::from_raw_fd(fd) };
        let map_bytes = bytes.next_multiple_of(4096);
        // SAFETY: asks for a new mapping.
        let flow = unsafe {
            libc::mmap(
                ptr::null_mut(),
                map_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd,
                0,
            )
        };
        if flow == libc::MAP_FAILED {
            return Err(format!("cannot map the map: {}", std::io::Error::last_os_error()));
        }
        Ok(Kernel { map, flow: flow.cast(), map_bytes, fold_at: flow_bytes as i16, layout })
    }

    /// Compiles and loads a program, or returns the end of the verifier's log.
    pub fn load(&self, program: &Program) -> Result<Loaded, String> {
        let body = codegen(program, &self.layout).map_err(|e| e.to_string())?;
        let mut insns = vec![
            // R6 = the flow: BPF_LD_IMM64 with BPF_PSEUDO_MAP_VALUE; R7 = R6 + fold_at
            0x18 | 6 << 8 | 2 << 12 | (self.map.as_raw_fd() as u64) << 32,
            0,
            0xbf | 7 << 8 | 6 << 12,
            0x07 | 7 << 8 | (self.fold_at as u64) << 32,
        ];
        insns.extend(body.iter().map(|i| i.to_u64()));
        // R7 -= R6; *(u64 *)(R6 + 0) = R7; exit
        insns.extend([0x1f | 7 << 8 | 6 << 12, 0x7b | 6 << 8 | 7 << 12, 0x95]);
        let fd = self.prog_load(&insns, None).or_else(|_| {
            let mut log = vec![0; 1 << 24];
            let result = self.prog_load(&insns, Some(&mut log));
            let text = CStr::from_bytes_until_nul(&log)
                .map(|t| t.to_string_lossy().into_owned())
                .unwrap_or_default();
            let tail = text.lines().rev().take(40).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>();
            result.map_err(|e| {
                format!("the verifier rejected {} instructions: {e}\n{}", insns.len(), tail.join("\n"))
            })
        })?;
        Ok(Loaded { fd, n_insns: body.len() })
    }

    fn prog_load(&self, insns: &[u64], log: Option<&mut Vec<u8>>) -> Result<OwnedFd, std::io::Error> {
        let mut opts = libbpf_sys::bpf_prog_load_opts {
            sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as _,
            prog_flags: libbpf_sys::BPF_F_SLEEPABLE,
            attempts: 5,
            ..Default::default()
        };
        if let Some(log) = log {
            opts.log_level = 1;
            opts.log_size = log.len() as u32;
            opts.log_buf = log.as_mut_ptr().cast::<c_char>();
        }
        // SAFETY: instructions, options and log outlive the call; an instruction is eight bytes.
        let fd = unsafe {
            libbpf_sys::bpf_prog_load(
                libbpf_sys::BPF_PROG_TYPE_SYSCALL,
                c"ccp_difftest".as_ptr(),
                c"GPL".as_ptr(),
                insns.as_ptr().cast(),
                insns.len() as _,
                &mut opts,
            )
        };
        if fd < 0 {
            return Err(std::io::Error::from_raw_os_error(-fd));
        }
        // SAFETY: a new descriptor that nothing else owns.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Runs the program in the kernel as [`Machine::invoke`] does here.
    pub fn invoke(&self, loaded: &Loaded, registers: &mut Machine, prims: &Prims, now_us: u64) -> Outcome {
        let mut prims = *prims;
        prims[ACK_NOW as usize] = now_us;
        registers.imp[Implicit::EventFlag as usize] = 0;
        registers.imp[Implicit::ShouldContinue as usize] = 0;
        registers.imp[Implicit::ShouldReport as usize] = 0;
        registers.imp[Implicit::Micros as usize] = now_us.wrapping_sub(registers.time_zero_us);
        let (of_the_ack, inband) = prims[..PRIMITIVES.len()].split_at(INT_AGE_US as usize);
        self.write(self.fold_at + self.layout.prim, of_the_ack);
        self.write(self.layout.inband, inband);
        self.write(self.layout.control, &registers.control);
        self.write(self.layout.local, &registers.local);
        self.write(self.layout.report, &registers.report);
        self.write(self.fold_at + self.layout.imp, &registers.imp);
        self.write(self.layout.time_zero_us, &[registers.time_zero_us]);
        self.write(self.layout.fold_error, &[0u32]);
        self.write(0, &[0u64]);
        let result = self.run(loaded);
        self.read(self.layout.control, &mut registers.control);
        self.read(self.layout.local, &mut registers.local);
        self.read(self.layout.report, &mut registers.report);
        self.read(self.fold_at + self.layout.imp, &mut registers.imp);
        let (mut time_zero_us, mut fold_error, mut kept) = ([0u64], [0u32], [0u64]);
        self.read(self.layout.time_zero_us, &mut time_zero_us);
        self.read(self.layout.fold_error, &mut fold_error);
        self.read(0, &mut kept);
        registers.time_zero_us = time_zero_us[0];
        assert_eq!(kept, [self.fold_at as u64], "the fold has changed R6 or R7");
        assert_eq!(fold_error, [result], "R0 and fold_error differ");
        match result {
            0 => Ok(Folded { report: registers.imp[Implicit::ShouldReport as usize] != 0 }),
            1 => Err(FoldError::AddOverflow),
            2 => Err(FoldError::DivByZero),
            3 => Err(FoldError::MulOverflow),
            4 => Err(FoldError::SubUnderflow),
            other => panic!("the fold returned {other}"),
        }
    }

    fn run(&self, loaded: &Loaded) -> u32 {
        let mut opts = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
            ..Default::default()
        };
        // SAFETY: the options outlive the call.
        let err = unsafe { libbpf_sys::bpf_prog_test_run_opts(loaded.fd.as_raw_fd(), &mut opts) };
        assert_eq!(err, 0, "BPF_PROG_TEST_RUN: {}", std::io::Error::from_raw_os_error(-err));
        opts.retval
    }

    fn write<T: Copy>(&self, offset: i16, values: &[T]) {
        // SAFETY: the layout is within the mapping, which no program uses while none runs.
        unsafe {
            ptr::copy_nonoverlapping(values.as_ptr(), self.flow.add(offset as usize).cast(), values.len())
        };
    }

    fn read<T: Copy>(&self, offset: i16, values: &mut [T]) {
        // SAFETY: as in write.
        unsafe {
            ptr::copy_nonoverlapping(self.flow.add(offset as usize).cast(), values.as_mut_ptr(), values.len())
        };
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // SAFETY: it is our mapping, and this is its end.
        unsafe { libc::munmap(self.flow.cast::<c_void>(), self.map_bytes) };
    }
}
