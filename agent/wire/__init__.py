"""Agents made with portus that steer our flows, over Unix datagram sockets.

Entry points: `session.Session` and `link.Link`, for `ccp serve-ccp`.
"""
