"""In-band telemetry of flows: what nodes measure, and what sinks make of it."""
