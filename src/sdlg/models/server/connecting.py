"""From a server's name to a model: ask what it can do, choose the text side that fits."""

from __future__ import annotations

from ...errors import BadOption, ModelNotFound, ServerFailed, first_line
from ..tokenizing import TextSide
from .address import parse_address
from .capabilities import ServerCapabilities, probe_server
from .connection import Connection, Nonsense
from .served import ServedModel
from .text_sides import LlamaTextSide, ServedTextSide, SpelledTextSide, TokenizerTextSide, WholeTextSide

DEFAULT_RETRY_SECONDS = 120.0


def connect(name: str, *, tokenizer: str | None = None, retry_seconds: float | None = None) -> ServedModel:
    """`http://127.0.0.1:8000/v1#name`, or `server#name` for the address in OPENAI_BASE_URL.

    `tokenizer` is a folder or hub name, where the server does not name its own. `retry_seconds` is how many seconds a
    server that is silent or fails is waited for.
    """
    address = parse_address(name)
    if retry_seconds is not None and not retry_seconds > 0:
        raise BadOption(f"retry_seconds must be more than 0 seconds, not {retry_seconds}")
    connection = Connection(address, retry_seconds=retry_seconds or DEFAULT_RETRY_SECONDS)
    try:
        server = connection.run(probe_server(connection))
        if server.slots:
            connection.take_at_once(server.slots)
        full_name = f"{address.url}#{address.model or server.model}"
        text_side = choose_text_side(connection, server, full_name, tokenizer)
        if not server.usable_logprobs:
            text_side = WholeTextSide(text_side)
        return ServedModel(connection, server, text_side, name=full_name)
    except Nonsense as fault:
        connection.close()
        raise ServerFailed(f"{address.url} {connection.describe(fault)}") from None
    except BaseException:
        connection.close()
        raise


def choose_text_side(
    connection: Connection, server: ServerCapabilities, name: str, tokenizer: str | None
) -> ServedTextSide:
    """With a tokenizer that was named, with the server's own, or by what its replies spell."""
    side = None if tokenizer is None else _side(tokenizer, name)
    if server.endpoint == "chat":
        return SpelledTextSide(name, chat=True)
    if not server.exact:
        return SpelledTextSide(name, side)
    if side is None and server.kind == "llama.cpp":
        return LlamaTextSide(connection, name, has_template=server.has_template, ending=server.ending)
    return TokenizerTextSide(side or _side(server.tokenizer or server.model, name))


def _side(source: str, name: str) -> TextSide:
    from ...loading.tokenizers import load_tokenizer

    try:
        return TextSide(load_tokenizer(source), None, name=name)
    except Exception as error:  # whatever a stranger's files make transformers raise
        raise ModelNotFound(
            f"cannot load the tokenizer {source!r} for {name}: {first_line(error)} "
            "Give the model's folder or hub name with --tokenizer."
        ) from error
