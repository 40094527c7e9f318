"""What an operator decides: how much may be asked, how long it may take, who may ask. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from ..errors import BadOption
from ..options import Options, pick


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Of the server, not of the answers: those are `sdlg.Options`. The numbers are what `--limit` takes."""

    queue: int = 16  # requests that may wait
    deadline: float = 120.0  # seconds for a request, the time in the queue included
    grace: float = 2.0  # seconds that running requests still have after the signal to stop
    # The most that one request may ask for.
    samples: int = 20
    max_tokens: int = 512
    sentences: int = 40  # of a long answer that are measured
    prompt_characters: int = 32_768  # question, context, instructions and earlier turns together
    answers: int = 50  # that a caller already has: they are compared in pairs
    characters_read: int = 400_000  # by models, to measure those answers: half a minute on two slow cores
    stop_strings: int = 16
    min_probability: float = 1e-4  # the lowest floor: below it every token of the vocabulary would be a candidate
    body_bytes: int = 1_000_000
    # What a slow client may cost.
    client_seconds: float = 30.0  # to send its body, or to read what it was sent
    heartbeat: float = 5.0  # seconds between comments in a silent stream
    # Who may ask.
    key: str | None = field(default=None, repr=False)  # None: anyone who can connect
    hosts: tuple[str, ...] = ()  # Host headers that are answered; none named: all
    origins: tuple[str, ...] = ()  # other pages that may read our answers (CORS); none named: none

    def __post_init__(self) -> None:
        for name in LIMITS:
            value = getattr(self, name)
            if not (value > 0 or (name == "queue" and value == 0)):
                raise BadOption(f"{name} must be more than 0, not {value}")

    def widened(self, options: Options) -> Settings:
        """Return settings that allow what the server itself does by default."""
        return replace(
            self,
            samples=max(self.samples, options.samples, options.beams, options.sentence_samples),
            sentences=max(self.sentences, options.most_sentences),
            max_tokens=max(self.max_tokens, options.max_tokens),
            min_probability=min(self.min_probability, options.min_probability),
        )


LIMITS: Mapping[str, int | float] = {
    one.name: one.default for one in fields(Settings) if isinstance(one.default, int | float)
}
# Those that /v1/settings shows.
SHOWN_LIMITS = ("samples", "max_tokens", "prompt_characters", "answers", "characters_read")


def read_limit(text: str) -> tuple[str, int | float]:
    """Read `name=value`, as `--limit` takes it."""
    name, _, value = text.partition("=")
    name = name.strip().replace("-", "_")
    kind = type(pick("limit", LIMITS, name))
    try:
        return name, kind(value)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise BadOption(f"{name} must be {wanted}, not {value!r}; write --limit {name}={LIMITS[name]}") from None
