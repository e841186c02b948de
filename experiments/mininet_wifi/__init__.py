"""In-band telemetry over Wi-Fi: two stations, two access points, and a shaped wire between them.

`python -m experiments.mininet_wifi.int_demo` builds this network with Mininet-WiFi, `python -m
experiments.mininet_wifi.hwsim_demo` with only the kernel's simulated radios, hostapd and namespaces. The same
demo then runs on the network.
"""
