"""What a calibration was made with, and whether it speaks of answers that are made in another way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import BadOption
from ..models import same_model
from ..options import Options, flag_of, flat_options, option_groups

_CLUSTERING = ("equivalence", "linkage")


@dataclass(frozen=True, slots=True)
class Origin:
    """What a calibration was made with: it holds for that, and for little else."""

    model: str
    nli: str
    method: str  # as the run names it, for example "multinomial:temperature=0.5:top_p=0.9"
    preset: str
    measures: tuple[str, ...]  # by their own names, for example "number_of_clusters @ strict+components"
    higher_is_less_certain: bool  # the score: of one measure its own direction, of several always true
    samples: int
    metric: str
    threshold: float  # an answer with a lower score of the metric is wrong
    data: Mapping[str, Any]  # name, sha256, …
    options: Mapping[str, Any]  # by name, without groups

    def __post_init__(self) -> None:
        if not self.measures or len(set(self.measures)) != len(self.measures):
            raise ValueError(f"measures must be different ones, and at least one, not {list(self.measures)}")
        for name in ("name", "format"):
            if not isinstance(self.data.get(name, ""), str | None):
                raise ValueError(f"the {name} of its data is no text")

    @property
    def measure(self) -> str:
        """What the score is made of, in words."""
        return " + ".join(self.measures)

    @property
    def measure_names(self) -> tuple[str, ...]:
        """The measures without their clustering, as `--measures` takes them."""
        return tuple(measure.split(" @ ")[0] for measure in self.measures)

    @property
    def family(self) -> str:
        """The sampling method without its options."""
        return self.method.split(":")[0]

    @property
    def method_options(self) -> tuple[str, ...]:
        """Names of the options that the method's name tells."""
        return tuple(part.split("=")[0] for part in self.method.split(":")[1:])

    def check_setup(self, model: str, nli: str, method: str, options: Options) -> list[str]:
        """Warnings where answers are made otherwise; an error where another model, method or measure makes them."""
        here, binding = flat_options(asdict(options)), self._binding()
        if not same_model(self.model, model):
            _same_or_error("--model", self.model, model)
        _same_or_error("--method", self.family, method)
        for name, made in binding.items():
            _same_or_error(flag_of(name), made, here[name])
        compared = {name: made for name, made in self.options.items() if self._matters(name) and name not in binding}
        pairs = [("--nli", self.nli, nli), ("--samples", self.samples, options.samples)]
        pairs += [(flag_of(name), made, here[name]) for name, made in compared.items()]
        return [
            f"the calibration was made with {flag} {made}, not {value}: the risk may be off"
            for flag, made, value in pairs
            if made != value
        ]

    def _binding(self) -> dict[str, Any]:
        """Options that make the method or the measure another one."""
        clustered = any(" @ " in measure for measure in self.measures)
        names = (*self.method_options, *(_CLUSTERING if clustered else ()))
        return {name: self.options[name] for name in names if name in self.options and name in option_groups()}

    def _matters(self, name: str) -> bool:
        """Whether an option shapes the answers or the measure; one that we do not know is not ours to judge."""
        group = option_groups().get(name)
        if group is None or name in ("seed", "samples") or group == "estimation":
            return False
        return group != "scoring" or self.family == "sdlg"


def _same_or_error(flag: str, made: Any, value: Any) -> None:
    if made != value:
        raise BadOption(
            f"the calibration was made with {flag} {made}, not {value}, and says nothing of its answers; "
            f"use {flag} {made}, or make another one with sdlg eval and sdlg calibrate"
        )
