"""Samplers: each turns a request into sequences with the same record, `Sampled`."""

from collections.abc import Callable, Mapping

from .branching import sample_sdlg
from .direct import sample_beam, sample_diverse_beam, sample_multinomial
from .record import Request, Sampled

__all__ = ["SAMPLERS", "Request", "Sampled", "Sampler"]

Sampler = Callable[[Request], Sampled]

SAMPLERS: Mapping[str, Sampler] = {
    "sdlg": sample_sdlg,
    "multinomial": sample_multinomial,
    "beam": sample_beam,
    "diverse_beam": sample_diverse_beam,
}
