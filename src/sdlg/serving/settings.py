"""What an operator decides: how much may be asked, how long it may take, who may ask. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import BadOption


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one request may ask for."""

    samples: int = 20
    max_tokens: int = 512
    prompt_characters: int = 32_768  # question, context, instructions and earlier turns together
    answers: int = 50  # that a caller already has: they are compared in pairs
    given_work: int = 400_000  # characters that models read to measure them: half a minute on two slow cores
    stop_strings: int = 16
    min_probability: float = 1e-4  # the lowest floor: below it every token of the vocabulary would be a candidate
    body_bytes: int = 1_000_000
    json_depth: int = 32


@dataclass(frozen=True, slots=True)
class Settings:
    """Of the server, not of the answers: those are `sdlg.Options`."""

    queue: int = 16  # requests that may wait
    deadline: float = 120.0  # seconds for a request, the time in the queue included
    key: str | None = field(default=None, repr=False)  # None: anyone who can connect may ask
    hosts: tuple[str, ...] = ()  # Host headers that are answered; none named: all
    origins: tuple[str, ...] = ()  # other pages that may read our answers (CORS); none named: none
    in_flight: int | None = None  # questions at once; None: what the model takes
    grace: float = 2.0  # seconds that whoever is being answered still has when the server is told to stop
    heartbeat: float = 5.0  # seconds between comments in a silent stream
    client_seconds: float = 30.0  # seconds that a client may take to send its body, or to read what it was sent
    buffered: int = 1024  # events that may wait for a slow reader
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.queue < 0:
            raise BadOption(f"queue must be at least 0, not {self.queue}")
        for name in ("deadline", "grace", "heartbeat", "client_seconds"):
            if not getattr(self, name) > 0:
                raise BadOption(f"{name} must be more than 0 seconds, not {getattr(self, name)}")
        if self.in_flight is not None and self.in_flight < 1:
            raise BadOption(f"in_flight must be at least 1, not {self.in_flight}")
