"""In-band telemetry over Wi-Fi: two stations, two access points, and a shaped wire between them.

`ccp demo wifi` builds this network with only the kernel's simulated radios, hostapd and namespaces, `ccp demo
wifi --mininet-wifi` with Mininet-WiFi.
"""
