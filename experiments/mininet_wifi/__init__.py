"""In-band telemetry over Wi-Fi: two stations, two access points, and a shaped wire between them.

`python -m experiments.mininet_wifi.int_demo` builds that with Mininet-WiFi, `python -m
experiments.mininet_wifi.hwsim_demo` with the kernel's simulated radios, hostapd and namespaces alone. What
then happens on it is the same.
"""
