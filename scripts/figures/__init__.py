"""Figures and numbers of the result pages, drawn from docs/results (`make docs-tables`).

Each module has the figures of one page. `pages` writes pages and SVG files; a test finds what is out of date.
"""
