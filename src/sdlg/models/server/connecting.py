"""From a server's name to a model: ask what it can do, choose the text side that fits."""

from __future__ import annotations

from ...errors import BadOption, ModelNotFound, ServerFailed, first_line
from ..tokenizing import TextSide
from .address import parse_address
from .connection import Connection, Nonsense
from .facts import ServerFacts, ask_facts
from .served import ServedModel
from .words import LlamaWords, TextWords, TokenizerWords, WholeTexts, Words

DEFAULT_PATIENCE = 120.0


def connect(name: str, *, tokenizer: str | None = None, patience: float | None = None) -> ServedModel:
    """`http://127.0.0.1:8000/v1#name`, or `server#name` for the address in OPENAI_BASE_URL.

    `tokenizer` is a folder or hub name, where the server does not name its own. `patience` is how many seconds a
    server that is silent or fails is waited for.
    """
    address = parse_address(name)
    if patience is not None and not patience > 0:
        raise BadOption(f"patience must be more than 0 seconds, not {patience}")
    connection = Connection(address, patience=patience or DEFAULT_PATIENCE)
    try:
        facts = connection.run(ask_facts(connection))
        if facts.slots:
            connection.take_at_once(facts.slots)
        full_name = f"{address.url}#{address.model or facts.model}"
        words = _words(connection, facts, full_name, tokenizer)
        if not facts.usable_logprobs:
            words = WholeTexts(words)
        return ServedModel(connection, facts, words, name=full_name)
    except Nonsense as fault:
        connection.close()
        raise ServerFailed(f"{address.url} {connection.told(fault)}") from None
    except BaseException:
        connection.close()
        raise


def _words(connection: Connection, facts: ServerFacts, name: str, tokenizer: str | None) -> Words:
    side = None if tokenizer is None else _side(tokenizer, name)
    if facts.endpoint == "chat":
        return TextWords(name, chat=True)
    if not facts.exact:
        return TextWords(name, side)
    if side is None and facts.kind == "llama.cpp":
        return LlamaWords(connection, name, has_template=facts.has_template, ending=facts.ending)
    return TokenizerWords(side or _side(facts.tokenizer or facts.model, name))


def _side(source: str, name: str) -> TextSide:
    from ...tokenizers import load_tokenizer

    try:
        return TextSide(load_tokenizer(source), None, name=name)
    except Exception as error:  # whatever a stranger's files make transformers raise
        raise ModelNotFound(
            f"cannot load the tokenizer {source!r} for {name}: {first_line(error)} "
            "Give the model's folder or hub name with --tokenizer."
        ) from error
