"""The receiver agent: what the receiving end of a path can see, told to the sending end.

Entry points: `telemetry.receiver.receiver.Receiver` (measures), `telemetry.receiver.probing.Responder`
(answers UDP probes); the command `ccp telemetry receive` is `telemetry.commands`.

Pure, with the clock coming in: `windows` (everything of all peers), `flows` (the same of single connections),
`series` (counters over windows), `rtt` (percentiles), `tcp` (sockets' counters), `arrivals` (segments: marks
and one-way delays), `signals` (the message), `reports` (what peers say), `echo` (probes).
With I/O: `probing`, `sockets` (inet_diag), `proc` (/proc/net), `kernel_probe` (CO-RE), `receiver` (the loop),
`output` (what is printed).
"""
