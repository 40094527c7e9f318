"""Every option, its default, its range and its help, once. The command line's flags derive from these fields.

`PRESETS["paper"]` is the published procedure with the choices of the authors' public code; `PRESETS["default"]`
is what we recommend. docs/results/presets.md lists every difference and its basis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from .errors import BadOption, UnknownName
from .records import StopRule

T = TypeVar("T")
_TOLD = 4  # differences that an error names; the rest is counted


def pick(kind: str, table: Mapping[str, T], name: str) -> T:
    """Look a name up in a table, or list the choices."""
    if name not in table:
        raise UnknownName(f"unknown {kind} {name!r}; choose from: {', '.join(sorted(table))}")
    return table[name]


def _one_of(default: str, *others: str, help: str) -> str:
    return field(default=default, metadata={"help": help, "choices": (default, *others)})


def _number(default: Any, low: float, high: float, help: str) -> Any:
    return field(default=default, metadata={"help": help, "low": low, "high": high})


def several(value: object) -> tuple[Any, ...]:
    """Where several are meant, one on its own is that one: a text is not its letters."""
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping) else (value,)


class _Checked:
    """Checks every field against its declared choices and range when the options are made."""

    def __post_init__(self) -> None:
        for option in fields(self):  # type: ignore[arg-type]
            value, limits = getattr(self, option.name), option.metadata
            if "choices" in limits and value not in limits["choices"]:
                raise UnknownName(f"unknown {option.name} {value!r}; choose from: {', '.join(limits['choices'])}")
            if "low" in limits and not _within(value, type(option.default), limits["low"], limits["high"]):
                kind = "a whole number" if isinstance(option.default, int) else "a number"
                raise BadOption(f"{option.name} must be {kind} from {limits['low']} to {limits['high']}, not {value!r}")


def _within(value: object, kind: type, low: float, high: float) -> bool:
    allowed = (int,) if kind is int else (int, float)
    return isinstance(value, allowed) and not isinstance(value, bool) and low <= value <= high  # NaN is not within


@dataclass(frozen=True, slots=True)
class EngineOptions(_Checked):
    """What runs a model on this machine, and how much of the machine it has. Servers elsewhere have their own."""

    engine: str = _one_of(
        "auto", "transformers", "llama.cpp",
        help="what runs a model on this machine; auto: llama.cpp for a .gguf file, else transformers",
    )  # fmt: skip
    threads: int = _number(0, 0, 1024, "on the CPU; 0: all cores")
    context_tokens: int = _number(
        0, 0, 10_000_000, "for llama.cpp: longest prompt with its answer; 0: as trained, at most 4096"
    )


def engine_options(engine: str | EngineOptions) -> EngineOptions:
    """An engine's name alone is that engine with nothing else said."""
    return EngineOptions(engine) if isinstance(engine, str) else engine


SMOLLM2, NLI_MINILM, MINILM = "smollm2", "nli-minilm", "minilm"  # the embedded models
GEMMA3 = "gemma3-270m"  # another one, by an extra of its own
PACKAGED, NONE = "packaged", "none"  # instead of a calibration's file: one that comes with the package, or none at all
DEFAULT_MODEL, DEFAULT_NLI, DEFAULT_SIMILARITY = SMOLLM2, NLI_MINILM, MINILM
BEAMS = ("beam", "diverse_beam")
METHODS = (
    "sdlg",
    "multinomial",
    "arithmetic",
    *BEAMS,
)  # as `sdlg.sampling.SAMPLERS` has them; the first is the default
DEFAULT_METHOD = METHODS[0]
STRATEGIES = ("greedy", "multinomial", "arithmetic", *BEAMS)


@dataclass(frozen=True, slots=True)
class Decoding(_Checked):
    """How tokens are chosen, for the initial answer and for the branches."""

    strategy: str = _one_of(*STRATEGIES, help="how the initial answer is decoded")
    branch_strategy: str = _one_of(*STRATEGIES, help="how a branch goes on after the changed word")
    stop_at: str = _one_of("turn", "sentence", help="an answer ends with the model's turn, or with its first sentence")
    max_tokens: int = _number(64, 1, 100_000, "longest answer, in tokens; a cut answer is marked")
    temperature: float = _number(1.0, 0.01, 100.0, "for multinomial and arithmetic decoding")
    top_p: float = _number(
        1.0, 0.0, 1.0, "for multinomial and arithmetic decoding: keep the likeliest tokens of this mass"
    )
    beams: int = _number(5, 1, 100, "for beam search")
    stop_strings: tuple[str, ...] = field(default=(), metadata={"help": "further texts that end an answer"})
    diversity_penalty: float = _number(
        0.5, 0.0, 100.0, "for diverse beam search: cost of a token that a group before chose"
    )

    def __post_init__(self) -> None:
        _Checked.__post_init__(self)
        object.__setattr__(self, "stop_strings", several(self.stop_strings))  # the way to complete a frozen record
        if not all(isinstance(text, str) and text for text in self.stop_strings):
            raise BadOption(f"stop_strings must be texts that are not empty, not {self.stop_strings!r}")

    @property
    def stop_rule(self) -> StopRule:
        """What ends an answer besides the model's own stops."""
        return StopRule(strings=tuple(self.stop_strings), sentence_end=self.stop_at == "sentence")

    def for_branches(self) -> Decoding:
        """The same options with the branches' strategy as the strategy."""
        return replace(self, strategy=self.branch_strategy)


@dataclass(frozen=True, slots=True)
class Scoring(_Checked):
    """How candidate substitutions are found, scored and ranked (method.md §3)."""

    min_probability: float = _number(0.001, 0.0, 1.0, "candidates are tokens likelier than this")
    positions: str = _one_of("word_starts", "all", help="which tokens may be replaced")
    merging: str = _one_of("none", "same_word", help="whether candidates that spell the same word count as one")
    banned: str = _one_of(
        "none", "format", help="what may be no candidate: nothing more, or the prompt's format: end of text, newline, Q"
    )
    gradient_side: str = _one_of("premise", "hypothesis", "both", help="whose NLI gradients count")
    attribution_unit: str = _one_of("word", "token", help="what an attribution score belongs to")
    similarity: str = _one_of("cosine", "dot", help="of the embedding change and the gradient")
    embeddings: str = _one_of("nli", "mapped", help="the NLI model's own, or the language model's mapped onto them")
    ranking: str = _one_of("dense_rank", "percentile", "raw", help="how the three scores are combined")
    attribution_weight: float = _number(1 / 3, 0.0, 1e6, "weight of the attribution score in the ranking")
    substitution_weight: float = _number(1 / 3, 0.0, 1e6, "weight of the substitution score in the ranking")
    importance_weight: float = _number(1 / 3, 0.0, 1e6, "weight of the importance score in the ranking")
    one_word: str = _one_of(
        "importance",
        "scores",
        help="what ranks a one-word answer's candidates: importance alone, or the three as weighted",
    )

    def __post_init__(self) -> None:
        _Checked.__post_init__(self)
        if not any(self.weights):
            raise BadOption("at least one of the three score weights must be above 0")

    @property
    def weights(self) -> tuple[float, float, float]:
        """Attribution, substitution, importance."""
        return (self.attribution_weight, self.substitution_weight, self.importance_weight)


@dataclass(frozen=True, slots=True)
class Clustering(_Checked):
    """When two answers mean the same, and how that makes clusters (method.md §5)."""

    equivalence: str = _one_of(
        "answers", "strict", "not_contradiction",
        help="they answer the question alike (fitted on judged answers), both directions entail, or none contradicts",
    )  # fmt: skip
    linkage: str = _one_of(
        "greedy_first", "components", "last_match", help="join the first match, all matches, or the last match"
    )


@dataclass(frozen=True, slots=True)
class Estimation(_Checked):
    """Which variant of semantic entropy is the headline and gives the clusters' probabilities (method.md §6)."""

    weighting: str = _one_of(
        "importance", "merged_importance", "branch_mass", "uniform",
        help="how much each sequence counts; merged_importance differs only with merging=same_word",
    )  # fmt: skip
    likelihood: str = _one_of("length_normalised", "total", help="a sequence's likelihood")
    logarithm: str = _one_of("unnormalised", "normalised", help="of the cluster's mass, or of its share")


@dataclass(frozen=True, slots=True)
class Options(_Checked):
    """Everything that shapes a result, but for the models."""

    samples: int = _number(10, 1, 1000, "sequences in all, the initial answer included")
    seed: int = _number(0, 0, 2**63 - 1, "same seed, same result")
    prompt: str = _one_of(
        "auto", "chat", "plain", "raw",
        help="chat template, 'Q: … A:', or the question as it is; auto: chat if there is a template",
    )  # fmt: skip
    draws: int = _number(
        5, 0, 1000, "further answers, drawn at temperature 1, that only weigh meanings; 0: none, and no percentages"
    )
    decoding: Decoding = field(default_factory=Decoding)
    scoring: Scoring = field(default_factory=Scoring)
    clustering: Clustering = field(default_factory=Clustering)
    estimation: Estimation = field(default_factory=Estimation)

    def updated(self, **changes: object) -> Options:
        """These options with some changed, wherever in the groups they live."""
        groups: dict[str, dict[str, object]] = {}
        own: dict[str, Any] = {}
        for name, value in changes.items():
            group = pick("option", option_groups(), name)
            (groups.setdefault(group, {}) if group else own)[name] = value
        for group, values in groups.items():
            own[group] = replace(getattr(self, group), **values)
        return replace(self, **own)


GROUPS: Mapping[str, type] = {
    "decoding": Decoding,
    "scoring": Scoring,
    "clustering": Clustering,
    "estimation": Estimation,
}


def option_groups() -> dict[str, str]:
    """Option name → the group that holds it ("" for `Options` itself)."""
    names = {option.name: "" for option in fields(Options) if option.name not in GROUPS}
    for group, kind in GROUPS.items():
        names.update({option.name: group for option in fields(kind)})
    return names


def flat_options(options: Mapping[str, Any]) -> dict[str, object]:
    """Options by name as JSON has them, from `asdict(options)` or from a stored result: taken out of their groups."""
    flat: dict[str, object] = {}
    for name, value in options.items():
        flat.update(value if isinstance(value, dict) else {name: value})
    return {name: list(value) if isinstance(value, tuple) else value for name, value in flat.items()}


def flag_of(name: str) -> str:
    """An option as the command line spells it."""
    return f"--{name.replace('_', '-')}"


def told_differences(made: Mapping[str, object], here: Mapping[str, object]) -> str:
    """What was otherwise than it is here, as flags: "--samples 5, not 10, and --seed 1, not 0"; empty: nothing."""
    flags = [
        f"{flag_of(name)} {_shown(made.get(name))}, not {_shown(value)}"
        for name, value in here.items()
        if made.get(name) != value
    ]
    more = [f"{len(flags) - _TOLD} more"] if len(flags) > _TOLD else []
    return ", and ".join([*flags[:_TOLD], *more])


def _shown(value: object) -> str:
    return (",".join(map(str, value)) or "none") if isinstance(value, list) else str(value)


def tupled(named: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name with the lists of JSON, or of a command line, as the tuples that records hold."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in named.items()}


PRESETS: Mapping[str, Options] = {
    "default": Options(),
    "paper": Options(
        prompt="plain",
        draws=0,
        decoding=Decoding(strategy="beam", branch_strategy="beam", stop_at="sentence"),
        scoring=Scoring(banned="format"),
        clustering=Clustering(equivalence="not_contradiction", linkage="last_match"),
    ),
}


def options_from(preset: str, changes: Mapping[str, object]) -> Options:
    """A preset with changes: the one way in which callers make options."""
    return pick("preset", PRESETS, preset).updated(**changes)
