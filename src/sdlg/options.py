"""Every option, its default, its range and its help, once.

`Options` shapes results; `Loading` says where and how models run. The same names are keyword arguments in Python,
`--set name=value` on the command line, the `options` of a server's request, and the options in a run's file.

`PRESETS["paper"]` is the published procedure with the choices of the authors' public code; `PRESETS["default"]`
is what we recommend. docs/results/presets.md lists every difference and its basis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, Literal, TypedDict, TypeVar, get_args

from .errors import BadOption, UnknownName
from .records import StopRule

T = TypeVar("T")
_NAMED_DIFFERENCES = 4  # how many differences an error names; the rest is counted

Strategy = Literal["greedy", "multinomial", "arithmetic", "beam", "diverse_beam"]
StopAt = Literal["turn", "sentence"]
PromptStyle = Literal["auto", "chat", "plain", "raw"]
Positions = Literal["word_starts", "all"]
Banned = Literal["none", "format"]
Equivalence = Literal["answers", "strict", "not_contradiction"]
Linkage = Literal["greedy_first", "components"]
Declining = Literal["meaning", "left_out"]
Unit = Literal["auto", "answer", "sentences"]
EngineName = Literal["auto", "transformers", "llama.cpp"]
Method = Literal["sdlg", "multinomial", "arithmetic", "beam", "diverse_beam"]

QWEN_CODER, SMOLLM2, GEMMA3 = "qwen2.5-coder-1.5b", "smollm2", "gemma3-270m"  # language models fetched by name
CATALOGUE_MODELS = (QWEN_CODER, SMOLLM2, GEMMA3)
NLI_MINILM, MINILM = "nli-minilm", "minilm"  # the judge of meaning that comes with the package, and its base
PACKAGED, NONE = "packaged", "none"  # instead of a calibration's file: one that comes with the package, or none at all
DEFAULT_MODEL, DEFAULT_NLI, DEFAULT_SIMILARITY = QWEN_CODER, NLI_MINILM, MINILM
METHODS: tuple[str, ...] = get_args(Method)  # as `sdlg.sampling.SAMPLERS` has them; the first is the default
DEFAULT_METHOD = METHODS[0]
STRATEGIES: tuple[str, ...] = get_args(Strategy)
BEAMS = ("beam", "diverse_beam")


def pick(kind: str, table: Mapping[str, T], name: str) -> T:
    """Look a name up in a table, or list the choices."""
    if name not in table:
        close = get_close_matches(str(name), table, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UnknownName(f"unknown {kind} {name!r}; {hint}choose from: {', '.join(sorted(table))}")
    return table[name]


def several(value: object) -> tuple[Any, ...]:
    """Return a tuple of what is meant: a single text counts as one value, not as its letters."""
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping) else (value,)


def _one_of(choices: Any, help: str) -> Any:
    names = get_args(choices)
    return field(default=names[0], metadata={"help": help, "choices": names})


def _number(default: Any, low: float, high: float, help: str) -> Any:
    return field(default=default, metadata={"help": help, "low": low, "high": high})


def _text(default: str | None, help: str) -> Any:
    return field(default=default, metadata={"help": help, "text": True})


def _texts(help: str) -> Any:
    return field(default=(), metadata={"help": help, "texts": True})


class _Checked:
    """Checks every field against its declared choices and range when the options are made."""

    def __post_init__(self) -> None:
        for option in fields(self):  # type: ignore[arg-type]
            _check(self, option)


def _check(options: object, option: Field[Any]) -> None:
    value, limits = getattr(options, option.name), option.metadata
    if "choices" in limits and value not in limits["choices"]:
        pick(option.name, dict.fromkeys(limits["choices"]), value)
    if "low" in limits and not _within(value, type(option.default), limits["low"], limits["high"]):
        kind = "a whole number" if isinstance(option.default, int) else "a number"
        raise BadOption(f"{option.name} must be {kind} from {limits['low']} to {limits['high']}, not {value!r}")
    if "text" in limits and not isinstance(value, str | type(option.default)):
        raise BadOption(f"{option.name} must be a text, not {value!r}")
    if "texts" in limits:
        object.__setattr__(options, option.name, several(value))  # the way to complete a frozen record
        if not all(isinstance(text, str) and text for text in getattr(options, option.name)):
            raise BadOption(f"{option.name} must be texts that are not empty, not {value!r}")


def _within(value: object, kind: type, low: float, high: float) -> bool:
    allowed = (int,) if kind is int else (int, float)
    return isinstance(value, allowed) and not isinstance(value, bool) and low <= value <= high  # NaN is not within


@dataclass(frozen=True, kw_only=True)
class Decoding(_Checked):
    """How tokens are chosen, for the initial answer and for the branches."""

    strategy: Strategy = _one_of(Strategy, "how the initial answer is decoded")
    branch_strategy: Strategy = _one_of(Strategy, "how a branch goes on after the changed word")
    stop_at: StopAt = _one_of(StopAt, "an answer ends with the model's turn, or with its first sentence")
    max_tokens: int = _number(64, 1, 100_000, "longest answer, in tokens; a cut answer is marked")
    temperature: float = _number(1.0, 0.01, 100.0, "for multinomial and arithmetic decoding")
    top_p: float = _number(
        1.0, 0.0, 1.0, "for multinomial and arithmetic decoding: keep the likeliest tokens of this mass"
    )
    beams: int = _number(5, 1, 100, "for beam search")
    diversity_penalty: float = _number(
        0.5, 0.0, 100.0, "for diverse beam search: cost of a token that another group chose before"
    )
    stop_strings: tuple[str, ...] = _texts("further texts that end an answer")

    @property
    def stop_rule(self) -> StopRule:
        """What ends an answer besides the model's own stops."""
        return StopRule(strings=self.stop_strings, sentence_end=self.stop_at == "sentence")

    def for_branches(self) -> Decoding:
        """Return the same options with the branches' strategy as the strategy."""
        return replace(self, strategy=self.branch_strategy)


@dataclass(frozen=True, kw_only=True)
class Scoring(_Checked):
    """How candidate substitutions are found, scored and ranked (Algorithm 2)."""

    min_probability: float = _number(0.001, 0.0, 1.0, "candidates are tokens likelier than this")
    positions: Positions = _one_of(Positions, "which tokens may be replaced; all: for scripts without spaces")
    banned: Banned = _one_of(
        Banned, "what may be no candidate: nothing more, or the prompt's format: end of text, newline, Q"
    )
    attribution_weight: float = _number(1 / 3, 0.0, 1e6, "weight of the attribution score in the ranking")
    substitution_weight: float = _number(1 / 3, 0.0, 1e6, "weight of the substitution score in the ranking")
    importance_weight: float = _number(1 / 3, 0.0, 1e6, "weight of the importance score in the ranking")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not any(self.weights):
            raise BadOption("at least one of the three score weights must be above 0")

    @property
    def weights(self) -> tuple[float, float, float]:
        """Attribution, substitution, importance."""
        return (self.attribution_weight, self.substitution_weight, self.importance_weight)


@dataclass(frozen=True, kw_only=True)
class Clustering(_Checked):
    """When two answers mean the same, and how that makes clusters."""

    equivalence: Equivalence = _one_of(
        Equivalence, "they answer the question alike (fitted on judged answers), both entail, or none contradicts"
    )
    linkage: Linkage = _one_of(Linkage, "join the first cluster that matches, or all clusters that match")
    declining: Declining = _one_of(
        Declining, "in the estimates, answers that decline to answer are a meaning like others, or are left out"
    )


@dataclass(frozen=True, kw_only=True)
class Options(Clustering, Scoring, Decoding):
    """Everything that shapes a result, but for the models."""

    samples: int = _number(10, 1, 1000, "sequences in all, the initial answer included")
    unexplored: float = _number(
        0.01, 0.0, 1.0, "branch no further when less probability than this is unexplored; 0: always all samples"
    )
    seed: int = _number(0, 0, 2**63 - 1, "same seed, same result")
    prompt: PromptStyle = _one_of(
        PromptStyle, "chat template, 'Q: … A:', or the question as it is; auto: chat if there is a template"
    )
    draws: int = _number(
        5, 0, 1000, "further answers, drawn at temperature 1, that only weigh meanings; 0: none, and no percentages"
    )

    unit: Unit = _one_of(
        Unit, "what is measured: the answer as a whole or each of its sentences; auto: sentences, if it has several"
    )
    sentence_samples: int = _number(4, 1, 1000, "sequences for each sentence of a long answer, its own included")
    most_sentences: int = _number(40, 1, 1000, "of a long answer: how many are measured, from its beginning")

    @property
    def decoding(self) -> Decoding:
        """Only what concerns decoding."""
        return _part(self, Decoding)

    @property
    def scoring(self) -> Scoring:
        """Only what concerns candidates."""
        return _part(self, Scoring)

    @property
    def clustering(self) -> Clustering:
        """Only what concerns clusters."""
        return _part(self, Clustering)

    def updated(self, **changes: Any) -> Options:
        """Return these options with some changed."""
        for name in changes:
            pick("option", OPTIONS, name)
        tuples: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in changes.items()}
        return replace(self, **tuples)

    def to_dict(self) -> dict[str, Any]:
        """Return all options by name, as JSON has them."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def _part(options: Options, kind: type[T]) -> T:
    return kind(**{part.name: getattr(options, part.name) for part in fields(kind)})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading(_Checked):
    """Where and how models run."""

    engine: EngineName = _one_of(EngineName, "what runs a model here; auto: llama.cpp for a .gguf file")
    device: str | None = _text(None, "cpu, cuda, cuda:1, mps (default: the best there is)")
    dtype: str | None = _text(None, "float32, bfloat16, … (default: float32 on a CPU, else the model's own)")
    threads: int = _number(0, 0, 1024, "on the CPU; 0: as many as there are cores")
    context_tokens: int = _number(
        0, 0, 10_000_000, "for llama.cpp: longest prompt with its answer; 0: as trained, at most 4096"
    )
    batch_rows: int = _number(
        0,
        0,
        64,
        "branches in one call of llama.cpp; 0: three, which keeps one probability for a sequence. 32 is faster",
    )
    tokenizer: str | None = _text(None, "for a server that does not name its own: hub name or folder")
    retry_seconds: float = _number(120.0, 0.0, 1e6, "how long to wait for a silent or failing model server")
    in_flight: int = _number(0, 0, 10_000, "questions at once; 0: one, or what fills a model server")
    gradients: str = _text(DEFAULT_NLI, "NLI model for the gradients where a language model judges meaning")
    similarity_model: str = _text(DEFAULT_SIMILARITY, "sentence encoder or cross-encoder, for measures like SAR")
    other_models: tuple[str, ...] = _texts("further language models, for aleatoric and epistemic parts")


OPTIONS: Mapping[str, Field[Any]] = {option.name: option for option in fields(Options)}
LOADING: Mapping[str, Field[Any]] = {option.name: option for option in fields(Loading)}


class OptionNames(TypedDict, total=False):
    """`Options` as keyword arguments."""

    samples: int
    unexplored: float
    declining: Declining
    unit: Unit
    sentence_samples: int
    most_sentences: int
    seed: int
    prompt: PromptStyle
    draws: int
    strategy: Strategy
    branch_strategy: Strategy
    stop_at: StopAt
    max_tokens: int
    temperature: float
    top_p: float
    beams: int
    diversity_penalty: float
    stop_strings: tuple[str, ...] | list[str]
    min_probability: float
    positions: Positions
    banned: Banned
    attribution_weight: float
    substitution_weight: float
    importance_weight: float
    equivalence: Equivalence
    linkage: Linkage


class LoadingNames(TypedDict, total=False):
    """`Loading` as keyword arguments."""

    engine: EngineName
    device: str | None
    dtype: str | None
    threads: int
    context_tokens: int
    batch_rows: int
    tokenizer: str | None
    retry_seconds: float
    in_flight: int
    gradients: str
    similarity_model: str
    other_models: tuple[str, ...] | list[str]


class Keywords(OptionNames, LoadingNames, total=False):
    """Everything that `Pipeline` takes by name from `Options` and `Loading`."""


PRESETS: Mapping[str, Options] = {
    "default": Options(),
    "paper": Options(
        prompt="plain",
        unexplored=0.0,
        unit="answer",
        draws=0,
        strategy="beam",
        branch_strategy="beam",
        stop_at="sentence",
        banned="format",
        equivalence="not_contradiction",
    ),
}


def options_from(preset: str, changes: Mapping[str, Any]) -> Options:
    """Return a preset with changes."""
    return pick("preset", PRESETS, preset).updated(**changes)


def split_keywords(named: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (options, loading); a name that is neither is an error that lists the choices."""
    for name in named:
        pick("option", {**OPTIONS, **LOADING}, name)
    return (
        {name: value for name, value in named.items() if name in OPTIONS},
        {name: value for name, value in named.items() if name in LOADING},
    )


def read_setting(text: str) -> tuple[str, Any]:
    """Read `name=value`, as `--set` takes it; lists have commas between their values."""
    name, equals, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals:
        raise BadOption(f"{text!r} is no setting; write name=value, for example --set temperature=0.5")
    option = pick("option", {**OPTIONS, **LOADING}, name)
    if isinstance(option.default, tuple):
        return name, tuple(part for part in value.split(",") if part)
    kind: Any = str if option.default is None else type(option.default)
    try:
        return name, kind(value)
    except ValueError:
        number = "a whole number" if kind is int else "a number"
        raise BadOption(f"{name} must be {number}, not {value!r}") from None


def differences(made: Mapping[str, object], here: Mapping[str, object]) -> str:
    """Return what was otherwise than it is here, as in "samples=5, not 10, and seed=1, not 0"; empty: nothing."""
    found = [
        f"{name}={_shown(made.get(name))}, not {_shown(value)}"
        for name, value in here.items()
        if made.get(name) != value
    ]
    more = [f"{len(found) - _NAMED_DIFFERENCES} more"] if len(found) > _NAMED_DIFFERENCES else []
    return ", and ".join([*found[:_NAMED_DIFFERENCES], *more])


def _shown(value: object) -> str:
    return (",".join(map(str, value)) or "none") if isinstance(value, list | tuple) else str(value)
