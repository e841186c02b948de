"""The ground floor: what every package of ccplane needs, and nothing that knows of another package.

Purpose: one family of errors (`ccplane.base.errors`), what to say of unknown names (`ccplane.base.names`),
and the compiled part (`ccplane.base._native`: datapaths, IOAM, probes), which `ccplane.base.native` imports
when it is first needed.

May import: the standard library. Never another package of ours: all others import this one.

Importing this package does not need the compiled part.
"""
