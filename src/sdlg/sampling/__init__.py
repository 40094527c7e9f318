"""Samplers: each turns a request into sequences with the same record, `Sampled`."""

from collections.abc import Callable, Mapping

from .branching import initial_answer, sample_sdlg
from .direct import sample_beam, sample_diverse_beam, sample_multinomial
from .record import Answered, Request, Sampled

__all__ = ["SAMPLERS", "Answered", "Request", "Sampled", "Sampler", "initial_answer"]

Sampler = Callable[[Request], Sampled]

SAMPLERS: Mapping[str, Sampler] = {
    "sdlg": sample_sdlg,
    "multinomial": sample_multinomial,
    "beam": sample_beam,
    "diverse_beam": sample_diverse_beam,
}
