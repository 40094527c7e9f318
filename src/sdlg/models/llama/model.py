"""A GGUF file as a language model: the engine for servers, on a llama-server of our own.

In: a file and the engine's options. Out: a `LlamaModel`. Weights stay as they are in the file, and are read from there.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

from ...errors import BadOption, ModelNotFound, NotSupported
from ...loading.cores import usable_cores
from ...options import EngineOptions
from ...records import Prompt
from ..base import Scored
from ..server.capabilities import ServerCapabilities, known_llama_server
from ..server.connecting import DEFAULT_RETRY_SECONDS, choose_text_side
from ..server.connection import Connection
from ..server.served import ServedModel
from ..server.text_sides import ServedTextSide
from .header import read_header
from .private_server import PrivateServer, ServerSize, has_llama, shared_server

_MOST_CONTEXT = 4096  # tokens of a slot, unless more is asked for: keys and values take memory, used or not
_CORES_PER_SLOT, _MOST_SLOTS = 4, 4


class LlamaModel(ServedModel):
    """A model that holds its server: the server ends when the last such model is gone or closed."""

    engine = "llama.cpp"

    def __init__(
        self, connection: Connection, server: ServerCapabilities, text_side: ServedTextSide, *, name: str,
        process: PrivateServer,
    ) -> None:  # fmt: skip
        super().__init__(connection, server, text_side, name=name)
        self._process: PrivateServer | None = process

    def close(self) -> None:
        """Close the connection, and let go of the server."""
        super().close()
        self._process = None

    @property
    def process_id(self) -> int | None:
        """Of the server; None: it was closed."""
        return self._process.process_id if self._process else None

    def score(self, prompt: Prompt, texts: Sequence[str], *, ended: Sequence[bool] | None = None) -> Scored:
        """A llama-server does not tell the likelihood of given texts."""
        raise NotSupported(f"{self.name} cannot score given texts on llama.cpp; use --engine transformers")


def load_llama(
    file: Path,
    options: EngineOptions,
    *,
    name: str,
    device: str | None = None,
    tokenizer: str | None = None,
    retry_seconds: float | None = None,
) -> LlamaModel:
    """Start the server, or use that of this process, and connect to it."""
    if not has_llama():
        raise ModelNotFound(
            f"running {name} needs llama.cpp. Run: pip install 'sdlg[llama]' "
            "(or use --engine transformers, which takes several times the file's size in memory)"
        )
    if retry_seconds is not None and not retry_seconds > 0:
        raise BadOption(f"retry_seconds must be more than 0 seconds, not {retry_seconds}")
    header = read_header(file)
    process = shared_server(file, server_size(options, header.context_tokens, device))
    patience = retry_seconds or DEFAULT_RETRY_SECONDS
    connection = Connection(process.address, retry_seconds=patience, end_reason=_end_reason(weakref.ref(process)))
    try:
        server = connection.run(known_llama_server(connection, has_template=header.has_template))
        connection.take_at_once(server.slots or 1)
        text_side = choose_text_side(connection, server, name, tokenizer)
        return LlamaModel(connection, server, text_side, name=name, process=process)
    except BaseException:
        connection.close()
        raise


def _end_reason(process: weakref.ref[PrivateServer]) -> Callable[[], str | None]:
    """Why a server is gone. Only models hold one: a connection that did would keep it alive."""

    def reason() -> str | None:
        server = process()
        return "the llama-server was let go" if server is None else server.end_reason()

    return reason


def server_size(options: EngineOptions, trained_context: int | None, device: str | None) -> ServerSize:
    """What was asked for, else what suits the machine.

    A slot for every four cores: on two, several questions at once were no faster (docs/engines.md).
    """
    most = trained_context or _MOST_CONTEXT
    cores = usable_cores()
    return ServerSize(
        context_tokens=min(options.context_tokens or _MOST_CONTEXT, most),
        slots=options.slots or min(max(cores // _CORES_PER_SLOT, 1), _MOST_SLOTS),
        threads=options.threads or cores,
        gpu=device != "cpu",
    )
