"""Telemetry for algorithms: message schemas, sources, and the bus that carries them.

This package may import `broker` and `ccplane.base` only, so that measuring does not require an agent.

Entry points: `telemetry.schema` (all messages), `telemetry.bus.Bus` (publish and subscribe, checked),
`telemetry.join.FlowIndex` (which flows a sample belongs to), `telemetry.receiver` (the receiver agent).
"""
