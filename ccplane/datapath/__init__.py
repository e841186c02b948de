"""Datapaths: where packets are, and what carries decisions of algorithms to them.

Purpose: one protocol (`ccplane.datapath.protocol.Datapath`) for create and close events, reports, updates and
fold programs, and its implementations: `ccplane.datapath.ebpf` is the kernel of this machine.

May import: `ccplane.base._native` (the compiled part), numpy, the standard library. Never `ccp_algs`,
`ccplane.agent`, `telemetry`, `broker` or `experiments`: a datapath knows nothing of algorithms.

Entry points: `ccplane.datapath.ebpf.load()` opens or adopts the kernel datapath,
`ccplane.datapath.ebpf.observe()` looks at one that somebody else owns,
`ccplane.datapath.ebpf.compile_program()` compiles CCP source.

Importing this package needs neither the compiled part nor root; the functions in `ccplane.datapath.ebpf` say
so when they do.
"""
