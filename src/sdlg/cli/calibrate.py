"""`sdlg calibrate`: how likely an answer is to be wrong, learned from a run."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..evaluation.choice import Choice
from ..options import flag_of

if TYPE_CHECKING:
    from ..risk import RejectionRule, Risk

_EXAMPLES = """examples:
  sdlg calibrate runs/x -o risk.json                                   # semantic entropy of SDLG → risk
  sdlg calibrate runs/x -o risk.json --error-rate 0.1 --plot risk.svg  # which answers to keep; the reliability plot
  sdlg calibrate runs/x -o risk.json --method multinomial --measure SE_MS --metric exact_match --threshold 1
  sdlg calibrate runs/x -o risk.json --measures perplexity,NumSets     # a risk learned from both; auto chooses
  sdlg ask "Who wrote Hamlet?" --calibration risk.json                 # "about 7 in 10 such answers are wrong"

A risk of 0.7: of this model's answers to such questions with this value of the measure, about 7 in 10 were wrong, as
the metric has it. All scores are out of fold: each answer was judged by a map that was fitted without it.
"""


def add_calibrate(commands: Any) -> None:
    """The command and its flags."""
    calibrate = commands.add_parser(
        "calibrate", help="learn from a run how likely an answer is to be wrong",
        description="Fit and cross-validate a map from measures to the probability that the answer is wrong.",
        epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    calibrate.set_defaults(run=_calibrate)
    calibrate.add_argument("folder", metavar="RUN", help="the folder of a run (sdlg eval --out)")
    calibrate.add_argument("-o", "--out", metavar="FILE", required=True, help="the calibration, for sdlg ask")
    calibrate.add_argument("--plot", metavar="FILE", help="draw the reliability plot: .svg, .png or .pdf")
    for option in fields(Choice):
        text = option.metadata["help"] + ("" if option.default is None else f" (default: {option.default})")
        sort = {"int": int, "float": float}.get(str(option.type).removesuffix(" | None"), str)
        flag = flag_of(option.name)
        calibrate.add_argument(
            flag, type=sort, default=option.default, metavar=option.metadata["metavar"], help=text.replace("%", "%%")
        )
    calibrate.add_argument("--debug", action="store_true", help="show tracebacks")


def _calibrate(parsed: argparse.Namespace) -> int:
    choice = Choice(**{option.name: getattr(parsed, option.name) for option in fields(Choice)})
    draw = _drawer(parsed.plot)  # a wrong name is told before the work
    from ..evaluation.results import load_run
    from ..evaluation.run_calibration import calibrate_run

    calibrated_run = calibrate_run(load_run(Path(parsed.folder)), choice)
    calibrated_run.risk.save(parsed.out)
    if draw is not None:
        origin = calibrated_run.risk.origin
        title = f"{origin.measure}\n{origin.method}, {origin.model} on {origin.data['name']}"
        draw(calibrated_run.calibration.reliability.bins, title)
    print("\n".join(summary(calibrated_run.risk)))
    print(f"written: {', '.join(filter(None, (parsed.out, parsed.plot)))}")
    return 0


def _drawer(path: str | None) -> Any:
    if path is None:
        return None
    from ..evaluation.calibration_figure import plot_format, reliability_bytes
    from ..formats.files import write_whole

    file_format = plot_format(Path(path))
    return lambda bins, title: write_whole(Path(path), reliability_bytes(bins, title, file_format))


def summary(risk: Risk) -> list[str]:
    """What was found, for people."""
    origin, scores = risk.origin, risk.out_of_fold
    skill, auroc = scores["skill"], scores["auroc"]
    lines = [
        f"{origin.measure} of {origin.method}, {origin.samples} samples, {origin.model} on {origin.data['name']}",
        f"  {risk.n} answers, {risk.base_rate:.0%} wrong ({origin.metric} below {origin.threshold:g}); "
        f"AUROC {auroc['value']:.3f} ({auroc['low']:.3f} to {auroc['high']:.3f})",
        f"  out of fold ({scores['folds']} folds): Brier score {scores['brier']:.3f}, of the base rate "
        f"{scores['brier_of_base_rate']:.3f}: skill {skill['value']:.0%} ({skill['low']:.0%} to {skill['high']:.0%})",
        f"  calibration error (ECE) {scores['ece']:.3f} in {len(scores['bins'])} bins; "
        f"{scores['ece_if_perfect']:.3f} by chance alone",
        *_risk_lines(risk),
        f"  {_keep_line(risk.keep, origin.higher_is_less_certain)}",
    ]
    return [*lines, *(f"  note: {note}" for note in risk.notes)]


def _risk_lines(risk: Risk) -> list[str]:
    """The reliability curve as a small table."""
    head = "  told risk   were wrong"
    rows = [
        f"  {one['risk']:9.0%}   {one['wrong']:3} of {one['n']:3} ({one['share_low']:.0%} to {one['share_high']:.0%})"
        for one in risk.out_of_fold["bins"]
    ]
    return [head, *rows]


def _keep_line(keep: RejectionRule, higher_is_less_certain: bool) -> str:
    if keep.threshold is None:
        return keep.reason
    side = "≤" if higher_is_less_certain else "≥"
    rule = f"keep answers {side} {keep.threshold:.4g} for an error rate of {keep.wanted:.0%}"
    return (
        f"{rule}: out of fold {keep.coverage:.0%} of the answers were kept, "
        f"{keep.error_rate:.0%} of them wrong ({keep.low:.0%} to {keep.high:.0%})"
    )
