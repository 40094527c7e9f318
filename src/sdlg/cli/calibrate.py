"""`sdlg calibrate`: how likely an answer is to be wrong, learned from a run."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadOption
from ..evaluation.calibrating import Choice, JudgedAnswer, calibrate_checks, calibrate_run
from .files import read_text

if TYPE_CHECKING:
    from ..calibration import Calibration

_EXAMPLES = """examples:
  sdlg calibrate runs/x -o risk.json                                   # the percentage that stands first → risk
  sdlg calibrate runs/x -o risk.json --error-rate 0.1 --confidence 0.95   # which answers to keep: a promise
  sdlg calibrate runs/x -o risk.json --plot risk.svg                      # the reliability plot
  sdlg calibrate runs/x -o risk.json --method multinomial --measure SE_MS --metric exact_match --threshold 1
  sdlg ask "Who wrote Hamlet?" --calibration risk.json                 # "about 7 in 10 such answers are wrong"

Sentences of long answers, by people's verdicts: {"question": "…", "answer": "…", "segments": [{"text": "…", "right":
true}]} on each line of judged.jsonl, then
  sdlg check judged.jsonl --measures share_beyond_answer --out checks.jsonl
  sdlg calibrate checks.jsonl --judged judged.jsonl -o risk.json

A risk of 0.7: of this model's answers to such questions with this value of the measure, about 7 in 10 were wrong, as
the metric has it. All scores are out of fold: each answer was judged by a map that was fitted without it.
"""


def add_calibrate(commands: Any) -> None:
    """Add the command and its flags."""
    calibrate = commands.add_parser(
        "calibrate", help="learn from a run how likely an answer is to be wrong",
        description="Fit and cross-validate a map from a measure to the probability that the answer is wrong.",
        epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    calibrate.set_defaults(run=_calibrate)
    calibrate.add_argument("run_or_checks", metavar="RUN", help="folder of a run (sdlg eval), or a file of sdlg check")
    calibrate.add_argument("--judged", metavar="FILE", help="for a file of sdlg check: people's verdicts, as JSONL")
    calibrate.add_argument("-o", "--out", metavar="FILE", required=True, help="the calibration, for sdlg ask")
    calibrate.add_argument("--plot", metavar="FILE", help="draw the reliability plot: .svg, .png or .pdf")
    for option in fields(Choice):
        text = option.metadata["help"] + ("" if option.default is None else f" (default: {option.default})")
        sort = {"int": int, "float": float}.get(str(option.type).removesuffix(" | None"), str)
        calibrate.add_argument(
            f"--{option.name.replace('_', '-')}",
            type=sort,
            default=option.default,
            metavar=option.metadata["metavar"],
            help=text,
        )
    calibrate.add_argument("--debug", action="store_true", help="show tracebacks")


def _calibrate(parsed: argparse.Namespace) -> int:
    choice = Choice(**{option.name: getattr(parsed, option.name) for option in fields(Choice)})
    draw = _drawer(Path(parsed.plot)) if parsed.plot else None  # a wrong name is an error before the work
    calibration = _of_checks(parsed, choice) if parsed.judged else _of_run(Path(parsed.run_or_checks), choice)
    calibration.save(parsed.out)
    if draw is not None:
        draw(calibration)
    print("\n".join(summary(calibration)))
    print(f"written: {', '.join(filter(None, (parsed.out, parsed.plot)))}")
    return 0


def _of_run(folder: Path, choice: Choice) -> Calibration:
    from ..evaluation.results import load_run

    if folder.is_file():
        raise BadOption(f"{folder} is a file: give a run's folder, or --judged FILE with a file of sdlg check")
    return calibrate_run(load_run(folder), choice)


def _of_checks(parsed: argparse.Namespace, choice: Choice) -> Calibration:
    from ..result import Result
    from .question_files import stored_rows

    checks, judged = Path(parsed.run_or_checks), Path(parsed.judged)
    for name in ("method", "samples", "metric"):
        if getattr(choice, name) is not None:
            raise BadOption(
                f"--{name} is for runs: with --judged people said what is right, and sdlg check measured it"
            )
    rows = read_judged(judged)
    if not checks.is_file():
        raise BadOption(f"{checks} is no file of sdlg check: make it with sdlg check {judged} --out {checks}")
    stored = (row for _, row in stored_rows(checks, checks.read_bytes()))
    return calibrate_checks([row for row in stored if isinstance(row, Result)], rows, judged.stem, choice)


def read_judged(file: Path) -> list[JudgedAnswer]:
    """Read answers whose parts people judged, one on each line."""
    from ..schema import parse_json, read_record

    lines = ((f"{file}, line {number}", line) for number, line in enumerate(read_text(file).split("\n"), start=1))
    return [read_record(JudgedAnswer, parse_json(line, where), where) for where, line in lines if line.strip()]


def _drawer(path: Path) -> Any:
    from ..evaluation.reliability_plot import plot_format, reliability_bytes
    from ..files import write_whole

    file_format = plot_format(path)

    def draw(made: Calibration) -> None:
        origin = made.origin
        title = f"{origin.measure}\n{origin.method}, {origin.model} on {origin.data.name}"
        write_whole(path, reliability_bytes(made.out_of_fold.bins, title, file_format))

    return draw


def summary(made: Calibration) -> list[str]:
    """Return what was found, for people."""
    from ..calibration import PEOPLE

    origin, scores = made.origin, made.out_of_fold
    skill, auroc = scores.skill, scores.auroc
    what, by = "answers", f"{origin.metric} below {origin.threshold:g}"
    if origin.metric == PEOPLE:
        what, by = "judged parts of answers", "as people judged"
    return [
        f"{origin.measure} of {origin.method}, {origin.samples} samples, {origin.model} on {origin.data.name}",
        f"  {made.n} {what}, {made.n_wrong / made.n:.0%} wrong ({by}); "
        f"AUROC {auroc.value:.3f} ({auroc.low:.3f} to {auroc.high:.3f})",
        f"  out of fold ({scores.folds} folds): Brier score {scores.brier:.3f}, of the base rate "
        f"{scores.brier_of_base_rate:.3f}: skill {skill.value:.0%} ({skill.low:.0%} to {skill.high:.0%})",
        f"  calibration error (ECE) {scores.ece:.3f} in {len(scores.bins)} bins; "
        f"{scores.ece_if_perfect:.3f} by chance alone",
        "       risk   were wrong",
        *(f"  {b.risk:9.0%}   {b.wrong:3} of {b.n:3} ({b.share_low:.0%} to {b.share_high:.0%})" for b in scores.bins),
        f"  {_keep_line(made)}",
        *(f"  note: {note}" for note in made.notes),
    ]


def _keep_line(made: Calibration) -> str:
    from ..calibration import exact_percent

    keep = made.keep
    if keep.threshold is None:
        return keep.reason
    side, value = ("≤", keep.threshold) if made.origin.higher_is_less_certain else ("≥", -keep.threshold)
    return (
        f"keep {made.origin.unit}s {side} {value:.4g}: at most {exact_percent(keep.wanted)} of them are "
        f"wrong, with {exact_percent(keep.confidence)} confidence; that keeps {keep.coverage:.0%} of all "
        f"({keep.wrong} of {keep.kept} wrong here). It holds for this model, these options and further questions like "
        "these; it breaks where questions share a text, or where measure or options were chosen by these very answers"
    )
