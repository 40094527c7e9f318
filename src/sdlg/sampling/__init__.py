"""Samplers: each turns a request into sequences with the same record, `Sampled`."""

from collections.abc import Callable, Mapping

from ..errors import BadOption, NotSupported
from ..models.base import LanguageModel
from ..options import Options
from ..records import Sampled
from .direct import sample_arithmetic, sample_beam, sample_diverse_beam, sample_multinomial
from .request import InitialAnswer, SamplingRequest, as_sample, check_strategies, cut_note, plain_words
from .sdlg import check_sdlg, first_answer, initial_answer, sample_sdlg

__all__ = [
    "SAMPLERS",
    "InitialAnswer",
    "Sampler",
    "SamplingRequest",
    "as_sample",
    "check_method",
    "check_reads_texts",
    "cut_note",
    "first_answer",
    "initial_answer",
    "plain_words",
]

Sampler = Callable[[SamplingRequest], Sampled]

SAMPLERS: Mapping[str, Sampler] = {
    "sdlg": sample_sdlg,
    "multinomial": sample_multinomial,
    "arithmetic": sample_arithmetic,
    "beam": sample_beam,
    "diverse_beam": sample_diverse_beam,
}


def check_method(name: str, model: LanguageModel, options: Options) -> None:
    """Raise if a model cannot do what a method needs, with what would work instead."""
    if options.unit == "sentences" and (name != "sdlg" or options.stop_at == "sentence"):
        raise BadOption("sentences are measured by the method sdlg, and not with stop_at=sentence, which leaves one")
    if name == "sdlg":
        check_sdlg(model, options)
    else:
        check_strategies(model, {name})


def check_reads_texts(model: LanguageModel) -> None:
    """Raise if a model cannot say how likely a given text is."""
    if not model.capabilities.scores_texts:
        raise NotSupported(f"{model.name} cannot read given texts; use a model that runs in this process")
