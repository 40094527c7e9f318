"""The browser's files, as `sdlg.browser` has them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from starlette.responses import Response

from .failures import Failure

_TYPES = {
    "html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "png": "image/png",
}  # fmt: skip


@cache
def _files() -> Mapping[str, bytes]:
    from ..browser import static_files

    return static_files()


def page_file(name: str) -> Response:
    """One of them; nothing else can be had, whatever the name says."""
    files = _files()
    if name not in files:
        raise Failure(404, f"no such file; there are: {', '.join(files)}", "not_found")
    kind = _TYPES.get(name.rpartition(".")[2], "application/octet-stream")
    return Response(files[name], media_type=kind, headers={"Cache-Control": "no-cache"})
