"""The common base of all packages of ccplane; depends on no other package.

Purpose: one family of errors (`ccplane.base.errors`), suggestions for unknown names (`ccplane.base.names`),
and the compiled part (`ccplane.base._native`: datapaths, IOAM, probes), which `ccplane.base.native` imports
on first use. Importing this package does not need the compiled part.

May import: the standard library. All other packages import this one.
"""
