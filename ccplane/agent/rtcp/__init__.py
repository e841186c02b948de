"""R-TCP for ordinary sockets: `rtcp_cubic` and `rtcp_bbr`, and their verdicts on clients.

`attached` keeps them registered and tells verdicts; `acks` writes down the ACKs that the detector
saw; `settings` reads parameters. The programs are those of `native/ccp-rtcp`.
"""
