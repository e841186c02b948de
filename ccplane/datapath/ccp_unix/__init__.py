"""Datapaths that others wrote: whatever speaks CCP's wire format over Unix sockets, as libccp does.

The agent has the end that portus has: it binds a datagram socket by name, datapaths bind names of their own
and write to it, and it answers to the name of whoever wrote. Any number of datapaths may join.

Entry point: `datapath.CcpUnixDatapath`.
"""
