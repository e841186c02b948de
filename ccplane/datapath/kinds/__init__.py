"""Datapaths of features; see `ccplane.datapath.registry`."""
