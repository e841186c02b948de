"""What is measured elsewhere and told to algorithms: schemas, sources, and the bus that carries them.

May import `broker`, `ccplane.base`, and nothing else of ours: whoever measures need not run the plane.

Entry points: `telemetry.schema` (all messages), `telemetry.bus.Bus` (publish and subscribe, checked),
`telemetry.join.FlowIndex` (which flows a sample belongs to), `telemetry.receiver` (the receiver agent).
"""
