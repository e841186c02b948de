"""In-band telemetry over Wi-Fi: two stations, two access points, and a shaped wire between them.

`ccp demo int` builds this network with only the kernel's simulated radios, hostapd and namespaces, `ccp demo
int --mininet-wifi` with Mininet-WiFi. The same demo runs on both networks.
"""
