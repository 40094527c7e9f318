"""Which calibration is used for an answer: the file that was named, or one that comes with the package.

In: what `--calibration` says, and how answers are made. Out: `Calibrations`. A packaged one is only used where model,
method, prompt and judge of meaning are its own, for questions asked as its own were: with a text to read, after
examples, or alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from ..models import same_model
from ..options import NONE, PACKAGED, Options
from ..records import AnswerRisk
from .calibration import Calibration, Origin, Unit

if TYPE_CHECKING:
    from ..records import Question
    from ..result import Result

FOLDER = Path(__file__).parent / "packaged"
CalibrationSource = str | Path | Calibration | None  # a file of `sdlg calibrate`, PACKAGED or NONE
_OF_OTHER = {
    "answer": "the calibration is of sentences of long answers: there is no risk for an answer that is one",
    "sentence": "the calibration is of whole answers: there is no risk for the sentences of a long one",
}
_OURS = "this calibration comes with sdlg; --calibration none leaves it out"


@dataclass(frozen=True, slots=True)
class Calibrations:
    """Those for the answers of a pipeline: the one that was named, or all packaged ones that fit."""

    all: tuple[Calibration, ...] = ()
    is_packaged: bool = False

    def measure_names(self, unit: Unit) -> tuple[str, ...]:
        """Return the measures of answers, or of sentences, that they need, each once."""
        return tuple(dict.fromkeys(one.origin.measure for one in self.all if one.origin.unit == unit))

    @property
    def fingerprint(self) -> str | None:
        """Return a short hash that tells two choices apart; None: there is no calibration."""
        every = "".join(one.fingerprint for one in self.all)
        return sha256(every.encode()).hexdigest()[:16] if every else None

    def check(self, model: str, nli: str, method: str, options: Options) -> None:
        """Raise where a named one says nothing of answers that are made like this."""
        if not self.is_packaged:
            for one in self.all:
                one.origin.differences(model, nli, method, options)

    def for_question(self, question: Question, unit: Unit) -> Calibration | None:
        """Return the named one, or the packaged one that was made with questions asked like this one."""
        of_unit = (one for one in self.all if one.origin.unit == unit)
        return next((one for one in of_unit if not self.is_packaged or one.is_asked_alike(question)), None)

    def applied_to(self, result: Result) -> Result:
        """Return the result with the risk of its answer, and a note for all that differs. Sentences have theirs."""
        unit: Unit = "sentence" if result.sentences else "answer"
        one = self.for_question(result.question, unit)
        if one is None:
            is_other = bool(self.all) and not self.is_packaged
            return replace(result, notes=(*result.notes, _OF_OTHER[unit])) if is_other else result
        options = _as_asked(one.origin, result)
        notes = one.origin.differences(result.model, result.nli, result.method, options)
        made, question = one.origin.data.format, result.question
        if made not in (None, "zero-shot") and not (question.shots or question.context):
            notes.append(f"the calibration was made with questions asked {made}, not alone: the risk may be off")
        result = replace(result, notes=(*result.notes, *notes))
        return replace(result, risk=self._risk(one, result, bool(notes))) if unit == "answer" else result

    def risk_of_sentence(self, question: Question, sentence: Result) -> AnswerRisk | None:
        """Return the risk of a sentence of the answer to a question, from the sentence as a result of its own."""
        one = self.for_question(question, "sentence")
        if one is None:
            return None
        differs = one.origin.differences(sentence.model, sentence.nli, sentence.method, sentence.options)
        return self._risk(one, sentence, bool(differs))

    def _risk(self, one: Calibration, result: Result, is_made_otherwise: bool) -> AnswerRisk:
        risk = one.risk_of(result, is_made_otherwise=is_made_otherwise)
        return replace(risk, basis=f"{risk.basis}; {_OURS}") if self.is_packaged else risk


def _as_asked(origin: Origin, result: Result) -> Options:
    """Return the options of a result. What ended by itself is the same with any `max_tokens` it fits in."""
    made, every = origin.options.get("max_tokens"), [result.answer]
    if not origin.needs_only_the_answer:
        every += [one.generation for one in (*result.samples, *result.draws)]
    is_same = isinstance(made, int) and all(one.stop_reason != "length" and len(one.token_ids) < made for one in every)
    return result.options.updated(max_tokens=made) if is_same else result.options


def read_calibration(source: CalibrationSource) -> CalibrationSource:
    """Return what was asked for, with a file read at once: what is wrong with it is said before models are loaded."""
    if source is None or isinstance(source, Calibration) or source in (PACKAGED, NONE):
        return None if source == NONE else source
    return Calibration.load(source)


def calibrations_for(
    source: CalibrationSource, model: str, nli: str, method: str, options: Options, *, folder: Path = FOLDER
) -> Calibrations:
    """Return those for answers that are made like this."""
    given = read_calibration(source)
    if isinstance(given, Calibration):
        return Calibrations((given,))
    if given is None:
        return Calibrations()
    fitting = (one for one in packaged(folder) if _is_made_alike(one, model, nli, method, options))
    return Calibrations(tuple(fitting), is_packaged=True)


@cache
def packaged(folder: Path = FOLDER) -> tuple[Calibration, ...]:
    """Return all that come with the package, in the order of their names."""
    return tuple(Calibration.load(path) for path in sorted(folder.glob("*.json")))


def _is_made_alike(one: Calibration, model: str, nli: str, method: str, options: Options) -> bool:
    """Return whether model, method, prompt and, where it matters, the judge are its own; the rest is noted."""
    origin, here = one.origin, {"prompt": options.prompt, "stop_at": options.decoding.stop_at}
    is_other_judge = origin.nli != nli and not origin.needs_only_the_answer
    if origin.method != method or is_other_judge or not same_model(origin.model, model):
        return False
    return all(origin.options.get(name, value) == value for name, value in here.items())
