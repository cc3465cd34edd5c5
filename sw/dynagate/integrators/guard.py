"""Guard viser's server: only its own page, opened on this machine, may talk to it, and nobody can share it.

Any page in the user's browser can open a websocket to 127.0.0.1, and a name that resolves to 127.0.0.1 lets a foreign
page read what the server sends. So a request is accepted only if it names this machine and comes from the server's own
page.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

from dynagate.base.errors import Error

HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""Names of this machine that a browser's address may have. The port may differ: ssh forwards another one."""

_PATCHED = threading.Lock()


class GuardError(Error, RuntimeError):
    """The installed viser starts its server in a way that cannot be guarded."""


def is_foreign(headers: Any) -> bool:
    """Return whether a request comes from anything but the server's own page on this machine.

    Args:
        headers: The headers of an HTTP request, with `get_all`.
    """
    hosts, origins = headers.get_all("Host"), headers.get_all("Origin")
    if len(hosts) != 1 or len(origins) > 1:
        return True
    name, _, port = hosts[0].rpartition(":") if not hosts[0].endswith("]") else (hosts[0], "", "")
    if (name or port) not in HOSTS:
        return True
    if not origins:  # a page that is opened has none; a websocket of a browser always has
        return bool(headers.get_all("Upgrade"))
    return bool(origins[0] != f"http://{hosts[0]}")


@contextmanager
def own_pages_only() -> Iterator[None]:
    """Make a viser server that is created in this context refuse foreign requests with status 403.

    viser has no such option, so the function with which it starts its server is replaced until the server is there.
    Raises GuardError: viser did not use that function, so that the server would not be guarded.
    """
    from viser.infra import _infra
    from websockets.asyncio import server

    used: list[bool] = []

    def serve(*arguments: Any, process_request: Callable[..., Any] | None = None, **options: Any) -> Any:
        used.append(True)

        def guarded(connection: Any, request: Any) -> Any:
            if is_foreign(request.headers):
                return connection.respond(403, "this page is for its own machine\n")
            return None if process_request is None else process_request(connection, request)

        return server.serve(*arguments, process_request=guarded, **options)

    names = {name: getattr(server, name) for name in dir(server) if not name.startswith("__")}
    module: Any = _infra
    with _PATCHED:
        original = module.websockets
        module.websockets = SimpleNamespace(
            asyncio=SimpleNamespace(server=SimpleNamespace(**{**names, "serve": serve})),
            datastructures=original.datastructures,
            exceptions=original.exceptions,
        )
        try:
            yield
        finally:
            module.websockets = original
    if not used:
        raise GuardError("this version of viser cannot be closed to other pages; expected: pip install viser==1.1.1")


def without_sharing(server: Any) -> None:
    """Take away what opens a public address for a viser server: its function, the messages that call it, the button."""
    from viser import _messages

    def refused(verbose: bool = True) -> None:
        """A view is for its own machine."""

    server.request_share_url = refused
    server.gui.configure_theme(show_share_button=False)
    for name in ("ShareUrlRequest", "ShareUrlDisconnect"):
        with suppress(AttributeError, AssertionError):  # another version of viser has no such message
            server._websock_server.unregister_handler(getattr(_messages, name))
