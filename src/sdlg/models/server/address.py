"""Where a model server is, and the key it wants. Keys never appear in a name, a log line, an error or a `repr`.

In: `http://127.0.0.1:8000/v1#name`, or `server#name` for the address in OPENAI_BASE_URL. Out: an `Address`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from ...errors import BadOption

SERVER = "server"  # the address is in the environment
_URL_VARIABLE = "OPENAI_BASE_URL"
_KEY_VARIABLES = ("SDLG_API_KEY", "OPENAI_API_KEY")


class Secret:
    """A key that no `repr`, log line or file shows."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the key itself."""
        return self._value

    def hidden_in(self, text: str) -> str:
        """Return a text without the key."""
        return text.replace(self._value, "[key]") if self._value else text

    def __repr__(self) -> str:
        return "Secret([key])" if self._value else "Secret()"

    def __reduce__(self) -> tuple[type, tuple[str]]:
        raise TypeError("a key is not written down; it is read from the environment again")


@dataclass(frozen=True, slots=True)
class Address:
    """A server's base address, the model's name there ("" if it has only one), and the key."""

    url: str
    model: str
    key: Secret

    @property
    def root(self) -> str:
        """The address without /v1: where servers have what is not OpenAI's."""
        return self.url.removesuffix("/v1")


def is_address(name: str) -> bool:
    """Whether a model's name is that of a server."""
    return _is_url(name) or name.split("#")[0] == SERVER


def checked_name(name: str) -> str:
    """Return a model's name, if it may be shown: an address that holds a key, or is none, is refused."""
    if _is_url(name):
        _url_parts(name.partition("#")[0], name)
    return name


def full_name(name: str) -> str:
    """Return a model's name with what the environment adds: `server#x` is the address in OPENAI_BASE_URL."""
    if not is_address(name):
        return name
    address = parse_address(name)
    return f"{address.url}#{address.model}" if address.model else address.url


def _is_url(name: str) -> bool:
    return name.lower().startswith(("http://", "https://"))


def same_model(one: str, other: str) -> bool:
    """Whether two names are of the same model: a server's address may leave out the name of its only model."""
    if one == other or not (is_address(one) and is_address(other)):
        return one == other
    first, second = parse_address(one), parse_address(other)
    return first.url == second.url and (first.model == second.model or "" in (first.model, second.model))


def parse_address(name: str) -> Address:
    """Return an address with its key from the environment."""
    base, _, model = name.partition("#")
    if base == SERVER:
        base = os.environ.get(_URL_VARIABLE, "")
        if not base:
            raise BadOption(f"'{SERVER}' is the address in {_URL_VARIABLE}, which is not set; or give http://…/v1#name")
    parts = _url_parts(base, name)
    path = parts.path.rstrip("/") or "/v1"
    return Address(f"{parts.scheme}://{parts.netloc}{path}", unquote(model), Secret(_key()))


def _url_parts(base: str, name: str) -> SplitResult:
    """Return the parts of a base address; raise if it is none or holds a key."""
    try:
        parts = urlsplit(base)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not match, a port that is none
        usable = False
    if not usable:
        shown = _without_secrets(name if "@" in name else base)  # a "#" in a key would cut it in two
        raise BadOption(f"{shown!r} is not the address of a server; give http://host:port/v1#name")
    if parts.username or parts.password or parts.query:
        raise BadOption(
            f"the address of {parts.hostname} holds a key or a query, which would be written into every result; "
            f"put the key into {_KEY_VARIABLES[-1]}"
        )
    return parts


def _key() -> str:
    for name in _KEY_VARIABLES:
        if key := os.environ.get(name, "").strip():
            if not key.isascii() or not key.isprintable():
                raise BadOption(f"the key in {name} holds characters that cannot be sent; copy it again")
            return key
    return ""


def _without_secrets(base: str) -> str:
    return base.rsplit("@", 1)[-1].split("?")[0]
