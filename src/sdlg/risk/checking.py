"""Does a calibration hold here? Another model, method or measure is an error; anything else that differs a warning."""

from __future__ import annotations

from typing import Any

from ..errors import BadOption
from ..models import same_model
from ..options import Options, option_groups
from .records import Origin

_CLUSTERING = ("equivalence", "linkage")


def check_setup(origin: Origin, model: str, nli: str, method: str, options: Options) -> list[str]:
    """Warnings; raises where the calibration says nothing of such answers."""
    here, binding = _flat(options), _binding(origin)
    if not same_model(origin.model, model):
        _same_or_error("--model", origin.model, model)
    _same_or_error("--method", origin.family, method)
    for name, made in binding.items():
        _same_or_error(_flag(name), made, here[name])
    compared = {name: made for name, made in origin.options.items() if _matters(origin, name) and name not in binding}
    differing = [("--nli", origin.nli, nli), ("--samples", origin.samples, options.samples)]
    differing += [(_flag(name), made, here[name]) for name, made in compared.items()]
    return [
        f"the calibration was made with {flag} {made}, not {found}: the risk may be off"
        for flag, made, found in differing
        if made != found
    ]


def _binding(origin: Origin) -> dict[str, Any]:
    """Options that make the method or the measure another one."""
    names = (*origin.method_options, *(_CLUSTERING if " @ " in origin.measure else ()))
    return {name: origin.options[name] for name in names if name in origin.options and name in option_groups()}


def _matters(origin: Origin, name: str) -> bool:
    """Whether an option shapes the answers or the measure; one that we do not know is not ours to judge."""
    group = option_groups().get(name)
    if group is None or name in ("seed", "samples") or group == "estimation":
        return False
    return group != "scoring" or origin.family == "sdlg"


def _flat(options: Options) -> dict[str, Any]:
    """Options by name, as JSON has them."""
    groups = option_groups()
    found = {name: getattr(getattr(options, group) if group else options, name) for name, group in groups.items()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def _same_or_error(flag: str, made: Any, found: Any) -> None:
    if made != found:
        raise BadOption(
            f"the calibration was made with {flag} {made}, not {found}, and says nothing of its answers; "
            f"use {flag} {made}, or make another one with sdlg eval and sdlg calibrate"
        )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
