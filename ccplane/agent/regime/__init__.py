"""Ordinary sockets and hosts follow the regimes of their paths.

Purpose: `loop` hears decisions, `telemetry.regime.follow` says what holds of them, and an `actuator` does it:
`sockets` to the kernel's TCP sockets one by one, by the `rules` of who follows whom.

May import: `ccplane.datapath`, `telemetry`, `broker`, the rest of `ccplane.agent`.
"""
