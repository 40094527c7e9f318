"""From run folders to a report: every section in the page's order.

In: folders. Out: a `Report`. A folder that is no run is an error that names it; a run without results yet is said to be
one, and takes part in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ...errors import RunError
from ...options import pick
from ..results import RunResults, load_run
from .charts import DotChart, LineChart
from .elements import Block, Paragraph, Report, Section
from .sections.ablation import ablation
from .sections.against_cost import against_cost
from .sections.comprehensive import comprehensive
from .sections.cost import cost
from .sections.examples import examples
from .sections.growth import efficiency, tree
from .sections.halves import halves
from .sections.heat import heat_maps
from .sections.main_table import main_table
from .sections.overview import overview
from .sections.rejection import rejection
from .sections.search import search
from .tiles import tiles_of
from .views import RunView, views_of

_SECTIONS: tuple[Callable[[Sequence[RunView]], Section], ...] = (
    against_cost,
    main_table,
    tree,
    efficiency,
    cost,
    heat_maps,
    rejection,
    comprehensive,
    search,
    ablation,
    halves,
    examples,
)


SECTION_NAMES = tuple(section.__name__ for section in _SECTIONS)


def read_report(folders: Sequence[Path], leave_out: Sequence[str] = ()) -> Report:
    """Load the runs and make their report, without the sections of these names (`SECTION_NAMES`)."""
    return make_report([_load(folder) for folder in folders], leave_out)


def _load(folder: Path) -> RunResults:
    """A run whose description says what every report needs."""
    run = load_run(folder)
    try:
        run.data, run.model, run.nli, run.preset, run.methods, run.samples  # noqa: B018 (they read the description)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{folder / 'run.json'} is not a whole description of a run: {error!r} is missing") from error
    return run


def make_report(runs: Sequence[RunResults], leave_out: Sequence[str] = ()) -> Report:
    """The report of runs that are loaded."""
    for name in leave_out:
        pick("section", dict.fromkeys(SECTION_NAMES), name)
    views = views_of(runs)
    ready = [view for view in views if view.size]
    makers = [section for section in _SECTIONS if section.__name__ not in leave_out]
    sections = [overview(views), *(_drawable(section(ready)) for section in makers if ready)]
    tiles = tuple((view.label, tiles_of(view)) for view in ready)
    questions = sum(view.size for view in ready)
    subtitle = f"{len(views)} run{'s' * (len(views) != 1)}, {questions:,} questions"
    return Report("How sure is a language model of what it means?", subtitle, tuple(sections), tiles)


def _drawable(section: Section) -> Section:
    """Without charts that would be empty: words say so in their place."""
    return replace(section, blocks=tuple(_drawable_block(block) for block in section.blocks))


def _drawable_block(block: Block) -> Block:
    if isinstance(block, LineChart | DotChart) and not (block.lines if isinstance(block, LineChart) else block.labels):
        return Paragraph(f"{block.title}: the run has none of these methods.")
    return block
