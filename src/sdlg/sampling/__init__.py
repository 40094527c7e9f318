"""Samplers: each turns a question into sequences with the same record, `Sampled`."""

from collections.abc import Callable, Mapping

from ..models.base import LanguageModel
from ..nli.base import NliModel
from ..options import Options
from ..records import Question
from ..scoring import EmbeddingMap
from .branching import sample_sdlg
from .direct import sample_beam, sample_diverse_beam, sample_multinomial
from .record import Report, Sampled

__all__ = ["SAMPLERS", "Sampled", "Sampler", "sample_beam", "sample_diverse_beam", "sample_multinomial", "sample_sdlg"]

Sampler = Callable[[Question, LanguageModel, NliModel, Options, EmbeddingMap | None, Report], Sampled]

SAMPLERS: Mapping[str, Sampler] = {
    "sdlg": sample_sdlg,
    "multinomial": sample_multinomial,
    "beam": sample_beam,
    "diverse_beam": sample_diverse_beam,
}
