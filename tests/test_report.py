"""The report of runs: its numbers against direct computations, its page, its files, and runs that lack something."""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from sdlg.cli.report import add_report
from sdlg.errors import BadOption, SdlgError, UnknownName
from sdlg.evaluation.report import read_report, render_page, report_json, write_assets
from sdlg.evaluation.report.columns import is_ablation, paper_columns, settings_of
from sdlg.evaluation.report.compute import (
    Parameters,
    QuestionSamples,
    multinomial_flops,
    sar_flops,
    sdlg_flops,
    tokens_from_scratch,
    tokens_shared,
)
from sdlg.evaluation.report.figures import file_png, file_svg
from sdlg.evaluation.report.sections.ablation import weights_name
from sdlg.evaluation.report.sections.examples import pieces_of
from sdlg.evaluation.report.sections.growth import first_reaching
from sdlg.evaluation.report.serialising import table_csv
from sdlg.evaluation.report.tables import Number, Table, TableRow, undefined
from sdlg.evaluation.report.views import Target, views_of
from sdlg.evaluation.report.wording import interval, letter, percent, shown
from sdlg.evaluation.results import PAPER_COLUMNS, load_run, stored_name
from sdlg.records import Generation, Sample, Substitution
from synthetic_run import write_run

SCRIPT = "The town is <script>alert('x')</script> & Paris."
TUNED = ("sdlg", "sdlg:attribution_weight=0", "multinomial:temperature=0.25", "multinomial:temperature=0.5",
         "multinomial:temperature=1.0", "diverse_beam:diversity_penalty=0.2")  # fmt: skip
SECTIONS = ("what-was-run", "against-cost", "main-results", "samples", "efficiency", "compute", "heat-maps",
            "rejection", "comprehensive", "search", "ablation", "halves", "examples")  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("runs")
    texts = dict.fromkeys(range(80), SCRIPT)
    return [
        write_run(base / "truthful", questions=70, stock=True, texts=texts),
        write_run(base / "coqa", data="coqa", questions=60, seed=1, methods=TUNED),
    ]


@pytest.fixture(scope="module")
def report(folders):
    return read_report(folders)


@pytest.fixture(scope="module")
def page(report):
    return render_page(report)


@pytest.fixture(scope="module")
def views(folders):
    return views_of([load_run(folder) for folder in folders])


# -- direct computations ----------------------------------------------------------------------------------------


def rows_of(folder, stage):
    return {row["id"]: row for row in map(json.loads, (folder / f"{stage}.jsonl").read_text().splitlines())}


def everyone(_):
    return True


def brute_auroc(folder, method, measure, threshold=0.5, metric="rouge_l", n=10, scores="scores", keep=everyone):
    """Over all pairs of a wrong and a right answer."""
    measured, judged = rows_of(folder, "measure"), rows_of(folder, "judge")
    found = [
        (row["values"][method][stored_name(measure)][n - 1], judged[name][scores][metric] < threshold - 1e-9)
        for name, row in measured.items()
        if keep(name)
    ]
    wrong = [value for value, is_wrong in found if is_wrong and value is not None]
    right = [value for value, is_wrong in found if not is_wrong and value is not None]
    return sum((w > r) + (w == r) / 2 for w in wrong for r in right) / (len(wrong) * len(right))


def table(report, name):
    return next(table for table in report.tables if table.name == name)


def chart(report, name):
    return next(chart for chart in report.charts if chart.name == name)


def row(found, *start):
    return next(row.cells for row in found.rows if row.cells[: len(start)] == start)


def half_a(view):
    chosen = {name for name, first in zip(view.run.ids, view.first_half, strict=True) if first}
    return chosen.__contains__


# -- numbers ----------------------------------------------------------------------------------------------------


def test_the_main_table_is_the_auroc_over_all_pairs(report, folders):
    cells = row(table(report, "main"), "truthfulqa · smollm2")[1:]
    methods = {"sdlg": "sdlg", "multinomial": "multinomial:temperature=0.5",
               "diverse_beam": "diverse_beam:diversity_penalty=0.5"}  # fmt: skip
    for number, (family, measure) in zip(cells, PAPER_COLUMNS.values(), strict=True):
        assert number.value == pytest.approx(brute_auroc(folders[0], methods[family], measure))
        assert number.low <= number.value <= number.high


def test_stock_references_make_a_second_row(report, folders):
    label = "truthfulqa · smollm2, without stock references"
    number = row(table(report, "main"), label)[-1]
    direct = brute_auroc(folders[0], "sdlg", "SE*_SDLG", scores="scores_without_stock")
    assert number.value == pytest.approx(direct)
    labels = [r.cells[0] for r in table(report, "main").rows]
    assert not any("coqa" in label and "stock" in label for label in labels)


def test_differences_are_paired_and_signed(report):
    main = table(report, "main").rows
    for aurocs, differences in pairwise(main):
        if differences.is_minor:
            sdlg = aurocs.cells[-1].value
            for auroc, difference in zip(aurocs.cells[1:-1], differences.cells[1:-1], strict=True):
                if auroc.questions == aurocs.cells[-1].questions:
                    assert difference.value == pytest.approx(sdlg - auroc.value)
                assert difference.low <= difference.value <= difference.high


def test_only_the_highest_is_marked(report):
    for found in (table(report, "main"), table(report, "comprehensive-1-truthfulqa-smollm2")):
        for cells in (r.cells for r in found.rows if not r.is_minor):
            numbers = [cell for cell in cells if isinstance(cell, Number)]
            highest = max(number.value for number in numbers)
            assert {number.value for number in numbers if number.mark == "highest"} == {highest}


def test_a_measure_that_is_higher_for_certain_answers_is_turned(folders, views):
    auroc = views[0].auroc("sdlg", "coverage", Target("rouge_l", 0.5)).value
    assert auroc == pytest.approx(1 - brute_auroc(folders[0], "sdlg", "coverage"))
    assert auroc > 0.5


def test_questions_without_a_value_are_left_out_and_told(report):
    main = table(report, "main")
    assert row(main, "truthfulqa · smollm2")[3].questions == 65
    assert any("SAR rests on 65 of 67 questions (needs the relevance of each token)" in note for note in main.notes)
    cells = row(table(report, "undefined"), "truthfulqa · smollm2")
    assert cells[2:] == ("needs the relevance of each token", 2, "sar")


def test_the_comprehensive_table_has_three_metrics_and_three_thresholds(report, folders):
    found = table(report, "comprehensive-1-truthfulqa-smollm2")
    assert [r.cells[:2] for r in found.rows] == [
        (metric, f"≥\u00a0{threshold}")
        for metric in ("ROUGE-L", "ROUGE-1", "exact match")
        for threshold in ("0.3", "0.5", "1")
    ]
    direct = brute_auroc(folders[0], "multinomial:temperature=0.5", "SE_MS", 0.3, "rouge_1")
    assert row(found, "ROUGE-1", "≥\u00a00.3")[7].value == pytest.approx(direct)


def test_skipped_questions_and_right_answers_are_counted(report, folders):
    reasons = {r.cells[1]: r.cells[2] for r in table(report, "skipped").rows if r.cells[0].startswith("truth")}
    assert reasons == {"the answer is empty": 2, "the question is longer than the model's context": 1}
    scores = [judged["scores"]["rouge_l"] for judged in rows_of(folders[0], "judge").values()]
    cells = row(table(report, "right-answers"), "truthfulqa · smollm2", "ROUGE-L")
    assert cells[2] == "0.54 / 0.94"  # agreement with people, on sentences and on short answers
    assert cells[3:] == (67, *(sum(score >= k / 10 - 1e-9 for score in scores) for k in range(1, 11)))


def test_a_small_class_is_warned_of(report, tmp_path):
    def warning(report):
        return next(block.text for block in report.blocks if getattr(block, "kind", "") == "warning")

    assert re.search(r"fewer than 20 answers of a class for ROUGE-L at 0\.1 \(\d+\)", warning(report))
    assert "ROUGE-L at every threshold (at most 11)" in warning(read_report([write_run(tmp_path / "x", questions=25)]))


# -- more samples -----------------------------------------------------------------------------------------------


def test_auroc_lines_follow_the_number_of_samples(report, folders):
    line = next(line for line in chart(report, "auroc-samples-1-truthfulqa-smollm2").lines if line.label == "SE*_SDLG")
    assert line.x == tuple(range(1, 11))
    direct = [brute_auroc(folders[0], "sdlg", "SE*_SDLG", n=n) for n in range(1, 11)]
    assert line.y == pytest.approx(direct)


def test_the_improper_estimator_is_dotted_in_its_samplers_colour(report):
    lines = {line.label: line for line in chart(report, "auroc-samples-1-truthfulqa-smollm2").lines}
    assert (lines["SE_MS"].stroke, lines["SE*_MS"].stroke) == ("dotted", "solid")
    assert lines["SE_MS"].colour == lines["SE*_MS"].colour != lines["SE*_SDLG"].colour


def test_cluster_increases_are_ratios_of_means(report, folders):
    def mean(method, n):
        clustered = rows_of(folders[0], "cluster").values()
        return np.mean([len(set(found["methods"][method]["clusters"][:n])) for found in clustered])

    for n, paper in ((2, 0.19), (10, 0.74)):
        cells = row(table(report, "cluster-increase"), "truthfulqa · smollm2", n)
        assert cells[2].value == pytest.approx(mean("sdlg", n) / mean("multinomial:temperature=0.5", n) - 1)
        assert cells[2].low <= cells[2].value <= cells[2].high
        assert cells[3].value == paper


def test_first_reaching_is_the_first_that_is_as_high():
    assert first_reaching([0.5, 0.7, 0.6, 0.8], 0.7) == 2
    assert first_reaching([math.nan, 0.6], 0.6) == 2
    assert first_reaching([0.5, 0.6], 0.7) is None


def test_heat_maps_are_differences_at_every_threshold_and_number(report, folders):
    heat = chart(report, "heat-rouge-1-1-truthfulqa-smollm2")
    place, n = heat.y.index("0.4"), 3
    direct = brute_auroc(folders[0], "sdlg", "SE*_SDLG", 0.4, "rouge_1", n) - brute_auroc(
        folders[0], "multinomial:temperature=0.5", "SE*_MS", 0.4, "rouge_1", n
    )
    assert heat.values[place][n - 1] == pytest.approx(direct)


# -- settings and halves ----------------------------------------------------------------------------------------


def test_the_setting_is_chosen_on_the_first_half_and_told_on_the_other(report, folders, views):
    first = half_a(views[1])
    temperatures = [method for method in TUNED if method.startswith("multinomial")]

    def chosen_by(method):
        return np.mean([brute_auroc(folders[1], method, "SE*_MS", k / 10, keep=first) for k in range(1, 11)])

    best = max(temperatures, key=chosen_by)
    rows = {r.cells[2]: r.cells for r in table(report, "search").rows if r.cells[1] == "SE*_MS"}
    assert len(rows) == 3
    for method in temperatures:
        cells = rows[f"temperature {settings_of(method)['temperature']}"]
        assert cells[5].value == pytest.approx(chosen_by(method))
        other = brute_auroc(folders[1], method, "SE*_MS", keep=lambda name: not first(name))
        assert cells[6].value == pytest.approx(other)
        assert cells[7] == ("tuned" if method == best else "")
    column = next(column for column in paper_columns(views[1]) if column.label == "SE*_MS")
    assert (column.method, column.is_tuned) == (best, True)


def test_halves_depend_on_ids_only(views, tmp_path):
    again = views_of([load_run(write_run(tmp_path / "y", questions=70, seed=9))])[0]
    assert (again.first_half == views[0].first_half).all()
    assert 10 < views[0].first_half.sum() < 57


def test_every_measure_is_ranked_on_both_halves(report, folders, views):
    shown_rows = table(report, "halves-1-truthfulqa-smollm2").rows
    folded = table(report, "halves-1-truthfulqa-smollm2-others").rows
    view = views[0]
    assert len(shown_rows) + len(folded) == sum(len(view.measures(method)) for method in view.run.methods)
    firsts = [r.cells[4].value for r in (*shown_rows, *folded)]
    assert firsts == sorted(firsts, reverse=True)
    cells = next(r.cells for r in (*shown_rows, *folded) if r.cells[3] == "SE_MS")
    first, measured = half_a(view), ("multinomial:temperature=0.5", "SE_MS")
    assert cells[1:3] == (measured[0], stored_name(measured[1]))
    assert cells[4].value == pytest.approx(brute_auroc(folders[0], *measured, keep=first))
    assert cells[5].value == pytest.approx(brute_auroc(folders[0], *measured, keep=lambda name: not first(name)))


def test_ablations_are_lines_by_the_scores_that_count(report, folders):
    lines = {line.label: line for line in chart(report, "ablation-2-coqa-smollm2").lines}
    assert set(lines) == {"all three", "substitution + importance"}
    direct = brute_auroc(folders[1], "sdlg:attribution_weight=0", "SE*_SDLG", 0.7)
    assert lines["substitution + importance"].y[6] == pytest.approx(direct)


def test_ablation_runs_of_the_same_data_are_compared(tmp_path):
    importance_only = {"attribution_weight": 0.0, "substitution_weight": 0.0}
    runs = [
        write_run(tmp_path / "all", questions=40),
        write_run(tmp_path / "one", questions=40, seed=3, options=importance_only),
    ]
    lines = chart(read_report(runs), "ablation-1-truthfulqa-smollm2-all").lines
    assert [line.label for line in lines] == ["all three", "importance"]


def test_ablation_runs_with_other_options_are_not_mixed(tmp_path):
    runs = [
        write_run(tmp_path / name, questions=40, seed=seed, options={**weights, **others})
        for seed, (name, weights, others) in enumerate(
            [
                ("all", {}, {}),
                ("one", {"attribution_weight": 0.0}, {}),
                ("merged", {}, {"merging": "same_word"}),
                ("merged-one", {"importance_weight": 0.0}, {"merging": "same_word"}),
                ("alone", {}, {"gradient_side": "both"}),  # nothing to compare it with
            ]
        )
    ]
    report = read_report(runs)
    usual = chart(report, "ablation-1-truthfulqa-smollm2-all")
    merged = chart(report, "ablation-3-truthfulqa-smollm2-merged")
    assert [line.label for line in usual.lines] == ["all three", "substitution + importance"]
    assert [line.label for line in merged.lines] == ["all three", "attribution + substitution"]
    assert "merging=same_word" in merged.title
    assert "merging" not in usual.title


def test_weights_have_names():
    assert weights_name((1.0, 1.0, 1.0)) == "all three"
    assert weights_name((0.0, 1.0, 1.0)) == "substitution + importance"
    assert weights_name((2.0, 1.0, 1.0)) == "attribution 2, substitution 1, importance 1"
    assert is_ablation("sdlg:importance_weight=0")
    assert not is_ablation("sdlg:merging=none")


# -- compute ----------------------------------------------------------------------------------------------------

DRAWN = QuestionSamples(prompt=10, question=4.0, lengths=(5, 6, 4), positions=(-1, 2, 3), distinct=(0, 1, 0))
SIZES = Parameters(model=100.0, nli=10.0)


def test_tokens_are_those_of_the_formulas():
    assert tokens_from_scratch(DRAWN, 3) == (10 + 4) + (10 + 5) + (10 + 3)
    assert tokens_shared(DRAWN, 1) == 10 + 4
    assert tokens_shared(DRAWN, 3) == 10 + 4 + (6 - 2 - 1) + (4 - 3 - 1)


def test_flops_are_those_of_the_formulas():
    pairs = 2 * (2 * 4 + 5 + 6)  # two distinct texts, both orders
    sdlg = sdlg_flops(DRAWN, 3, SIZES, tokens_shared)
    assert (sdlg.generation, sdlg.reading, sdlg.clusters) == (2 * 100 * 17, 4 * 10 * 2 * (4 + 5), 2 * 10 * pairs)
    assert multinomial_flops(DRAWN, 3, SIZES, tokens_shared).reading == 0
    sar = sar_flops(DRAWN, 3, SIZES, tokens_from_scratch)
    assert sar.reading == 2 * 10 * (5 * (2 * 9 - 1) + 6 * (2 * 10 - 1) + pairs / 2)
    assert sar.clusters == 0
    assert sdlg.total == sdlg.generation + sdlg.reading + sdlg.clusters


def test_pairs_of_many_texts_agree_with_a_sum_over_pairs():
    drawn = QuestionSamples(3, 2.0, (4, 7, 5, 9), (-1, -1, -1, -1), (0, 1, 2, 3))
    direct = sum(2 * 2.0 + drawn.lengths[i] + drawn.lengths[j] for i in range(4) for j in range(4) if i != j)
    assert multinomial_flops(drawn, 4, SIZES, tokens_shared).clusters == pytest.approx(2 * 10 * direct)


def test_one_sample_has_no_clusters_to_judge():
    assert multinomial_flops(DRAWN, 1, SIZES, tokens_shared).clusters == 0


def test_shared_tokens_are_what_was_measured(report):
    for method in ("SDLG", "multinomial"):
        cells = row(table(report, "compute"), "truthfulqa · smollm2", method)
        assert cells[3].value == pytest.approx(cells[4].value)
        assert cells[2].value > cells[3].value


# -- examples ---------------------------------------------------------------------------------------------------


def sample(text, tokens, position):
    change = None if position is None else Substitution(position, "", "", 0, -1.0, 0.0, 0.0, 0.3)
    return Sample(Generation(text, (), (), "eos"), tuple(tokens), change)


def test_the_changed_word_is_marked():
    pieces = pieces_of(sample("It is Lyon, yes", [" It", " is", " Ly", "on", ",", " yes"], 2))
    assert [(piece.text, piece.is_changed) for piece in pieces] == [("It is ", False), ("Lyon,", True), (" yes", False)]
    first = pieces_of(sample("Lyon it is", ["Lyon", " it", " is"], 0))
    assert (first[0].text, first[0].is_changed) == ("Lyon", True)


def test_answers_without_a_change_have_no_mark():
    for found in (sample("It is Lyon", ["It", " is", " Lyon"], None), sample("It is Lyon", ["other"], 1)):
        assert [piece.is_changed for piece in pieces_of(found)] == [False]


def test_an_answer_that_ends_early_says_so():
    assert pieces_of(sample("It is", ["It", " is"], 2))[-1].text == " (ends here)"


def test_examples_show_both_samplers_and_why(report):
    block = next(block for block in report.blocks if getattr(block, "name", "") == "examples-1-truthfulqa-smollm2")
    assert 4 <= len(block.examples) <= 7
    assert sum(example.why_shown == "at random" for example in block.examples) == 3
    assert [name for name, _ in block.examples[0].samplers] == ["SDLG", "multinomial"]
    assert all(len(answers) == 10 for example in block.examples for _, answers in example.samplers)


# -- the page ---------------------------------------------------------------------------------------------------


class Reader(HTMLParser):
    """Collects what the page's tests look at, and checks that tags are closed."""

    VOID = frozenset({"meta", "link", "br", "hr", "img"})

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.tags, self.text = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.ids += [value for name, value in attributes if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def read(page):
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


def test_every_section_is_on_the_page(read):
    assert set(SECTIONS) <= set(read.ids)
    targets = [a["href"] for tag, a in read.tags if tag == "a"]
    assert all(target.startswith("#") and target[1:] in read.ids for target in targets)


def test_the_page_loads_nothing_and_runs_nothing(page, read):
    assert not re.search(r"https?://", page)
    assert not {"script", "iframe", "object", "img", "image"} & {tag for tag, _ in read.tags}
    assert not any(name.startswith("on") for _, attributes in read.tags for name in attributes)
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_model_text_stays_text(page, read):
    assert "<script" not in page
    assert SCRIPT in "".join(read.text)


def test_ids_are_unique_and_references_resolve(page, read):
    assert len(read.ids) == len(set(read.ids))
    used = re.findall(r'(?:href="|url\()#([^")]+)', page)
    assert set(used) <= set(read.ids)


def test_tables_have_captions_and_scopes(read):
    tables = [tag for tag, _ in read.tags if tag == "table"]
    assert len(tables) == sum(tag == "caption" for tag, _ in read.tags) > 20
    assert {attributes["scope"] for tag, attributes in read.tags if tag == "th"} == {"col", "row"}


def test_figures_have_text_alternatives_and_their_numbers(report, read):
    images = [attributes for tag, attributes in read.tags if attributes.get("role") == "img"]
    assert len(images) == len(report.charts) == sum(tag == "svg" for tag, _ in read.tags)
    assert all(len(attributes["aria-label"]) > 20 for attributes in images)
    assert "nan" not in " ".join(attributes["aria-label"] for attributes in images).lower().split()


def test_colours_follow_the_theme(page):
    assert "prefers-color-scheme: dark" in page
    svg = "".join(re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL))
    assert "var(--blue)" in svg
    assert not re.findall(r"#[0-9a-f]{6}\b(?!-)", svg)


def test_undefined_numbers_are_dashes_with_reasons(tmp_path):
    page = render_page(read_report([write_run(tmp_path / "x", questions=30, methods=("sdlg",))]))
    assert 'title="the run has no multinomial samples">–' in page


# -- files ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_folder(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("small") / "x", questions=25, samples=3, metrics=("rouge_l",))


def test_assets_are_whole_files(small_folder, tmp_path):
    report = read_report([small_folder])
    written = write_assets(report, tmp_path / "assets")
    assert len(written) == len(set(written)) == len(report.tables) + 3 * len(report.charts)
    for path in written:
        if path.suffix == ".csv":
            lines = list(csv.reader(io.StringIO(path.read_text())))
            assert len({len(line) for line in lines}) == 1
        elif path.suffix == ".svg":
            assert ElementTree.fromstring(path.read_text()).tag.endswith("svg")
        else:
            assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_csv_carries_intervals_and_reasons():
    rows = (TableRow(("one", Number(0.5, 0.4, 0.6), 3)), TableRow(("two", undefined("why"), 4)))
    found = Table("x", "", ("run", "a", "b"), rows)
    assert table_csv(found) == "run,a,a low,a high,a reason,b\none,0.5,0.4,0.6,,3\ntwo,,,,why,4\n"


def test_json_holds_every_number_and_no_nan(report, folders):
    def refuse(word):
        raise AssertionError(word)

    found = json.loads(report_json(report), parse_constant=refuse)
    assert set(found["tables"]) == {table.name for table in report.tables}
    assert set(found["charts"]) == {chart.name for chart in report.charts}
    number = found["tables"]["main"]["rows"][0][7]
    assert number["value"] == pytest.approx(brute_auroc(folders[0], "sdlg", "SE*_SDLG"))
    for cells in (cells for shown_table in found["tables"].values() for cells in shown_table["rows"]):
        assert all(cell["reason"] for cell in cells if isinstance(cell, dict) and cell["value"] is None)


def test_the_same_run_gives_the_same_bytes(small_folder):
    first, second = read_report([small_folder]), read_report([small_folder])
    assert report_json(first) == report_json(second)
    assert render_page(first) == render_page(second)
    pairs = list(zip(first.charts, second.charts, strict=True))[-4:]  # a heat map and lines
    assert all(file_svg(one) == file_svg(other) and file_png(one) == file_png(other) for one, other in pairs)


# -- runs that lack something -----------------------------------------------------------------------------------


def test_a_run_without_results_says_so(tmp_path):
    folder = write_run(tmp_path / "begun", questions=5)
    for stage in ("cluster", "measure", "judge"):
        (folder / f"{stage}.jsonl").unlink()
    page = render_page(read_report([folder]))
    assert "no results yet" in page
    assert "2 generated, 0 clustered, 0 measured, 0 judged; 3 skipped" in page


def test_a_run_without_results_does_not_hide_the_others(tmp_path, folders):
    empty = write_run(tmp_path / "begun", questions=3)
    report = read_report([empty, folders[0]])
    assert table(report, "main").rows[0].cells[0] == f"truthfulqa · smollm2 · {folders[0].name}"
    assert any("no results yet" in getattr(block, "text", "") for block in report.blocks)


@pytest.mark.parametrize("content", [None, "{", '{"format": "other"}', '{"format": "sdlg.run/1"}'])
def test_a_broken_folder_is_named(tmp_path, folders, content):
    folder = tmp_path / "broken"
    folder.mkdir()
    if content is not None:
        (folder / "run.json").write_text(content)
    with pytest.raises(SdlgError, match=re.escape(str(folder))):
        read_report([folders[0], folder])


def test_one_class_has_no_auroc_and_the_reason_is_told(tmp_path):
    report = read_report([write_run(tmp_path / "x", questions=30, correctness=0.0)])
    number = table(report, "main").rows[0].cells[1]
    assert number.reason == "all 27 answers are wrong: AUROC needs both wrong and right ones"
    assert "all 27 answers are wrong" in render_page(report)
    report_json(report)


@pytest.mark.parametrize(
    "changes",
    [
        {"methods": ("diverse_beam:diversity_penalty=0.5",)},
        {"methods": ("multinomial",)},
        {"metrics": ()},
        {"metrics": ("bleurt",)},
        {"samples": 1},
        {"questions": 4},
        {"model": "a/$b_{c}<b>日本語"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_a_run_lacks_is_never_an_exception(tmp_path, changes):
    report = read_report([write_run(tmp_path / "x", **{"questions": 25, **changes})])
    json.loads(report_json(report))
    Reader().feed(render_page(report))


def test_a_report_without_a_search_or_an_ablation_says_so_of_itself(tmp_path):
    """Not of runs in general: others may have been made and left out of this report."""
    page = render_page(read_report([write_run(tmp_path / "x", questions=25)]))
    assert "This report was built without a run that has several settings of a sampler" in page
    assert "This report was built without a run of SDLG with other weights" in page
    assert "No run has" not in page


def test_the_published_report_shows_no_question_of_the_data():
    published = (Path(__file__).parents[1] / "docs/results/experiments/report.html").read_text(encoding="utf-8")
    assert "<h2>What it finds, and what it costs" in published
    assert "<h2>Examples" not in published


def test_the_published_table_says_what_the_published_file_says():
    bench = Path(__file__).parents[1] / "bench/experiments_page.py"
    checked = subprocess.run([sys.executable, str(bench), "--check"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_sections_can_be_left_out(tmp_path):
    """Without examples, no question of the data is on the page."""
    folder = write_run(tmp_path / "x", questions=25)
    assert "Which is town number" in render_page(read_report([folder]))
    assert "Which is town number" not in render_page(read_report([folder], ["examples"]))
    with pytest.raises(UnknownName, match="unknown section 'exmples'; choose from: ablation"):
        read_report([folder], ["exmples"])


def test_bleurt_takes_the_place_of_exact_match(tmp_path):
    metrics = ("rouge_l", "rouge_1", "exact_match", "bleurt")
    report = read_report([write_run(tmp_path / "x", questions=30, metrics=metrics)])
    found = table(report, "comprehensive-1-truthfulqa-smollm2")
    assert list(dict.fromkeys(r.cells[0] for r in found.rows)) == ["ROUGE-L", "ROUGE-1", "BLEURT"]


def test_without_parameters_there_are_tokens_but_no_flops(tmp_path):
    folder = write_run(tmp_path / "x", questions=25, sizes_known=False)
    cells = row(table(read_report([folder]), "compute"), "truthfulqa · smollm2", "SDLG")
    assert cells[2].is_defined
    assert cells[-1].reason == "the run does not say how many parameters its models have"


# -- what it finds, and what it costs -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def costed(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("costed") / "x", questions=80, undefined=0, costed=True)


def test_scores_are_compared_with_perplexity_and_their_cost_stands_beside_them(costed):
    view = views_of([load_run(costed)])[0]
    found = table(read_report([costed]), "against-cost")
    labels = [cells.cells[1] for cells in found.rows]
    assert labels == [
        "likelihood of the answer", "perplexity of the answer", "SAR, N = 10", "semantic entropy, multinomial, N = 10",
        "semantic entropy, diverse beams, N = 10", "semantic entropy, SDLG, N = 4", "semantic entropy, SDLG, N = 10",
    ]  # fmt: skip
    _, _, own, paired, error, error_paired, _, _, time, tokens, right = row(
        found, view.label, "semantic entropy, SDLG, N = 4"
    )
    wrong = view.wrong(view.target)
    assert right == f"{sum(wrong == 0)} of {len(wrong)}"
    assert own.value == pytest.approx(brute_auroc(costed, "sdlg", "SE*_SDLG", n=4))
    baseline = row(found, view.label, "perplexity of the answer")
    assert paired.value == pytest.approx(own.value - baseline[2].value)
    assert error_paired.value == pytest.approx(error.value - baseline[4].value)
    assert paired.low < paired.value < paired.high
    assert baseline[3] == ""
    assert (baseline[8].value, baseline[9].value) == (1.0, 45.0)  # the answer alone
    whole = row(found, view.label, "semantic entropy, SDLG, N = 10")
    assert 1.0 < time.value < whole[8].value
    assert 45 < tokens.value < whole[9].value


def test_the_error_rate_is_that_of_the_most_certain_share(costed):
    view = views_of([load_run(costed)])[0]
    scores, wrong = view.scores("sdlg", "SE*_SDLG"), view.wrong(view.target)
    kept = np.argsort(scores)[: round(0.8 * len(scores))]
    found = row(table(read_report([costed]), "against-cost"), view.label, "semantic entropy, SDLG, N = 10")
    assert found[4].value == pytest.approx(wrong[kept].mean())


def test_auroc_is_drawn_against_the_cost(costed):
    lines = {line.label: line for line in chart(read_report([costed]), "auroc-cost-1-truthfulqa-smollm2").lines}
    assert lines["perplexity of the answer"].is_point
    assert lines["perplexity of the answer"].x == (1.0,)
    sdlg = lines["semantic entropy, SDLG"]
    assert len(sdlg.x) == 9
    assert list(sdlg.x) == sorted(sdlg.x)


def test_what_was_chosen_on_one_half_is_told_on_the_other(tmp_path):
    folder = write_run(tmp_path / "x", questions=80, undefined=0, costed=True, methods=TUNED)
    view = views_of([load_run(folder)])[0]
    found = table(read_report([folder]), "against-cost")
    assert "chosen on the first half and told on the other" in found.caption
    other = half_a(view)
    expected = brute_auroc(folder, "sdlg", "SE*_SDLG", keep=lambda name: not other(name))
    assert row(found, view.label, "semantic entropy, SDLG, N = 10")[2].value == pytest.approx(expected)


# -- words ------------------------------------------------------------------------------------------------------


def test_numbers_read_well():
    assert shown(Number(0.8140)) == "0.814"
    assert shown(Number(-0.0123, signed=True)) == "−0.012"
    assert shown(Number(0.19, signed=True, percent=True)) == "+19\u00a0%"
    assert shown(undefined("why")) == "–"
    assert interval(Number(0.5, 0.4, 0.6)) == "0.40–0.60"
    assert interval(Number(0.1, -0.01, 0.2, signed=True)) == "−0.010 to +0.200"
    assert percent(-0.155) == "−16\u00a0%"
    assert [letter(0), letter(25), letter(26)] == ["A", "Z", "A2"]


def test_a_row_has_a_cell_for_every_heading():
    with pytest.raises(ValueError, match="2 cells under 1 headings"):
        Table("x", "", ("a",), (TableRow(("one", 2)),))


# -- the command ------------------------------------------------------------------------------------------------


def run_command(*arguments):
    parser = argparse.ArgumentParser()
    add_report(parser.add_subparsers())
    parsed = parser.parse_args(["report", *map(str, arguments)])
    return parsed.run(parsed)


def test_the_command_writes_page_files_and_json(tmp_path, capsys):
    folder = write_run(tmp_path / "x", questions=20, samples=2, methods=("sdlg",), metrics=("rouge_l",))
    out, assets = tmp_path / "new" / "report.html", tmp_path / "assets"
    assert run_command(folder, "-o", out, "--assets", assets, "--json") == 0
    assert out.read_text().startswith("<!DOCTYPE html>")
    assert (assets / "main.csv").exists()
    assert json.loads(capsys.readouterr().out)["format"] == "sdlg.report/1"


def test_the_command_says_what_it_needs(tmp_path):
    folder = write_run(tmp_path / "x", questions=5)
    with pytest.raises(BadOption, match="say what to make"):
        run_command(folder)
    with pytest.raises(BadOption, match="named twice"):
        run_command(folder, folder, "--json")
    with pytest.raises(SdlgError, match="nowhere"):
        run_command(tmp_path / "nowhere", "--json")
    (tmp_path / "file").write_text("")
    with pytest.raises(BadOption, match="cannot write"):
        run_command(folder, "-o", tmp_path / "file" / "report.html")
