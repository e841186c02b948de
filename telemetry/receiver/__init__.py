"""The receiver agent: measures at the receiving end of a path, and reports to the sending end.

Entry points: `telemetry.receiver.receiver.Receiver` (measures), `telemetry.receiver.probing.Responder`
(answers UDP probes); `telemetry.commands` has the command `ccp telemetry receive`.

Modules without I/O, with the clock as an argument: `windows` (per-peer data), `flows` (the same per
connection), `series` (counters over windows), `rtt` (percentiles), `tcp` (counters of sockets), `arrivals`
(segments: marks and one-way delays), `signals` (the message), `reports` (peers' reports), `echo` (probes).
With I/O: `probing`, `sockets` (inet_diag), `proc` (/proc/net), `kernel_probe` (CO-RE), `receiver` (the loop),
`output` (printing).
"""
