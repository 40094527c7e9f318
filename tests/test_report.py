"""The report of runs: its numbers against direct computations, its page and files, and runs that lack something."""

from __future__ import annotations

import argparse
import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from sdlg.cli.report import add_report
from sdlg.errors import BadOption, RunError, SdlgError, UnknownName
from sdlg.evaluation.export import export_run
from sdlg.evaluation.report import read_report, render_page, report_json, write_assets
from sdlg.evaluation.report.compute import count_flops, count_tokens
from sdlg.evaluation.report.curves import weights_name
from sdlg.evaluation.report.scores import Column, Target, is_ablation, name_runs, settings_of
from sdlg.evaluation.results import PAPER_COLUMNS, load_run, stored_name
from synthetic_run import write_run

SCRIPT = "The town is <script>alert('x')</script> & Paris."
TUNED = ("sdlg", "sdlg:attribution_weight=0", "multinomial:temperature=0.25", "multinomial:temperature=0.5",
         "multinomial:temperature=1.0", "diverse_beam:diversity_penalty=0.2")  # fmt: skip
SECTIONS = ("overview", "main", "against_cost", "samples", "compute", "heat_maps", "rejection", "comprehensive",
            "search", "ablation", "halves", "examples")  # fmt: skip
TRUTHFUL, COQA = "truthfulqa · smollm2", "coqa · smollm2"
METHODS = {"sdlg": "sdlg", "multinomial": "multinomial:temperature=0.5",
           "diverse_beam": "diverse_beam:diversity_penalty=0.5"}  # fmt: skip


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
def runs(folders):
    return name_runs([load_run(folder) for folder in folders])


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


def frame(report, name):
    return next(one.frame for one in report.tables if one.name == name)


def drawn(report, name):
    return next(one.frame for one in report.charts if one.name == name)


def where(rows, **wanted):
    """The rows that have these values, by the columns' names with _ for a space."""
    for name, value in wanted.items():
        rows = rows[rows[name.replace("_", " ")] == value]
    return rows


def first_half(run):
    chosen = {name for name, is_first in zip(run.ids, run.parts["first"], strict=True) if is_first}
    return chosen.__contains__


# -- AUROC ------------------------------------------------------------------------------------------------------


def test_the_main_table_is_the_auroc_over_all_pairs(report, folders):
    row = where(frame(report, "main"), run=TRUTHFUL).iloc[0]
    for label, (sampler, measure) in PAPER_COLUMNS.items():
        assert row[label] == pytest.approx(brute_auroc(folders[0], METHODS[sampler], measure), abs=1e-12)
        assert row[f"{label} low"] <= row[label] <= row[f"{label} high"]


def test_stock_references_make_a_second_row(report, folders):
    main = frame(report, "main")
    second = where(main, run=TRUTHFUL).iloc[1]
    assert second["right at"] == "ROUGE-L ≥ 0.5, without stock references"
    assert second["SE*_SDLG"] == pytest.approx(
        brute_auroc(folders[0], "sdlg", "SE*_SDLG", scores="scores_without_stock")
    )
    assert len(where(main, run=COQA)) == 1


def test_differences_are_paired_and_signed(report):
    main, differences = frame(report, "main"), frame(report, "main-differences")
    for label in PAPER_COLUMNS:
        if label not in ("SE*_SDLG", "SAR"):  # SAR lacks some questions
            assert differences[f"− {label}"].tolist() == pytest.approx((main["SE*_SDLG"] - main[label]).tolist())
        if label != "SE*_SDLG":
            assert (differences[f"− {label} low"] <= differences[f"− {label}"]).all()
            assert (differences[f"− {label}"] <= differences[f"− {label} high"]).all()


def test_a_measure_that_is_higher_for_certain_answers_is_turned(folders, runs):
    auroc = runs[0].auroc(Column("", "sdlg", "coverage"), Target("rouge_l", 0.5)).value
    assert auroc == pytest.approx(1 - brute_auroc(folders[0], "sdlg", "coverage"))
    assert auroc > 0.5


def test_questions_without_a_value_are_left_out_and_counted(report):
    notes = report.sections["main"].notes
    assert any("SAR rests on 65 of 67 questions (needs the relevance of each token)" in note for note in notes)
    undefined = where(frame(report, "undefined"), run=TRUTHFUL).iloc[0]
    assert (undefined["reason"], undefined["questions"]) == ("needs the relevance of each token", 2)


def test_the_comprehensive_table_has_metrics_and_thresholds(report, folders):
    found = where(frame(report, "comprehensive"), run=TRUTHFUL)
    expected = [(metric, t) for metric in ("ROUGE-L", "ROUGE-1", "exact match") for t in (0.3, 0.5, 1.0)]
    assert list(zip(found["metric"], found["threshold"], strict=True)) == expected
    direct = brute_auroc(folders[0], METHODS["multinomial"], "SE_MS", 0.3, "rouge_1")
    assert where(found, metric="ROUGE-1", threshold=0.3)["SE_MS"].item() == pytest.approx(direct)


def test_bleurt_takes_the_place_of_exact_match(tmp_path):
    metrics = ("rouge_l", "rouge_1", "exact_match", "bleurt")
    report = read_report([write_run(tmp_path / "x", questions=30, metrics=metrics)])
    assert list(frame(report, "comprehensive")["metric"].unique()) == ["ROUGE-L", "ROUGE-1", "BLEURT"]


def test_skipped_questions_and_right_answers_are_counted(report, folders):
    skipped = where(frame(report, "skipped"), run=TRUTHFUL)
    assert dict(zip(skipped["reason"], skipped["questions"], strict=True)) == {
        "the answer is empty": 2,
        "the question is longer than the model's context": 1,
    }
    scores = [judged["scores"]["rouge_l"] for judged in rows_of(folders[0], "judge").values()]
    row = where(frame(report, "right-answers"), run=TRUTHFUL, metric="ROUGE-L").iloc[0].tolist()
    assert row[2:4] == ["0.54 / 0.94", 67]
    assert row[4:] == [sum(score >= k / 10 - 1e-9 for score in scores) for k in range(1, 11)]


def test_a_small_class_is_warned_of(tmp_path):
    report = read_report([write_run(tmp_path / "x", questions=25)])
    assert any(
        re.search(r"only \d+ answers of a class at ROUGE-L", one) for one in report.sections["overview"].warnings
    )


# -- more samples -----------------------------------------------------------------------------------------------


def test_auroc_lines_follow_the_number_of_samples(report, folders):
    line = where(drawn(report, "auroc-samples"), run=TRUTHFUL, score="SE*_SDLG")
    assert line["number of samples"].tolist() == list(range(1, 11))
    direct = [brute_auroc(folders[0], "sdlg", "SE*_SDLG", n=n) for n in range(1, 11)]
    assert line["AUROC"].tolist() == pytest.approx(direct)


def test_clusters_are_counted_and_compared_as_ratios_of_means(report, folders):
    def mean(method, n):
        sampled = [row["methods"][method] for row in rows_of(folders[0], "generate").values() if "methods" in row]
        return np.mean([len({sample["cluster"] for sample in found["samples"][:n]}) for found in sampled])

    line = where(drawn(report, "clusters-samples"), run=TRUTHFUL, score="SE*_SDLG")
    assert line["clusters"].tolist() == pytest.approx([mean("sdlg", n) for n in range(1, 11)])
    for n in (2, 10):
        row = where(frame(report, "cluster-ratio"), run=TRUTHFUL, number_of_samples=n).iloc[0]
        value = row["SDLG / multinomial"]
        assert value == pytest.approx(mean("sdlg", n) / mean(METHODS["multinomial"], n))
        assert row["SDLG / multinomial low"] <= value <= row["SDLG / multinomial high"]


def test_heat_maps_are_differences_at_every_threshold_and_number(report, folders):
    cells = where(drawn(report, "heat"), run=f"{TRUTHFUL}, ROUGE-1")
    assert len(cells) == 100
    direct = [
        brute_auroc(folders[0], method, measure, 0.4, "rouge_1", 3)
        for method, measure in (("sdlg", "SE*_SDLG"), (METHODS["multinomial"], "SE*_MS"))
    ]
    cell = where(cells, threshold=0.4, number_of_samples=3)
    assert cell["SE*_SDLG − SE*_MS"].item() == pytest.approx(direct[0] - direct[1])


def test_the_rejection_curve_ends_at_the_error_rate_of_all(report, runs):
    curve = where(drawn(report, "rejection"), run=TRUTHFUL, score="SE*_SDLG")
    scores, wrong = runs[0].scores("sdlg", "SE*_SDLG"), runs[0].wrong(runs[0].target)
    assert (curve["share answered"].iloc[-1], curve["error rate"].iloc[-1]) == pytest.approx((1.0, wrong.mean()))
    half = curve.iloc[len(curve) // 2]
    kept = np.argsort(scores)[: round(half["share answered"] * len(scores))]
    assert half["error rate"] == pytest.approx(wrong[kept].mean())


# -- settings and halves ----------------------------------------------------------------------------------------


def test_the_setting_is_chosen_on_the_first_half_and_reported_on_the_other(report, folders, runs):
    first = first_half(runs[1])
    temperatures = [method for method in TUNED if method.startswith("multinomial")]

    def chosen_by(method):
        return np.mean([brute_auroc(folders[1], method, "SE*_MS", k / 10, keep=first) for k in range(1, 11)])

    best = max(temperatures, key=chosen_by)
    rows = where(frame(report, "search"), column="SE*_MS").set_index("setting")
    assert len(rows) == 3
    for method in temperatures:
        row = rows.loc[f"temperature {settings_of(method)['temperature']}"]
        assert row["on the first half"] == pytest.approx(chosen_by(method))
        other = brute_auroc(folders[1], method, "SE*_MS", keep=lambda name: not first(name))
        assert row["AUROC, other half"] == pytest.approx(other)
        assert (row["choice"] == "chosen") == (method == best)
    assert (runs[1].column("SE*_MS").method, runs[1].column("SE*_MS").is_tuned) == (best, True)


def test_halves_depend_on_ids_only(runs, tmp_path):
    again = name_runs([load_run(write_run(tmp_path / "y", questions=70, seed=9))])[0]
    assert (again.parts["first"] == runs[0].parts["first"]).all()
    assert 10 < runs[0].parts["first"].sum() < 57


def test_every_measure_is_ranked_on_both_halves(report, folders, runs):
    rows = where(frame(report, "halves"), run=TRUTHFUL)
    assert len(rows) == len(list(runs[0].everything()))
    firsts = rows["AUROC, first half"].tolist()
    assert firsts == sorted(firsts, reverse=True)
    row = where(rows, method=METHODS["multinomial"], measure=stored_name("SE_MS")).iloc[0]
    first, measured = first_half(runs[0]), (METHODS["multinomial"], "SE_MS")
    assert row["AUROC, first half"] == pytest.approx(brute_auroc(folders[0], *measured, keep=first))
    second = brute_auroc(folders[0], *measured, keep=lambda name: not first(name))
    assert row["AUROC, second half"] == pytest.approx(second)
    assert row["rank, second half"] == 1 + sum(rows["AUROC, second half"] > row["AUROC, second half"])


def test_ablations_are_lines_by_the_scores_that_count(report, folders):
    lines = drawn(report, "ablation")
    assert set(lines["scores"]) == {"all three", "substitution + importance"}
    direct = brute_auroc(folders[1], "sdlg:attribution_weight=0", "SE*_SDLG", 0.7)
    cell = where(lines, scores="substitution + importance", threshold=0.7)
    assert cell["AUROC"].item() == pytest.approx(direct)


def test_only_ablation_runs_with_the_same_other_options_are_compared(tmp_path):
    options = {
        "all": {},
        "one": {"attribution_weight": 0.0},
        "warm": {"temperature": 0.7},
        "warm-one": {"temperature": 0.7, "importance_weight": 0.0},
        "alone": {"temperature": 0.9},  # nothing to compare it with
    }
    folders = [
        write_run(tmp_path / name, questions=20, seed=seed, options=own)
        for seed, (name, own) in enumerate(options.items())
    ]
    lines = drawn(read_report(folders), "ablation").groupby("run")["scores"].unique()
    assert {run.rsplit(" · ")[-1]: list(scores) for run, scores in lines.items()} == {
        "all": ["all three", "substitution + importance"],
        "warm": ["all three", "attribution + substitution"],
    }


def test_weights_have_names():
    assert weights_name((0.5, 0.5, 0.5)) == "all three"
    assert weights_name((0.0, 1.0, 1.0)) == "substitution + importance"
    assert weights_name((1.0, 0.5, 0.5)) == "attribution 2, substitution 1, importance 1"
    assert is_ablation("sdlg:importance_weight=0")
    assert not is_ablation("sdlg:temperature=0.5")


# -- compute ----------------------------------------------------------------------------------------------------


def counted(prompt, question, lengths, positions, distinct):
    rows = {"decisions": lengths, "position": positions, "distinct": distinct, "sample": range(1, len(lengths) + 1)}
    return count_tokens(pd.DataFrame({"id": "q", "prompt": prompt, "question": question, **rows}))


COUNTED = counted(10, 4.0, (5, 6, 4), (-1, 2, 3), (0, 1, 0))


def test_tokens_are_those_of_the_formulas():
    assert COUNTED["from_scratch"].iloc[2] == (10 + 4) + (10 + 5) + (10 + 3)
    assert COUNTED["shared"].iloc[0] == 10 + 4
    assert COUNTED["shared"].iloc[2] == 10 + 4 + (6 - 2 - 1) + (4 - 3 - 1)


def test_flops_are_those_of_the_formulas():
    pairs = 2 * (2 * 4 + 5 + 6)  # two distinct texts, both orders
    sdlg = count_flops(COUNTED, "SDLG", 100.0, 10.0, "shared").iloc[2]
    assert sdlg[["generation", "reading", "clusters"]].tolist() == [2 * 100 * 17, 4 * 10 * 2 * (4 + 5), 2 * 10 * pairs]
    assert sdlg["all"] == sdlg["generation"] + sdlg["reading"] + sdlg["clusters"]
    assert count_flops(COUNTED, "multinomial", 100.0, 10.0, "shared").iloc[2]["reading"] == 0
    sar = count_flops(COUNTED, "SAR", 100.0, 10.0, "from_scratch").iloc[2]
    assert sar["reading"] == 2 * 10 * (5 * (2 * 9 - 1) + 6 * (2 * 10 - 1) + pairs / 2)
    assert sar["clusters"] == 0


def test_pairs_of_many_texts_agree_with_a_sum_over_pairs():
    lengths = (4, 7, 5, 9)
    counts = counted(3, 2.0, lengths, (-1,) * 4, (0, 1, 2, 3))
    for n in range(1, 5):
        direct = sum(2 * 2.0 + lengths[i] + lengths[j] for i in range(n) for j in range(n) if i != j)
        assert counts["pairs"].iloc[n - 1] == direct


def test_questions_are_counted_one_by_one():
    """Two questions together give what each gives alone."""
    rows = pd.DataFrame({"id": list("abab"), "sample": [1, 1, 2, 2], "prompt": [3, 9, 3, 9], "question": 2.0,
                         "decisions": [4, 5, 6, 7], "position": [-1, -1, 2, 0], "distinct": [0, 0, 1, 0]})  # fmt: skip
    both = count_tokens(rows).set_index("id")
    for name in "ab":
        alone = count_tokens(rows[rows["id"] == name]).set_index("id")
        pd.testing.assert_frame_equal(both.loc[[name]], alone)


def test_shared_tokens_are_what_was_measured(report):
    table = where(frame(report, "compute"), run=TRUTHFUL)
    for way in ("SDLG", "multinomial"):
        shared = where(table, way=f"{way}, shared prefixes").iloc[0]
        assert shared["tokens"] == pytest.approx(shared["tokens, measured"])
        assert where(table, way=f"{way}, from scratch")["tokens"].item() > shared["tokens"]


def test_without_parameters_there_are_tokens_but_no_flops(tmp_path):
    report = read_report([write_run(tmp_path / "x", questions=25, sizes_known=False)])
    assert frame(report, "compute")["tokens"].notna().all()
    assert frame(report, "compute")["teraflops"].isna().all()
    assert "how many parameters its models have" in report.sections["compute"].notes[0]


# -- what it finds, and what it costs ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def costed(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("costed") / "x", questions=80, undefined=0, costed=True)


@pytest.fixture(scope="module")
def cost_table(costed):
    return frame(read_report([costed]), "against-cost").set_index("score")


def test_scores_are_compared_with_perplexity_and_their_cost_stands_beside_them(costed, cost_table):
    assert list(cost_table.index) == [
        "likelihood of the answer", "perplexity of the answer", "token entropy of the answer", "SAR, N = 10",
        "semantic entropy, multinomial, N = 10", "semantic entropy, diverse beams, N = 10",
        "semantic entropy, SDLG, N = 4", "semantic entropy, SDLG, N = 10", "CoCoA, SDLG, N = 4", "CoCoA, SDLG, N = 10",
    ]  # fmt: skip
    few, all_of_them = (cost_table.loc[f"semantic entropy, SDLG, N = {n}"] for n in (4, 10))
    baseline = cost_table.loc["perplexity of the answer"]
    assert few["AUROC"] == pytest.approx(brute_auroc(costed, "sdlg", "SE*_SDLG", n=4))
    assert few["− perplexity"] == pytest.approx(few["AUROC"] - baseline["AUROC"])
    assert few["− perplexity low"] < few["− perplexity"] < few["− perplexity high"]
    errors = (row["error rate, 80% given"] for row in (few, baseline))
    assert few["− perplexity, 80%"] == pytest.approx(next(errors) - next(errors))
    assert np.isnan(baseline["− perplexity"])
    assert (baseline["time, × the answer"], baseline["tokens"]) == (1.0, 45.0)  # the answer alone
    assert 1.0 < few["time, × the answer"] < all_of_them["time, × the answer"]
    assert 45 < few["tokens"] < all_of_them["tokens"]


def test_time_is_sampling_and_judging_by_hand(costed, cost_table):
    """0.5 s for the answer, 2 s for the samples, 0.02 s for each of the pairs of distinct texts."""
    clusters = [row["pairs"]["sdlg"]["distinct"] for row in rows_of(costed, "generate").values() if "pairs" in row]
    asked = np.mean([len(set(one)) * (len(set(one)) - 1) for one in clusters])
    expected = (0.5 + 2.0 + 0.02 * asked) / 0.5
    assert cost_table.loc["semantic entropy, SDLG, N = 10", "time, × the answer"] == pytest.approx(expected)
    assert cost_table.loc["SAR, N = 10", "time, × the answer"] == pytest.approx((0.5 + 2.0) / 0.5)


def test_the_error_rate_is_that_of_the_most_certain_share(costed, cost_table):
    run = name_runs([load_run(costed)])[0]
    scores, wrong = run.scores("sdlg", "SE*_SDLG"), run.wrong(run.target)
    kept = np.argsort(scores)[: round(0.8 * len(scores))]
    found = cost_table.loc["semantic entropy, SDLG, N = 10"]
    assert found["error rate, 80% given"] == pytest.approx(wrong[kept].mean())
    assert found["right"] == f"{sum(wrong == 0)} of {len(wrong)}"


def test_what_was_chosen_on_one_half_is_reported_on_the_other(tmp_path):
    folder = write_run(tmp_path / "x", questions=80, undefined=0, costed=True, methods=TUNED)
    report = read_report([folder])
    assert any("these numbers are of the other half" in note for note in report.sections["against_cost"].notes)
    first = first_half(name_runs([load_run(folder)])[0])
    expected = brute_auroc(folder, "sdlg", "SE*_SDLG", keep=lambda name: not first(name))
    row = where(frame(report, "against-cost"), score="semantic entropy, SDLG, N = 10")
    assert row["AUROC"].item() == pytest.approx(expected)


# -- the page ---------------------------------------------------------------------------------------------------


class Reader(HTMLParser):
    """Collects tags and text, and checks that tags are closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.text = [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_every_section_is_on_the_page_with_its_tables_and_figures(page, report):
    read = Reader(page)
    assert tuple(attributes["id"] for tag, attributes in read.tags if tag == "section") == SECTIONS
    assert sum(tag == "svg" for tag, _ in read.tags) == len(report.charts) == 9
    assert sum(tag == "details" for tag, _ in read.tags) == len(report.tables)
    for section in report.sections.values():
        assert section.title in page
        assert section.tables or section.charts or section.notes or section.examples


def test_the_page_loads_nothing_and_runs_nothing(page):
    read = Reader(page)
    assert not {"script", "iframe", "object", "img", "image"} & {tag for tag, _ in read.tags}
    assert not any(name.startswith("on") for _, attributes in read.tags for name in attributes)
    addresses = [value for _, attributes in read.tags for name, value in attributes.items() if name.endswith("href")]
    assert all(address.startswith(("#", "data:,")) for address in addresses)
    assert "@import" not in page


def test_model_text_stays_text(page):
    assert "<script" not in page
    assert SCRIPT in "".join(Reader(page).text)


def test_no_question_is_shown_where_examples_are_left_out(tmp_path):
    folder = write_run(tmp_path / "x", questions=25)
    assert "Which is town number" in render_page(read_report([folder]))
    report = read_report([folder], ["examples"])
    assert "Which is town number" not in render_page(report) + report_json(report)
    with pytest.raises(UnknownName, match="unknown section 'exmples'; did you mean examples"):
        read_report([folder], ["exmples"])


def test_examples_show_both_samplers_and_why(report):
    examples = report.sections["examples"].examples
    of_run = [example for example in examples if example["why"].startswith(TRUTHFUL)]
    assert 4 <= len(of_run) <= 6
    assert sum(example["why"].endswith("at random") for example in of_run) == 3
    assert list(of_run[0]["samples"]) == ["sdlg", METHODS["multinomial"]]
    assert all(len(answers) == 10 for example in of_run for answers in example["samples"].values())
    assert any(answer["change"] == "Paris. → Lyon" for example in of_run for answer in example["samples"]["sdlg"])


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
            assert len(pd.read_csv(path)) > 0
        elif path.suffix == ".svg":
            assert ElementTree.fromstring(path.read_text()).tag.endswith("svg")
        else:
            assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_json_holds_every_number_and_no_nan(report, folders):
    def refuse(word):
        raise AssertionError(word)

    found = json.loads(report_json(report), parse_constant=refuse)
    assert set(found["tables"]) == {table.name for table in report.tables}
    assert set(found["figures"]) == {chart.name for chart in report.charts}
    assert found["tables"]["main"][0]["SE*_SDLG"] == pytest.approx(brute_auroc(folders[0], "sdlg", "SE*_SDLG"))


def test_the_same_run_gives_the_same_bytes(small_folder, tmp_path):
    first, second = read_report([small_folder]), read_report([small_folder])
    assert report_json(first) == report_json(second)
    assert render_page(first) == render_page(second)
    pairs = zip(write_assets(first, tmp_path / "a"), write_assets(second, tmp_path / "b"), strict=True)
    assert all(one.read_bytes() == other.read_bytes() for one, other in pairs)


def test_an_export_has_all_questions_samples_costs_and_values(tmp_path):
    folder = write_run(tmp_path / "x", questions=10, samples=3, methods=("sdlg",), costed=True)
    tables = {path.stem: pd.read_parquet(path) for path in export_run(folder)}
    assert {name: len(table) for name, table in tables.items() if name != "measures"} == {
        "questions": 10, "samples": 21, "costs": 7
    }  # fmt: skip
    measured = rows_of(folder, "measure")
    for row in tables["measures"].to_dict("records"):
        value = measured[row["id"]]["values"][row["method"]][row["measure"]][row["samples"] - 1]
        assert row["value"] == value or (value is None and np.isnan(row["value"]))
    assert len(tables["measures"]) == sum(3 * len(row["values"]["sdlg"]) for row in measured.values())


# -- runs that lack something -----------------------------------------------------------------------------------


def unfinished(folder, kept):
    """The run with so many lines of each stage after the first."""
    for stage in ("measure", "judge"):
        path = folder / f"{stage}.jsonl"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:kept]))
    return folder


def test_an_unfinished_run_is_reported_as_far_as_it_came(tmp_path):
    report = read_report([unfinished(write_run(tmp_path / "x", questions=40), 20)])
    facts = frame(report, "runs").set_index("").iloc[:, 0]
    assert (facts["questions"], facts["under way"], facts["skipped"]) == ("20", "17", "3")
    Reader(render_page(report))


def test_a_report_of_nothing_is_an_error_that_says_why(tmp_path):
    begun = unfinished(write_run(tmp_path / "begun", questions=5), 0)
    with pytest.raises(RunError, match=r"2 generated, 0 measured.*Let the run go on.*--out .*begun"):
        read_report([begun])
    unusable = write_run(tmp_path / "unusable", questions=3)
    with pytest.raises(RunError, match=r"3 were skipped, mostly since the answer is empty.*on other questions"):
        read_report([unusable])


def test_a_run_without_results_does_not_hide_the_others(tmp_path, folders):
    empty = write_run(tmp_path / "begun", questions=3)
    report = read_report([empty, folders[0]])
    assert frame(report, "main")["run"].iloc[0] == f"{TRUTHFUL} · {folders[0].name}"
    assert any("no question has passed all stages" in one for one in report.sections["overview"].warnings)


@pytest.mark.parametrize("content", [None, "{", '{"format": "other"}', '{"format": "sdlg.run/1"}'])
def test_a_broken_folder_is_named(tmp_path, folders, content):
    folder = tmp_path / "broken"
    folder.mkdir()
    if content is not None:
        (folder / "run.json").write_text(content)
    with pytest.raises(SdlgError, match=re.escape(str(folder))):
        read_report([folders[0], folder])


@pytest.mark.parametrize(("score", "words"), [(0.0, "wrong"), (1.0, "right")])
def test_one_class_has_reasons_instead_of_numbers(tmp_path, score, words):
    report = read_report([write_run(tmp_path / "x", questions=30, correctness=score)])
    reason = f"all 27 answers are {words}: AUROC needs both wrong and right ones"
    assert frame(report, "main")["SE*_SDLG reason"].tolist() == [reason]
    assert np.isnan(frame(report, "main")["SE*_SDLG"].item())
    assert reason in render_page(report)
    json.loads(report_json(report))


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
    Reader(render_page(report))


# -- the command ------------------------------------------------------------------------------------------------


def run_command(*arguments):
    parser = argparse.ArgumentParser()
    add_report(parser.add_subparsers())
    parsed = parser.parse_args(["report", *map(str, arguments)])
    return parsed.run(parsed)


def test_the_command_writes_page_files_and_json(small_folder, tmp_path, capsys):
    out, assets = tmp_path / "new" / "report.html", tmp_path / "assets"
    assert run_command(small_folder, "-o", out, "--assets", assets, "--json") == 0
    assert out.read_text().startswith("<!DOCTYPE html>")
    assert (assets / "main.csv").exists()
    assert json.loads(capsys.readouterr().out)["format"] == "sdlg.report/1"


def test_the_command_says_what_it_needs(small_folder, tmp_path):
    with pytest.raises(BadOption, match="say what to make"):
        run_command(small_folder)
    with pytest.raises(BadOption, match="named twice"):
        run_command(small_folder, small_folder, "--json")
    with pytest.raises(SdlgError, match="nowhere"):
        run_command(tmp_path / "nowhere", "--json")
    (tmp_path / "file").write_text("")
    with pytest.raises(BadOption, match="cannot write"):
        run_command(small_folder, "-o", tmp_path / "file" / "report.html")
