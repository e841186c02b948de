"""The ground floor: what every package of ccplane needs, and nothing that knows of another package.

Purpose: one family of errors (`ccp_base.errors`), what to say of unknown names (`ccp_base.names`), and the
compiled part (`ccp_base._native`: datapaths, IOAM, probes), which is imported in a block of
`ccp_base.native.native_part`.

May import: the standard library. Never another package of ours: all others import this one.

Importing this package does not need the compiled part.
"""
