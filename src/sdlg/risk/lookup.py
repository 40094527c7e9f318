"""Which calibration speaks of an answer: the file that was named, or one that comes with the package.

In: what `--calibration` says, and how answers are made. Out: `Calibrations`. One that comes with the package is only
used where model, method, prompt and judge of meaning are its own, and for questions asked as its own were: with a text
to read, after examples, or alone. Which one it was, and what it was measured on, is told with the risk.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BadOption
from ..options import NONE, PACKAGED, Options
from ..records import AnswerRisk
from .calibration import Risk

if TYPE_CHECKING:
    from ..formats.results import Result
    from ..records import Question

FOLDER = Path(__file__).parent / "packaged"
CalibrationSource = str | Path | Risk | None  # a file of `sdlg calibrate`, PACKAGED or NONE
_OURS = "this calibration comes with sdlg; --calibration none leaves it out"


@dataclass(frozen=True, slots=True)
class Calibrations:
    """Those that may speak of a pipeline's answers: the one that was named, or of the packaged ones all that fit."""

    risks: tuple[Risk, ...] = ()
    is_packaged: bool = False

    @property
    def is_named(self) -> bool:
        """Whether somebody asked for it: then it must speak of every answer."""
        return bool(self.risks) and not self.is_packaged

    @property
    def measure_names(self) -> tuple[str, ...]:
        """All that they need, each once."""
        return tuple(dict.fromkeys(name for risk in self.risks for name in risk.origin.measure_names))

    @property
    def fingerprint(self) -> str | None:
        """Tells two choices apart; None: there is no calibration."""
        if len(self.risks) < 2:
            return self.risks[0].fingerprint if self.risks else None
        return sha256("".join(risk.fingerprint for risk in self.risks).encode()).hexdigest()[:16]

    def for_question(self, question: Question) -> Risk | None:
        """The first that was made with questions asked like this one; a named one speaks of all."""
        return next((risk for risk in self.risks if self.is_named or _is_asked_alike(risk, question)), None)

    def risk_of(self, result: Result) -> AnswerRisk | None:
        """The risk of a result's answer, and what says so."""
        risk = self.for_question(result.question)
        if risk is None:
            return None
        answer_risk = risk.of(result)
        return replace(answer_risk, basis=f"{answer_risk.basis}; {_OURS}") if self.is_packaged else answer_risk

    def check_setup(self, model: str, nli: str, method: str, options: Options) -> tuple[str, ...]:
        """What differs from what a named one was made with; an error where it says nothing of these answers."""
        return tuple(self.risks[0].check_setup(model, nli, method, options)) if self.is_named else ()

    def differences(self, question: Question, model: str, nli: str, method: str, options: Options) -> list[str]:
        """Warnings for one question."""
        risk = self.for_question(question)
        if risk is None:
            return []
        return [*risk.check_setup(model, nli, method, options), *risk.differing_format(question)]


def given_calibration(source: CalibrationSource) -> CalibrationSource:
    """What was asked for, with a file read at once: what is wrong with it is told before models are loaded."""
    if source is None or isinstance(source, Risk) or source in (PACKAGED, NONE):
        return None if source == NONE else source
    return Risk.load(source)


def calibrations_for(source: CalibrationSource, model: str, nli: str, method: str, options: Options) -> Calibrations:
    """Those that speak of answers that are made like this."""
    given = given_calibration(source)
    if isinstance(given, Risk):
        return Calibrations((given,))
    if given is None:
        return Calibrations()
    fitting = (risk for risk in packaged_risks(FOLDER) if _is_made_alike(risk, model, nli, method, options))
    return Calibrations(tuple(fitting), is_packaged=True)


@lru_cache(maxsize=4)
def packaged_risks(folder: Path) -> tuple[Risk, ...]:
    """All that come with the package, in the order of their names."""
    return tuple(Risk.load(path) for path in sorted(folder.glob("*.json")))


def _is_made_alike(risk: Risk, model: str, nli: str, method: str, options: Options) -> bool:
    """Whether model, method, prompt and judge are its own. Other differences are told with the risk."""
    origin, here = risk.origin, {"prompt": options.prompt, "stop_at": options.decoding.stop_at}
    if origin.nli != nli or any(origin.options.get(name, here[name]) != here[name] for name in here):
        return False
    try:
        risk.check_setup(model, nli, method, options)
    except BadOption:
        return False
    return True


def _is_asked_alike(risk: Risk, question: Question) -> bool:
    """Whether what stands before the question is of the same kind. A system's words were never part of a run."""
    made = risk.origin.data.get("format") or "zero-shot"
    if question.system is not None:
        return False
    if question.context is not None:
        return bool(made == "with a context")
    return bool(made == (f"{len(question.shots)}-shot" if question.shots else "zero-shot"))
