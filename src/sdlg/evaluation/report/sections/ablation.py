"""The three scores of SDLG, one by one: AUROC against the threshold for each set of weights that was run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from ....options import Decoding, Scoring
from ...results import PAPER_COLUMNS
from ...statistics import RESAMPLES
from ..charts import LineChart, line_of
from ..columns import SDLG, WEIGHTS, Column, is_measured, settings_of
from ..elements import Block, Paragraph, Section
from ..tables import Number, Table, TableRow
from ..views import RunView, Target, metric_name

_INTRO = (
    "SDLG ranks substitutions by three scores: attribution, substitution and importance. Each line leaves some of "
    "them out (weight 0), or weighs them otherwise. Answers of one word are ranked by importance alone, whatever the "
    "weights, unless a run has one_word=scores."
)
_WITHOUT = (
    "This report was built without a run of SDLG with other weights, so it has no ablation. To see what each score is "
    "good for, add methods like sdlg:attribution_weight=0 to --methods."
)
_EQUAL = 1 / 3
_OTHERS = {option.name for group in (Scoring, Decoding) for option in fields(group)} - set(WEIGHTS)
_LOOKS = (("blue", "solid"), ("vermillion", "dashed"), ("green", "dashed"), ("purple", "dotted"), ("orange", "dotted"),
          ("grey", "dashed"))  # fmt: skip
Weights = tuple[float, ...]
Others = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Variant:
    """SDLG with these weights, in this run."""

    view: RunView
    method: str
    measure: str
    weights: Weights
    others: Others  # how else candidates are scored and branches decoded

    @property
    def label(self) -> str:
        return weights_name(self.weights)


def ablation(views: Sequence[RunView]) -> Section:
    """A chart and a table for each data set, model and way of scoring and decoding that has two sets of weights."""
    groups = [group for group in _groups(views) if len({variant.weights for variant in group}) > 1]
    usual: dict[tuple[str, str], Others] = {}
    blocks: list[Block] = []
    for group in groups:
        view, others = group[0].view, group[0].others
        first = usual.setdefault((view.run.data, view.run.model), others)
        name = " · ".join([view.run.data, view.run.model, *_differences(first, others)])
        blocks += [_chart(name, group), _table(name, group)]
    if not groups:
        blocks = [Paragraph(_WITHOUT)]
    return Section("ablation", "The three scores, one by one", _INTRO, tuple(blocks))


def weights_name(weights: Weights) -> str:
    """Which scores count, and how much where they do not count alike."""
    names = [name.removesuffix("_weight") for name in WEIGHTS]
    used = [(name, weight) for name, weight in zip(names, weights, strict=True) if weight]
    if len({weight for _, weight in used}) == 1:
        return "all three" if len(used) == 3 else " + ".join(name for name, _ in used)
    return ", ".join(f"{name} {weight:g}" for name, weight in used)


def weights_of(view: RunView, method: str) -> Weights:
    """The method's own, or the run's; the smallest that are left count as 1, so that scale does not matter."""
    options = _options_of(view, method)
    weights = [float(options.get(name, _EQUAL)) for name in WEIGHTS]
    unit = min((weight for weight in weights if weight > 0), default=1.0)
    return tuple(round(weight / unit, 4) for weight in weights)


def _options_of(view: RunView, method: str) -> dict[str, str]:
    options: Mapping[str, object] = {**(view.plan.get("options") or {}), **settings_of(method)}
    return {name: str(value) for name, value in options.items()}


def _differences(usual: Others, others: Others) -> list[str]:
    return [f"{name}={others[name]}" for name in others if others[name] != usual.get(name)]


def _groups(views: Sequence[RunView]) -> list[list[_Variant]]:
    """Runs of the same data and model are compared with each other where nothing but weights differs."""
    groups: dict[object, list[_Variant]] = {}
    for view in views:
        for variant in _variants(view):
            groups.setdefault((view.run.data, view.run.model, frozenset(variant.others.items())), []).append(variant)
    return list(groups.values())


def _variants(view: RunView) -> Iterator[_Variant]:
    measure = PAPER_COLUMNS[SDLG][1]
    for method in view.run.methods_of("sdlg"):
        if is_measured(view, method, measure):
            others = {name: value for name, value in _options_of(view, method).items() if name in _OTHERS}
            yield _Variant(view, method, measure, weights_of(view, method), others)


def _labels(group: list[_Variant]) -> list[str]:
    """The weights; the run or the method, too, where they are not enough to tell two apart."""
    plain = [variant.label for variant in group]
    same_run = len({variant.view.label for variant in group}) == 1
    other = [variant.method if same_run else variant.view.label for variant in group]
    return [name if plain.count(name) == 1 else f"{name} ({more})" for name, more in zip(plain, other, strict=True)]


def _chart(name: str, group: list[_Variant]) -> LineChart:
    first = group[0].view
    thresholds = tuple(first.run.thresholds)
    lines = tuple(
        line_of(label, thresholds, _aurocs(variant, thresholds), *_LOOKS[place % len(_LOOKS)])
        for place, (label, variant) in enumerate(zip(_labels(group), group, strict=True))
    )
    return LineChart(
        f"ablation-{first.slug}",
        f"{name}: SDLG with some of its scores",
        f"AUROC of {SDLG} against the threshold for {len(lines)} sets of weights; the table has the numbers.",
        f"threshold of {metric_name(first.target.metric)}",
        "AUROC",
        lines,
        whole_x=False,
    )


def _aurocs(variant: _Variant, thresholds: tuple[float, ...]) -> tuple[Number, ...]:
    metric = variant.view.target.metric
    targets = (Target(metric, threshold) for threshold in thresholds)
    return tuple(variant.view.auroc(variant.method, variant.measure, target) for target in targets)


def _table(name: str, group: list[_Variant]) -> Table:
    rows = []
    for label, variant in zip(_labels(group), group, strict=True):
        column = Column(SDLG, variant.method, variant.measure)
        auroc = column.auroc(variant.view, variant.view.target, resamples=RESAMPLES)
        rows.append(TableRow((label, variant.view.label, variant.method, auroc)))
    view = group[0].view
    caption = f"{name}: AUROC of {SDLG} at {view.target} by the scores that count."
    return Table(f"ablation-{view.slug}-table", caption, ("scores", "run", "sampler", "AUROC"), tuple(rows))
