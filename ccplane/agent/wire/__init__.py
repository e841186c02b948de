"""Agents made with portus that steer our flows, over Unix datagram sockets.

Entry point: `session.Session`, for `ccp serve-ccp`.
"""
