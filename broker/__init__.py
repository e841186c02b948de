"""The message bus: topics, the MQTT client, the embedded broker and the configuration of Mosquitto.

Knows how messages travel and nothing of what they say: payloads are bytes here, `telemetry` gives them
meaning. Imports `ccp_base` and nothing else of ours.

Entry points: `broker.topics` (what is published where), `broker.options.BusOptions` (which broker, and how),
`broker.client.Client` (the connection), `broker.embedded` (a broker of one's own),
`broker.users` (who may connect).
"""
