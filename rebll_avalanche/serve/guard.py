"""Access control and limits, checked before the body of a request is read."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from fastapi import HTTPException
from fastapi.responses import JSONResponse

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
# Paths that need no token: they reveal nothing about the learner.
OPEN = frozenset({"/api/health", "/api/openapi.json"})
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass(frozen=True)
class Limits:
    """Limits of a server.

    Attributes:
        body: Bytes of a request with pictures.
        text: Bytes of a request without pictures.
        bodies: Bytes of all concurrent requests.
        pictures: Pictures of a request.
        pixels: Pixels of a picture.
        pixels_at_once: Pixels of all concurrent requests; three bytes each.
        elongation: Ratio of the longer to the shorter side of a picture.
        requests: Concurrent requests with a body.
        lessons: Waiting changes.
    """

    body: int = 256 << 20
    text: int = 8 << 20
    bodies: int = 1 << 30
    pictures: int = 1000
    pixels: int = 50_000_000
    pixels_at_once: int = 400_000_000
    elongation: int = 16
    requests: int = 32
    lessons: int = 8


class Refused(HTTPException):
    """A refused request, with an HTTP status and a message."""


class Guard:
    """ASGI middleware that refuses requests.

    Args:
        app: The ASGI application.
        limits: Limits on sizes and numbers of requests.
        token: Token that requests must send; without one, only this machine may send requests.
    """

    def __init__(self, app: Any, limits: Limits, token: str | None) -> None:
        self._app = app
        self._limits = limits
        self._token = token
        self._running = 0
        self._bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # web sockets are not supported
            await send({"type": "websocket.close"})
            return

        async def with_headers(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = message | {"headers": [*message["headers"], *added]}
            await send(message)

        try:
            headers = _headers(scope)
            self._check(scope, headers)
            if scope["method"] in ("GET", "HEAD"):
                await self._app(scope, receive, with_headers)
                return
            if self._running >= self._limits.requests:
                raise Refused(429, "too many requests at once; try again in a second")
            self._running += 1
            try:
                with self._counted(receive, self._most_bytes(headers)) as counted:
                    await self._app(scope, counted, with_headers)
            finally:
                self._running -= 1
        except Refused as refused:
            extra = {"connection": "close"}  # or the rest of the body would be read
            response = JSONResponse({"detail": refused.detail}, refused.status_code, extra)
            await response(scope, receive, with_headers)  # type: ignore[arg-type]

    def _check(self, scope: Scope, headers: dict[str, str]) -> None:
        host = headers.get("host", "")
        name = _host_name(host)
        if self._token is None and name not in LOOPBACK:
            # DNS rebinding: another site's name may resolve to this machine.
            raise Refused(403, "this server answers under the names of the loopback address only")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            raise Refused(403, "other sites may not use this server")
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and (
            scope["method"] not in ("GET", "HEAD") or scope["path"].startswith("/api/")
        ):
            raise Refused(403, "other sites may not use this server")
        needs_token = scope["path"].startswith("/api/") and scope["path"] not in OPEN
        if self._token is not None and needs_token:
            given = headers.get("authorization", "")
            if not secrets.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
                raise Refused(401, "this server needs the token that it printed when it started")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > self._most_bytes(headers):
            raise _too_large(self._most_bytes(headers))

    def _most_bytes(self, headers: dict[str, str]) -> int:
        with_pictures = headers.get("content-type", "").lower().startswith("multipart/")
        return self._limits.body if with_pictures else self._limits.text

    @contextmanager
    def _counted(self, receive: Receive, most: int) -> Iterator[Receive]:
        """Limit the bytes that are really received: the stated length may be wrong or missing."""
        seen = 0

        async def limited() -> dict[str, Any]:
            nonlocal seen
            message = await receive()
            arrived = len(message.get("body", b""))
            seen += arrived
            self._bytes += arrived
            if seen > most:
                raise _too_large(most)
            if self._bytes > self._limits.bodies:
                raise Refused(429, "too many bytes at once; try again in a second")
            return message

        try:
            yield limited
        finally:
            self._bytes -= seen


def _too_large(most: int) -> Refused:
    return Refused(413, f"a request has at most {most / (1 << 20):g} MB")


def _headers(scope: Scope) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in scope["headers"]:
        name = key.decode("latin-1").lower()
        if name in ("host", "origin", "authorization", "content-length") and name in found:
            raise Refused(400, f"two headers {name}")
        found[name] = value.decode("latin-1")
    return found


def _host_name(host: str) -> str:
    """The host without its port.

    >>> [_host_name(host) for host in ("localhost:80", "[::1]:80", "127.0.0.1", "a@localhost")]
    ['localhost', '::1', '127.0.0.1', '']
    """
    try:
        parts = urlsplit(f"//{host}")
        name = parts.hostname or ""
        return "" if parts.username is not None or parts.path else name
    except ValueError:
        return ""
