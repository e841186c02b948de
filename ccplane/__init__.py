"""A congestion control plane for Linux TCP."""
