"""A GGUF file on a llama-server of our own, where llama.cpp cannot be called in this process.

In: a file and how much of the machine it may have. Out: a `ServedLlamaModel`. Weights stay as they are in the file.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ...errors import ModelNotFound, NotSupported
from ...options import Loading
from ...records import Prompt
from ..base import Capabilities, Scored
from ..server.capabilities import ServerCapabilities, known_llama_server
from ..server.connection import Connection
from ..server.served import ServedModel, checked_patience, choose_tokenizer
from ..server.tokenizers import ServedTokenizer
from .header import MOST_CONTEXT, own_cores, read_header
from .private_server import PrivateServer, ServerSize, has_llama, shared_server

_CORES_PER_SLOT, _MOST_SLOTS = 4, 4


class ServedLlamaModel(ServedModel):
    """A model that holds its server, which ends when the last such model is gone or closed."""

    engine = "llama.cpp"

    def __init__(
        self, connection: Connection, server: ServerCapabilities, tokenizer: ServedTokenizer, *, name: str,
        process: PrivateServer, reason: str,
    ) -> None:  # fmt: skip
        super().__init__(connection, server, tokenizer, name=name)
        self._note = f"{name} runs on a private llama-server, not in this process: {reason}"
        self._process: PrivateServer | None = process

    def close(self) -> None:
        """Close the connection, and let go of the server."""
        super().close()
        self._process = None

    @property
    def capabilities(self) -> Capabilities:
        """What it can do, and why it is not in this process."""
        able = super().capabilities
        return replace(able, shortcomings=(*able.shortcomings, self._note))

    @property
    def process_id(self) -> int | None:
        """The server's process; None: the model was closed."""
        return self._process.process_id if self._process else None

    def score(self, prompt: Prompt, texts: Sequence[str], *, ended: Sequence[bool] | None = None) -> Scored:
        """Refuse: a llama-server does not give the likelihood of given texts."""
        raise NotSupported(f"{self.name} cannot score given texts on llama.cpp; use --set engine=transformers")


def serve_llama(file: Path, loading: Loading, *, name: str, reason: str) -> ServedLlamaModel:
    """Start the server, or use that of this process, and connect to it."""
    if not has_llama():
        raise ModelNotFound(
            f"running {name} needs llama.cpp. Run: pip install xllamacpp "
            "(or use --set engine=transformers, which takes several times the file's size in memory)"
        )
    patience, header = checked_patience(loading.retry_seconds), read_header(file)
    process = shared_server(file, server_size(loading, header.context_tokens, own_cores()))
    connection = Connection(process.address, retry_seconds=patience, end_reason=_end_reason(weakref.ref(process)))
    try:
        server = connection.run(known_llama_server(connection, has_template=header.has_template))
        connection.allow_requests(server.slots or 1)
        chosen = choose_tokenizer(connection, server, name, loading.tokenizer)
        return ServedLlamaModel(connection, server, chosen, name=name, process=process, reason=reason)
    except BaseException:
        connection.close()
        raise


def _end_reason(process: weakref.ref[PrivateServer]) -> Callable[[], str | None]:
    """Return a function that says why a server is gone. It holds no server, or it would keep it alive."""

    def reason() -> str | None:
        server = process()
        return "the llama-server was let go" if server is None else server.end_reason()

    return reason


def server_size(loading: Loading, trained_context: int | None, cores: int) -> ServerSize:
    """Return what was asked for, else what suits the machine.

    A slot for every four cores: on two, several questions at once were no faster (docs/results/engines.md).
    """
    return ServerSize(
        context_tokens=min(loading.context_tokens or MOST_CONTEXT, trained_context or MOST_CONTEXT),
        slots=min(max(cores // _CORES_PER_SLOT, 1), _MOST_SLOTS),
        threads=loading.threads or cores,
        gpu=loading.device != "cpu",
    )
