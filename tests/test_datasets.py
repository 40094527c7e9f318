"""Data sets: every row becomes an item or a fault, shots are never evaluated, the draw is fixed by the seed."""

from __future__ import annotations

import json

import pytest

from sdlg.errors import BadOption, RunError, UnknownName
from sdlg.evaluation.datasets import SOURCES, choose_items, load_data
from sdlg.evaluation.datasets.sources import COQA, STOCK, TRIVIAQA, TRUTHFULQA
from sdlg.models.prompts import chat_messages, plain_text

STORY = {
    "id": "s1",
    "story": "A cat sat.",
    "turns": [{"question": "Who sat?", "answers": ["A cat."]}, {"question": "Why?", "answers": ["unknown", "no idea"]}],
}
TRUTH = [
    {"question": f"Q{k}?", "best_answer": f"A{k}", "correct_answers": [f"A{k}"], "incorrect_answers": [f"B{k}"]}
    for k in range(8)
]
TRUTH[2]["correct_answers"] = ["A2", "I have no comment"]
TRIVIA = [
    {"id": f"t{k}", "split": "train" if k > 11 else "validation", "question": f"What is {k}?", "answer": f"a{k}",
     "answer_is_official_value": k < 12, "aliases": [f"a{k}", f"A {k}"]}
    for k in range(15)
]  # fmt: skip


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


# -- the three --------------------------------------------------------------------------------------------------


def test_coqa_carries_the_story_and_the_earlier_turns():
    first, second = COQA.items([STORY])
    assert first.question.context == second.question.context == "A cat sat."
    assert first.question.shots == ()
    assert second.question.shots == (("Who sat?", "A cat."),)
    assert second.references == ("unknown", "no idea")
    assert plain_text(second.question) == "A cat sat. Q: Who sat? A: A cat. Q: Why? A:"
    assert [m["content"] for m in chat_messages(second.question)] == ["A cat sat.\n\nWho sat?", "A cat.", "Why?"]


def test_coqa_passes_over_the_canary():
    assert len(list(COQA.items([{"canary": "never train on this"}, STORY]))) == 2


@pytest.mark.parametrize("name", ["coqa", "coqa_test", "truthfulqa", "triviaqa"])
def test_local_files_are_read_whole(tmp_path, name):
    rows = {"coqa": [STORY], "coqa_test": [{"canary": "x"}, STORY], "truthfulqa": TRUTH, "triviaqa": TRIVIA}[name]
    write(tmp_path / SOURCES[name].file, rows)
    items = load_data(name, tmp_path).items
    assert len(items) == {"coqa": 2, "coqa_test": 2, "truthfulqa": 3, "triviaqa": 3}[name]
    assert not [item.fault for item in items if item.fault]
    assert {item.id.split("-")[0] for item in items} == {name.removesuffix("_test")}


def test_coqa_reads_the_hub_form_alike():
    hub = {"id": "s1", "story": "A cat sat.", "questions": ["Who sat?"], "answers": {"input_text": ["A cat."]}}
    assert next(COQA.items([hub])) == next(COQA.items([STORY]))


def test_truthfulqa_shots_are_never_evaluated_and_one_is_the_stock_reply():
    items = list(TRUTHFULQA.items(TRUTH))
    shots = items[0].question.shots
    assert len(shots) == 5
    assert ("Q2?", STOCK) in shots
    assert not {item.question.text for item in items} & {asked for asked, _ in shots}
    assert all(item.stock_references == (STOCK,) for item in items)
    assert all("comment" not in reference for item in items for reference in item.references)
    assert items[0].false_references == ("B5",)


def test_the_papers_truthfulqa_shots_are_the_authors_in_their_order():
    rows = [dict(row) for row in TRUTH]
    rows[6] = {**rows[6], "best_answer": "I have no comment"}  # row 2 only allows the reply; here it is the best answer
    items = list(TRUTHFULQA.read(rows, "paper"))
    assert items[0].question.shots == (
        ("Q6?", STOCK), ("Q0?", "A0."), ("Q1?", "A1."), ("Q2?", "A2."), ("Q3?", "A3."),
    )  # fmt: skip
    assert [item.question.text for item in items] == ["Q4?", "Q5?", "Q7?"]
    assert list(TRUTHFULQA.read(rows, "default")) == list(TRUTHFULQA.items(rows))


def test_what_is_not_on_the_hub_is_told_with_the_way_out(monkeypatch):
    monkeypatch.delenv("SDLG_DATA", raising=False)
    with pytest.raises(RunError, match=r"coqa_test is not on the hub; name a folder that holds coqa_test.jsonl"):
        load_data("coqa_test")


def test_triviaqa_evaluates_the_train_split_with_official_shots():
    items = list(TRIVIAQA.items(TRIVIA))
    assert [item.id for item in items] == ["triviaqa-t12", "triviaqa-t13", "triviaqa-t14"]
    assert items[0].question.shots == tuple((f"What is {k}?", f"a{k}") for k in range(10))
    assert items[0].references == ("a12", "A 12")
    assert plain_text(items[0].question).startswith(
        "This is a bot that correctly answers questions. Q: What is 0? A: a0 "
    )


def test_triviaqa_reads_the_hub_form_and_old_quotes():
    row = {"question_id": "x", "question": '"Who said ""Hi""?"', "answer": {"value": "Bo", "aliases": ["Bo", "B."]}}
    many = [{**row, "question_id": str(k), "question": f"Q{k}?"} for k in range(10)]
    (item,) = TRIVIAQA.items([*many, row])
    assert item.question.text == 'Who said "Hi"?'
    assert item.references == ("Bo", "B.")


def test_triviaqa_asks_a_question_once_however_often_the_hub_has_it():
    row = {"question_id": "x", "question": "Who?", "answer": {"value": "Bo", "aliases": ["Bo"]}}
    many = [{**row, "question_id": str(k), "question": f"Q{k}?"} for k in range(10)]
    assert [item.id for item in TRIVIAQA.items([*many, row, row])] == ["triviaqa-x"]


def test_the_hub_is_asked_through_the_datasets_package(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    write(tmp_path / "validation.jsonl", [{k: v for k, v in STORY.items() if k != "turns"} | {
        "questions": ["Who sat?"], "answers": {"input_text": ["A cat."]}}])  # fmt: skip
    real, asked = datasets.load_dataset, []

    def from_disk(repository, configuration, *, split):
        asked.append((repository, configuration, split))
        files = {split: str(tmp_path / f"{split}.jsonl")}
        return real("json", data_files=files, split=split, cache_dir=str(tmp_path / "cache"))

    monkeypatch.setattr(datasets, "load_dataset", from_disk)
    monkeypatch.delenv("SDLG_DATA", raising=False)
    (item,) = load_data("coqa").items
    assert item.references == ("A cat.",)
    assert asked == [("stanfordnlp/coqa", None, "validation")]


def test_an_unreachable_hub_is_told_with_the_way_out(monkeypatch):
    datasets = pytest.importorskip("datasets")

    def fail(*_, **__):
        raise ConnectionError("no route to host\nand much more")

    monkeypatch.setattr(datasets, "load_dataset", fail)
    monkeypatch.delenv("SDLG_DATA", raising=False)
    with pytest.raises(RunError, match=r"no route to host; or name a folder that holds coqa_dev.jsonl with --data-dir"):
        load_data("coqa")


# -- any file ---------------------------------------------------------------------------------------------------


def test_any_jsonl_file_is_a_data_set(tmp_path):
    rows = [
        {"question": "Who?", "references": ["Ann", " Ann ", ""], "false_references": ["Bo"], "context": "c", "id": "x"},
        {"question": "Where? 🚁", "references": "here"},
    ]
    one, two = load_data(str(write(tmp_path / "mine.jsonl", rows))).items
    assert (one.id, one.references, one.false_references, one.question.context) == ("x", ("Ann",), ("Bo",), "c")
    assert (two.id, two.references, two.fault) == ("line-2", ("here",), "")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{", "not valid JSON"),
        ("[1]", "not a JSON object"),
        ('{"references": ["a"]}', "question"),
        ('{"question": " ", "references": ["a"]}', "the question is empty"),
        ('{"question": "q", "references": [" "]}', "no reference answer"),
        ('{"question": "q"}', "no reference answer"),
        ('{"question": "q", "references": [3]}', "references"),
        ('{"question": "q", "references": ["a"], "context": 3}', "context"),
        ('{"question": "q", "references": ["a"], "id": "\\ud800"}', "id holds half a surrogate pair"),
        ('{"question": "\\ud800", "references": ["a"]}', "half a surrogate pair"),
    ],
)
def test_a_bad_line_is_an_item_with_its_fault(tmp_path, line, fault):
    path = tmp_path / "mine.jsonl"
    path.write_text(f'{line}\n\n{{"question": "ok?", "references": ["yes"]}}\n', encoding="utf-8")
    bad, good = load_data(str(path)).items
    assert fault in bad.fault
    assert not good.fault


def test_what_cannot_be_read_is_told(tmp_path):
    with pytest.raises(UnknownName, match="coqa_test, open_questions, triviaqa, truthfulqa, or name a JSONL file"):
        load_data("squad")
    with pytest.raises(BadOption, match="cannot read the data"):
        load_data(str(tmp_path / "gone.jsonl"))
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(BadOption, match=r"there is no question in empty\.jsonl"):
        load_data(str(tmp_path / "empty.jsonl"))
    double = [{"question": "q", "references": ["a"], "id": "x"}] * 2
    with pytest.raises(BadOption, match="'x'"):
        load_data(str(write(tmp_path / "double.jsonl", double)))
    (tmp_path / "coqa_dev.jsonl").write_text('{"story": "s"}\n')
    with pytest.raises(RunError, match="the rows of coqa are not as expected: KeyError 'questions'"):
        load_data("coqa", tmp_path)
    (tmp_path / "truthfulqa.jsonl").write_text("{\n")
    with pytest.raises(RunError, match=r"truthfulqa.jsonl, line 1: .* not valid JSON"):
        load_data("truthfulqa", tmp_path)


# -- the draw ---------------------------------------------------------------------------------------------------


def test_a_larger_limit_adds_to_a_smaller_one(tmp_path):
    rows = [{"question": f"q{k}", "references": ["a"]} for k in range(50)]
    data = load_data(str(write(tmp_path / "mine.jsonl", rows)))
    ten, twenty = choose_items(data, 10, 3), choose_items(data, 20, 3)
    assert twenty[:10] == ten
    assert choose_items(data, 10, 3) == ten
    assert choose_items(data, 10, 4) != ten
    assert choose_items(data, None, 3) == choose_items(data, 99, 3) == data.items


def test_the_hash_is_of_what_is_asked(tmp_path):
    rows = [{"question": "q", "references": ["a"]}]
    one = load_data(str(write(tmp_path / "one.jsonl", rows)))
    same = load_data(str(write(tmp_path / "two.jsonl", rows)))
    other = load_data(str(write(tmp_path / "three.jsonl", [{"question": "q", "references": ["b"]}])))
    assert one.sha256 == same.sha256 != other.sha256


def test_every_source_names_its_file_and_its_hub():
    for source in SOURCES.values():
        assert source.file.endswith(".jsonl")
        assert source.hub is None or source.hub[0].count("/") == 1


def test_open_questions_are_asked_alone_with_the_golden_answers_as_references():
    rows = [{"id": "nq-0", "question": "Who?", "golden": ["Her", "She"], "answers": [{"text": "He", "right": False}]}]
    (item,) = SOURCES["open_questions"].read(rows, "default")
    assert (item.id, item.references, item.question.shots, item.question.context) == (
        "open-nq-0",
        ("Her", "She"),
        (),
        None,
    )
