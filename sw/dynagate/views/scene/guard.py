"""Tell a view's own page from other pages and machines.

Any page in the user's browser can send requests to 127.0.0.1, and a name that resolves to 127.0.0.1 lets a foreign page
read the answers. So a request is accepted only if it names this machine and comes from the view's own page.
"""

from __future__ import annotations

from typing import Any

HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""Names of this machine that a browser's address may have. The port may differ: ssh forwards another one."""


def is_foreign(headers: Any) -> bool:
    """Return whether a request comes from anything but the server's own page on this machine.

    Args:
        headers: The headers of an HTTP request, with `get_all`.
    """
    hosts, origins = headers.get_all("Host") or [], headers.get_all("Origin") or []
    if len(hosts) != 1 or len(origins) > 1:
        return True
    name, _, port = hosts[0].rpartition(":") if not hosts[0].endswith("]") else (hosts[0], "", "")
    if (name or port) not in HOSTS:
        return True
    if any(site not in ("none", "same-origin") for site in headers.get_all("Sec-Fetch-Site") or []):
        return True
    return bool(origins and origins[0] != f"http://{hosts[0]}")
