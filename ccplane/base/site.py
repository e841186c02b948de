"""The address of the documents' site: `Documentation` in `[project.urls]` of the installed package."""

from __future__ import annotations

from functools import cache
from typing import Final

KEY: Final = "Documentation"
"""Name of the address in `[project.urls]`; no other place has it."""

PLACEHOLDER: Final = ".example"
"""End of host names that RFC 2606 reserves for examples: such an address leads nowhere."""


def metadata_urls() -> list[str]:
    """Return lines `NAME, URL` of the installed package; none without metadata, as in a bare copy."""
    from importlib import metadata  # on demand: it takes longer to import than the rest of `base`

    try:
        return metadata.metadata("ccplane").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return []


@cache
def address() -> str:
    """Return the address of the site without a slash at its end; empty if none is set, or a placeholder."""
    return address_in(metadata_urls())


def address_in(urls: list[str]) -> str:
    """Return the site's address from lines `NAME, URL` of a package's metadata."""
    for line in urls:
        name, _, url = line.partition(", ")
        host = url.partition("://")[2].partition("/")[0].partition(":")[0]
        if name == KEY and host and not host.endswith(PLACEHOLDER):
            return url.rstrip("/")
    return ""


def page_of(slug: str) -> str:
    """Return the address of the row about an error on the site; empty without a site."""
    return f"{address()}/errors/#{slug}" if address() else ""
