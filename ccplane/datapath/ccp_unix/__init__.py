"""Third-party datapaths that use CCP's wire format over Unix sockets, such as datapaths built on libccp.

As in portus, the agent binds a named datagram socket. Datapaths bind their own names and write to the agent's
socket; the agent answers to the sender's name. Any number of datapaths may join.

Entry point: `datapath.CcpUnixDatapath`.
"""
