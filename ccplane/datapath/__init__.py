"""Datapaths: they send packets, run fold programs, and apply the decisions of algorithms.

Purpose: one protocol (`ccplane.datapath.protocol.Datapath`) for create and close events, reports, updates and
fold programs, and its implementations: `ccplane.datapath.ebpf` is this machine's kernel.

May import: `ccplane.base._native` (the compiled part), numpy, the standard library. Never `ccp_algs`,
`ccplane.agent`, `telemetry`, `broker` or `experiments`: datapaths do not depend on algorithms.

Entry points: `ccplane.datapath.ebpf.load()` loads or adopts the kernel datapath,
`ccplane.datapath.ebpf.observe()` opens a read-only view of another process's datapath,
`ccplane.datapath.ebpf.compile_program()` compiles CCP source.

Importing this package needs neither the compiled part nor root; functions in `ccplane.datapath.ebpf` that
need them raise an error.
"""
