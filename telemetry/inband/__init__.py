"""In-band telemetry of flows: nodes on interfaces, and summaries of sinks."""
