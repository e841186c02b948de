"""The message bus: topics, the MQTT client, the embedded broker and the configuration of Mosquitto.

The package transports bytes; `telemetry` gives them meaning. This package imports only `ccplane.base`.

Entry points: `broker.topics` (what is published where), `broker.options.BusOptions` (which broker, and how),
`broker.client.BusClient` (the connection), `broker.embedded` (a broker that ccplane starts), `broker.users`
(who may connect).
"""
