"""The running plane: it joins algorithms to a datapath.

Purpose: the event loop (`agent.plane.Plane`), the choice of an algorithm for a flow (`agent.rules`), the
command line `ccp` (`agent.cli`), and an API for scripts written for pyportus (`agent.pyportus`).

May import: `ccp_algs`, `datapath`, later `telemetry`. Never `experiments`; commands of other packages
reach `ccp` through the entry-point group `ccplane.commands`.

Entry points: `agent.serve.serve()` runs algorithms on the kernel datapath until it is told to stop;
`agent.plane.Plane` is the same loop on any datapath.
"""
