"""The command line, with scripted models: exit codes, messages, JSON, many questions, and resuming."""

from __future__ import annotations

import inspect
import io
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import jsonschema
import pytest

from fakes import NeverLoaded, fake_models
from sdlg import Models, ScriptedModel
from sdlg.cli import main
from sdlg.errors import TimedOut
from sdlg.files import is_intact, one_writer
from sdlg.options import LOADING, METHODS, OPTIONS, PRESETS
from sdlg.pipeline import Pipeline
from sdlg.sampling import SAMPLERS
from sdlg.schema import result_from_json, result_schema

QUESTION = "What is the capital of France?"


@pytest.fixture
def run(capsys):
    """Run a command: its exit code, standard output and standard error."""

    def run(*arguments: object, load=fake_models) -> tuple[int, str, str]:
        try:
            code = main([str(argument) for argument in arguments], load=load)
        except SystemExit as stop:  # --help
            code = stop.code
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def checked(run):
    """Run a command that must fail before anything is loaded."""
    return lambda *arguments: run(*arguments, load=NeverLoaded)


@pytest.fixture
def piped(monkeypatch):
    def pipe(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))

    return pipe


def rows(text: str) -> list[dict]:
    return [json.loads(line) for line in text.split("\n")[:-1]]


def refused(outcome: tuple[int, str, str], *says: str, code: int = 2) -> None:
    """It failed with one clear message and nothing else."""
    found, out, err = outcome
    assert (found, out) == (code, "")
    assert err.startswith("sdlg: ")
    assert "Traceback" not in err
    for part in says:
        assert part in err


# -- one question -----------------------------------------------------------------------------------------------


def test_a_question_shows_the_answer_and_its_meanings(run):
    code, out, err = run("ask", QUESTION)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) <= 14
    for part in ("It is Paris", "It is Lyon", "semantic entropy"):
        assert part in out
    assert len(run("ask", QUESTION, "-v")[1]) > len(out)


def test_there_are_no_colour_codes_in_a_pipe(run, monkeypatch):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    assert "\x1b" not in "".join(run("ask", QUESTION)[1:])


def test_json_is_one_line_and_valid(run):
    code, out, err = run("ask", QUESTION, "--json", "--context", "A story.")
    assert (code, err, out.count("\n")) == (0, "", 1)
    jsonschema.validate(json.loads(out), result_schema())
    asked = json.loads(out)["question"]
    assert (asked["text"], asked["context"]) == (QUESTION, "A story.")
    assert result_from_json(out).to_json() == out.strip()


def test_the_context_may_be_a_file(run, tmp_path):
    story = tmp_path / "story.txt"
    story.write_text("\ufeffOnce upon a time …\n", encoding="utf-8")
    asked = json.loads(run("ask", QUESTION, "--json", "--context", f"@{story}")[1])["question"]
    assert asked["context"] == "Once upon a time …\n"


def test_json_survives_a_pipe_that_is_not_utf8(monkeypatch):
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", pipe)
    assert main(["ask", "Où est 東京 🗼?", "--json"], load=fake_models) == 0
    assert json.loads(pipe.buffer.getvalue().decode("ascii"))["question"]["text"] == "Où est 東京 🗼?"


def test_the_view_survives_a_terminal_that_is_not_utf8(monkeypatch):
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", pipe)
    assert main(["ask", QUESTION], load=fake_models) == 0
    assert b"It is Paris" in pipe.buffer.getvalue()


def test_a_page_is_written_beside_the_view(run, checked, tmp_path):
    page = tmp_path / "page.html"
    assert run("ask", QUESTION, "--html", page)[0] == 0
    assert "It is Paris" in page.read_text(encoding="utf-8")
    refused(checked("ask", QUESTION, "--html", tmp_path / "no" / "folder.html"), "cannot write")
    refused(checked("ask", "--file", page, "--html", page), "--html shows one question")


# -- asked wrongly ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", ["", "  \n ", "\ud800"])
def test_a_question_that_cannot_be_asked_is_refused(checked, question, tmp_path):
    refused(checked("ask", question), "the question")
    refused(checked("ask", question, "--out", tmp_path / "never-made.jsonl"), "the question")
    assert list(tmp_path.iterdir()) == []


def test_no_question_at_a_terminal_is_refused(checked, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    refused(checked("ask"), "no question", "--file")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--preset", "papper"], ["unknown preset 'papper'", "did you mean paper?"]),
        (["--method", "magic"], ["unknown method 'magic'", "sdlg"]),
        (["--set", "linkage=chain"], ["unknown linkage 'chain'", "greedy_first"]),
        (["--set", "temprature=1"], ["unknown option 'temprature'", "did you mean temperature?"]),
        (["--set", "temperature"], ["name=value"]),
        (["--set", "temperature=hot"], ["temperature must be a number"]),
        (["--set", "temperature=nan"], ["temperature must be a number from"]),
        (["--set", "in_flight=-1"], ["in_flight must be"]),
        (["--samples", "0"], ["samples must be a whole number from 1 to 1000, not 0"]),
        (["--samples", "many"], ["samples must be a whole number, not 'many'"]),
        (["--measures", "SAAR"], ["unknown measure 'SAAR'"]),
        (["--calibration", "no/such/file"], ["no/such/file"]),
        (["--timeout", "-1"], ["timeout must be more than 0"]),
        (["--file", "questions.txt"], ["a question or --file, not both"]),
        (["--context", "@no/such/file"], ["cannot read no/such/file"]),
    ],
)
def test_a_wrong_option_is_an_error_before_anything_is_loaded(checked, arguments, says):
    refused(checked("ask", QUESTION, *arguments), *says)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ask", QUESTION, "--max_tokens", "5"], "did you mean --max-tokens?"),
        (["ask", QUESTION, "--smaples", "5"], "did you mean --samples?"),
        (["ask", QUESTION, "--smaples=5"], "did you mean --samples?"),
        (["ask", QUESTION, "--temperature", "0.5"], "did you mean --set temperature=VALUE?"),
        (["ask", QUESTION, "--tokeniser", "x"], "did you mean --set tokenizer=VALUE?"),
        (["eval", "--dta", "x"], "did you mean --data?"),
        (["aks", QUESTION], "did you mean ask?"),
        (["list", "mesures"], "did you mean measures?"),
        (["ask", QUESTION, "--timeout", "soon"], "invalid float value: 'soon'"),
        (["ask", QUESTION, "two"], 'unknown argument two; put a text of several words in quotes: "Who wrote Hamlet?"'),
        (["ask", QUESTION, "--bogus"], "unknown argument --bogus (see"),
        (["ask", QUESTION, "--measures", "SAAR"], "did you mean SAR?"),
        (["ask", QUESTION, "--html", "/tmp"], "cannot write /tmp: it is a folder"),
        (["show", "/tmp"], "cannot read /tmp: Is a directory"),
        (["ask", "--no-such-flag"], "unknown argument --no-such-flag"),
        ([], "sdlg --help"),
    ],
)
def test_what_is_mistyped_gets_a_suggestion(checked, arguments, says):
    refused(checked(*arguments), says)


def test_a_model_that_cannot_do_what_the_preset_needs_says_so(run):
    refused(run("ask", QUESTION, "--preset", "paper"), "cannot decode by beam", "greedy")


# -- failed -----------------------------------------------------------------------------------------------------


def failing(error: BaseException):
    class Failing(Models):
        def load(self, *_, **__):
            raise error

    return Failing


def test_an_unexpected_failure_is_one_line_without_debug(run):
    broken = failing(ZeroDivisionError("of all things"))
    refused(run("ask", QUESTION, load=broken), "ZeroDivisionError: of all things", "--debug", code=1)
    with pytest.raises(ZeroDivisionError):
        run("ask", QUESTION, "--debug", load=broken)


def test_being_interrupted_is_not_a_crash(run):
    refused(run("ask", QUESTION, load=failing(KeyboardInterrupt())), "stopped", code=130)


# -- help, lists and schema -------------------------------------------------------------------------------------


def test_help_fits_on_one_screen_and_has_examples(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run("ask", "--help")
    assert code == 0
    assert len(out.splitlines()) <= 45
    assert max(map(len, out.splitlines())) <= 80
    assert out.count("  sdlg ask ") >= 5
    assert "--debug" not in out
    assert 'sdlg ask "Who wrote Hamlet?"' in run("--help")[1]


def test_help_names_the_defaults_that_are_used(run):
    assert tuple(SAMPLERS) == METHODS
    text = " ".join(run("ask", "--help")[1].split())
    usual = inspect.signature(Pipeline).parameters
    assert ", ".join(METHODS) in text
    for said in (
        usual["model"].default,
        usual["nli"].default,
        OPTIONS["samples"].default,
        OPTIONS["max_tokens"].default,
    ):
        assert f"(default: {said})" in text


def value_of(option) -> object:
    """Another value than the default, where there is one."""
    limits, default = option.metadata, option.default
    if "choices" in limits:
        return default
    return default / 2 if isinstance(default, float) else 7 if isinstance(default, int) else "a,b"


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_is_reached_by_set(run, name):
    value = value_of(OPTIONS[name])
    code, out, _ = run("ask", QUESTION, "--json", "--set", f"{name}={value}")
    assert code == 0
    assert json.loads(out)["options"][name] == (["a", "b"] if value == "a,b" else value)


def test_the_last_of_several_settings_counts(run):
    _, out, _ = run("ask", QUESTION, "--json", "--samples", 3, "--set", "samples=4", "--set", "seed=1", "--samples", 2)
    options = json.loads(out)["options"]
    assert (options["samples"], options["seed"]) == (2, 1)


def test_lists_name_every_option_with_its_default_and_presets(run):
    rows = json.loads(run("list", "options", "--json")[1])
    assert {row["name"] for row in rows} == {*OPTIONS, *LOADING}
    found = {row["name"]: row for row in rows}
    assert found["strategy"]["presets"] == {"paper": "beam"}
    assert (found["samples"]["default"], found["samples"]["range"]) == (10, [1, 1000])
    text = run("list", "options")[1]
    assert all(f"  {name} " in text for name in found)
    for preset in PRESETS:
        assert preset in run("list", "presets")[1]
    assert all(method in run("list", "methods")[1] for method in METHODS)


def test_lists_describe_measures(run):
    rows = json.loads(run("list", "measures", "--json")[1])
    assert {"name", "aliases", "unit", "higher_is_less_certain", "range", "needs", "equation", "cost"} <= set(rows[0])
    text = run("list", "measures")[1]
    assert len(text.splitlines()) < 60
    assert len(run("list", "measures", "-v")[1]) > len(text)


def test_schema_prints_a_valid_schema(run):
    code, out, _ = run("schema")
    assert code == 0
    jsonschema.Draft202012Validator.check_schema(json.loads(out))
    assert json.loads(out) == result_schema()


# -- many questions ---------------------------------------------------------------------------------------------


def test_a_text_file_gives_one_valid_line_per_question(run, tmp_path):
    asked = ["Who?", "東京はどこ？", "🗼 where?"]
    questions = tmp_path / "questions.txt"
    questions.write_bytes("\ufeffWho?\r\n\r\n   \n  東京はどこ？\n🗼 where?".encode())
    code, out, err = run("ask", "--file", questions)
    assert (code, err) == (0, "")
    assert [row["question"]["text"] for row in rows(out)] == asked
    for row in rows(out):
        jsonschema.validate({k: v for k, v in row.items() if k != "crc32"}, result_schema())


def test_json_lines_may_bring_their_own_context(run, tmp_path):
    lines = [{"question": "Who?", "context": "A story."}, {"question": "When?"}, {"question": "Why?", "context": None}]
    questions = tmp_path / "questions.jsonl"
    questions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, out, _ = run("ask", "--file", questions, "--context", "For all.")
    assert code == 0
    assert [(row["question"]["text"], row["question"]["context"]) for row in rows(out)] == [
        ("Who?", "A story."), ("When?", "For all."), ("Why?", None),
    ]  # fmt: skip


def test_only_a_newline_ends_a_line(run, tmp_path):
    question = "One\u2028two\x85three?"
    questions = tmp_path / "questions.jsonl"
    questions.write_text(json.dumps({"question": question}, ensure_ascii=False) + "\n", encoding="utf-8")
    code, out, _ = run("ask", "--file", questions)
    assert code == 0
    assert [row["question"]["text"] for row in rows(out)] == [question]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"question": "Who?"', "not valid JSON"),
        ('{"a": ' + "[" * 100_000, "not valid JSON"),
        ('{"a": ' + "1" * 5000 + "}", "not valid JSON"),
        ('{"query": "Who?"}', "question: "),
        ('{"question": "  "}', "question is empty"),
        ('{"question": 5}', "question: must be a valid string, not 5"),
        ('{"question": "Who?", "context": 5}', "context: "),
        ('{"question": "\\ud83d who?"}', "surrogate"),
    ],
)
def test_a_line_that_is_no_question_becomes_an_error_line_and_the_others_are_answered(run, tmp_path, line, says):
    questions = tmp_path / "questions.jsonl"
    questions.write_text(f"First?\n\n{line}\nLast?\n")
    code, out, err = run("ask", "--file", questions)
    assert code == 1
    assert "1 of 3 questions could not be answered" in err
    first, wrong, last = rows(out)
    assert (first["question"]["text"], last["question"]["text"]) == ("First?", "Last?")
    assert (wrong["format"], wrong["line"], wrong["question"]) == ("sdlg.error/1", 3, None)
    assert says in wrong["error"]


@pytest.mark.parametrize("content", ["", "\n \n\n"])
def test_a_file_without_a_question_is_refused(checked, tmp_path, content):
    questions = tmp_path / "questions.txt"
    questions.write_text(content)
    refused(checked("ask", "--file", questions), "no question", "questions.txt")


def test_a_file_that_cannot_be_read_is_refused(checked, tmp_path):
    refused(checked("ask", "--file", tmp_path / "none.txt"), "cannot read", "none.txt")
    refused(checked("ask", "--file", tmp_path), "cannot read")
    (tmp_path / "latin.txt").write_bytes(b"O\xf9?")
    refused(checked("ask", "--file", tmp_path / "latin.txt"), "cannot read", "utf-8")


def test_questions_come_from_a_pipe(run, piped):
    piped("Who?\n🗼 where?\n".encode())
    code, out, _ = run("ask")
    assert code == 0
    assert [row["question"]["text"] for row in rows(out)] == ["Who?", "🗼 where?"]


def test_an_empty_pipe_is_refused(checked, piped):
    piped(b"")
    refused(checked("ask"), "no question in the input")


# -- --out and resuming -----------------------------------------------------------------------------------------

ASKED = ["First?", "Second?", "{broken", "Fourth?"]


@pytest.fixture
def questions(tmp_path) -> Path:
    path = tmp_path / "questions.txt"
    path.write_text("\n".join(ASKED) + "\n")
    return path


@pytest.fixture
def finished(run, questions, tmp_path) -> Path:
    """The output of a whole run."""
    path = tmp_path / "results.jsonl"
    assert run("ask", "--file", questions, "--out", path)[0] == 1
    return path


def without_seconds(path: Path) -> list[dict]:
    found = rows(path.read_text())
    for row in found:
        row.get("cost", {}).pop("seconds", None)
        row.pop("crc32", None)  # of the seconds, too
    return found


def test_out_takes_the_lines_and_nothing_is_printed(run, tmp_path):
    out = tmp_path / "results.jsonl"
    assert run("ask", "{Who} is\nthat?", "--out", out) == (0, "", "")
    assert [row["question"]["text"] for row in rows(out.read_text())] == ["{Who} is\nthat?"]


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_a_stopped_run_goes_on_where_it_stopped(run, questions, finished, kept):
    whole = without_seconds(finished)
    first = "".join(finished.read_text().splitlines(keepends=True)[:kept])
    finished.write_text(first)
    code, out, err = run("ask", "--file", questions, "--out", finished)
    assert (code, out) == (1 if kept < 3 else 0, "")
    assert (f"holds {kept} of 4 results; going on" in err) == (kept > 0)
    assert finished.read_text().startswith(first)
    assert without_seconds(finished) == whole


@pytest.mark.parametrize("torn", ["{", '{"format": "sdl', '{"format": "sdlg.result/1", "question": "Sec'])
def test_a_torn_last_line_is_repaired(run, questions, finished, torn):
    whole = without_seconds(finished)
    finished.write_text(finished.read_text().splitlines(keepends=True)[0] + torn)
    run("ask", "--file", questions, "--out", finished)
    assert without_seconds(finished) == whole


def test_a_finished_run_is_not_run_again(checked, questions, finished):
    before = finished.read_bytes()
    code, out, err = checked("ask", "--file", questions, "--out", finished)
    assert (code, out) == (0, "")
    assert "holds 4 of 4 results; nothing is left to do" in err
    assert finished.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--max-tokens", "32"], "max_tokens=64, not 32"),
        (["--set", "seed=3"], "seed=0, not 3"),
        (["--model", "other"], "model=qwen2.5-coder-1.5b, not other"),
        (["--nli", "other"], "nli=nli-minilm, not other"),
        (["--preset", "paper"], "strategy=greedy, not beam"),
        (["--measures", "perplexity"], "measures="),
        (["--set", "dtype=bfloat16"], "dtype=None, not bfloat16"),
        (["--context", "A story."], "another context"),
    ],
)
def test_results_made_with_other_options_are_refused_naming_the_option(checked, questions, finished, arguments, says):
    before = finished.read_bytes()
    refused(checked("ask", "--file", questions, "--out", finished, *arguments), says, "name another output file")
    assert finished.read_bytes() == before


def test_every_line_carries_a_checksum_and_a_flipped_byte_is_found(checked, questions, finished):
    lines = finished.read_bytes().split(b"\n")[:-1]
    assert all(b'"crc32"' in line and is_intact(line) for line in lines)
    finished.write_bytes(finished.read_bytes().replace(b"Second?", b"Sekond?"))
    refused(checked("ask", "--file", questions, "--out", finished), "line 2 is damaged")


@pytest.fixture
def late():
    """Questions for which the model is too late, and models of this kind."""
    questions = set()

    class Slow(ScriptedModel):
        def prompt(self, question, *rest):
            if question.text in questions:
                raise TimedOut("no answer within 2 s; allow more time, or ask for less")
            return super().prompt(question, *rest)

    return questions, partial(fake_models, kind=Slow)


def formats(path: Path) -> list[str]:
    return [row["format"].split(".")[1] for row in rows(path.read_text())]


def test_questions_that_were_too_late_are_asked_again(run, late, questions, finished):
    late_questions, load = late
    whole = without_seconds(finished)
    finished.unlink()
    late_questions.update(("First?", "Second?"))
    asking = ("ask", "--file", questions, "--out", finished)
    assert run(*asking, load=load)[0] == 1
    assert formats(finished) == ["error/1", "error/1", "error/1", "result/1"]
    last = finished.read_text().splitlines()[3]
    late_questions.discard("First?")
    code, _, err = run(*asking, load=load)
    assert code == 1  # one is still too late
    assert "2 of them broken off and asked again" in err
    assert formats(finished) == ["result/1", "error/1", "error/1", "result/1"]
    late_questions.clear()
    assert run(*asking, load=load)[0] == 0
    assert without_seconds(finished) == whole
    assert finished.read_text().splitlines()[3] == last
    assert "nothing is left to do" in run(*asking, load=NeverLoaded)[2]


def test_what_was_broken_off_and_what_was_never_begun_are_both_done(run, late, questions, finished):
    late_questions, load = late
    whole = without_seconds(finished)
    finished.unlink()
    late_questions.add("First?")
    run("ask", "--file", questions, "--out", finished, load=load)
    finished.write_text("".join(finished.read_text().splitlines(keepends=True)[:2]))  # as if it had been killed
    late_questions.clear()
    assert run("ask", "--file", questions, "--out", finished, load=load)[0] == 1
    assert without_seconds(finished) == whole


def test_two_writers_are_one_too_many(checked, questions, finished, tmp_path):
    given = tmp_path / "rows.jsonl"
    given.write_text('{"question": "q", "answers": ["a", "b"]}\n')
    with one_writer(finished, "sdlg ask"):
        refused(checked("ask", "--file", questions, "--out", finished), "another sdlg ask is writing")
        refused(checked("score", given, "-o", finished), "another sdlg score is writing")


def test_results_of_other_questions_are_refused(run, questions, finished):
    refused(run("ask", "Who?", "--out", finished), "4 results for 1 questions")
    questions.write_text("First?\nAnother?\nThird?\nFourth?\n")
    refused(run("ask", "--file", questions, "--out", finished), "line 2", "'Second?', not 'Another?'")


@pytest.mark.parametrize(
    "content", ["notes without a newline", "notes\n", "[1]\n", '{"question": "First?"}\n', "\n", "\xff\n"]
)
def test_a_file_that_holds_no_results_is_refused_and_left_alone(checked, questions, tmp_path, content):
    out = tmp_path / "mine.txt"
    out.write_text(content, encoding="latin-1")
    refused(checked("ask", "--file", questions, "--out", out), "mine.txt, line 1")
    assert out.read_text(encoding="latin-1") == content


def test_the_questions_are_not_overwritten_by_the_results(checked, questions):
    before = questions.read_bytes()
    refused(checked("ask", "--file", questions, "--out", questions), "line 1")
    assert questions.read_bytes() == before


def test_an_output_file_that_cannot_be_written_is_told_before_anything_is_loaded(checked, questions, tmp_path):
    refused(checked("ask", "--file", questions, "--out", tmp_path), "cannot write")
    refused(checked("ask", "--file", questions, "--out", tmp_path / "no" / "folder.jsonl"), "cannot write")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told_with_what_to_do(run, questions):
    refused(run("ask", "--file", questions, "--out", "/dev/full"), "No space left", "--out to go on", code=1)


# -- showing stored results ------------------------------------------------------------------------------------


def test_show_shows_stored_results_and_what_went_wrong(run, finished):
    code, out, err = run("show", finished)
    assert (code, err) == (0, "")
    assert [out.index(part) for part in ("First?", "Second?", "no answer", "Fourth?")] == sorted(
        out.index(part) for part in ("First?", "Second?", "no answer", "Fourth?")
    )
    assert len(run("show", finished, "-v")[1]) > len(out)
    fourth = run("show", finished, "4", "1")[1]
    assert fourth.index("Fourth?") < fourth.index("First?")
    assert "Second?" not in fourth


def test_show_writes_one_result_as_a_page(run, finished, tmp_path):
    page = tmp_path / "page.html"
    assert run("show", finished, "2", "--html", page) == (0, "", "")
    assert "Second?" in page.read_text(encoding="utf-8")
    refused(run("show", finished, "--html", page), "one result")
    refused(run("show", finished, "3", "--html", page), "no result")


def test_show_takes_what_json_printed_and_refuses_the_rest(run, tmp_path, questions, finished):
    one = tmp_path / "one.json"
    one.write_text(run("ask", QUESTION, "--json")[1].rstrip("\n"))
    assert "It is Paris" in run("show", one)[1]
    one.write_text("")
    refused(run("show", one), "no result")
    refused(run("show", questions), "line 1")
    refused(run("show", finished, "5"), "lines 1 to 4, not 5")


# -- as a program -----------------------------------------------------------------------------------------------


def program(*arguments: str, **more) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, **more)


@pytest.mark.parametrize(
    "run_it", ["", "from sdlg.cli import main; main(['ask', '--help'])", "from sdlg.cli import main; main(['schema'])"]
)
def test_importing_and_helping_load_nothing_heavy(run_it):
    code = f"""
import sdlg, sys
try:
    {run_it or "pass"}
except SystemExit:
    pass
heavy = {{"torch", "transformers", "numpy", "rich"}} & set(sys.modules)
sys.exit(f"loaded: {{heavy}}" if heavy else 0)
"""
    done = program("-c", code)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nowhere/at-all", "sdlg: cannot load the language model 'nowhere/at-all': "),
        ("nowhere/smollm2", "sdlg: cannot load the language model 'nowhere/smollm2': "),  # a name of the hub's
        ("/nowhere/at-all", "sdlg: there is no folder /nowhere/at-all"),
        ("/tmp", "sdlg: /tmp holds no model: there is no config.json in it"),
        ("smolm2", "sdlg: there is no model 'smolm2'; did you mean smollm2? (sdlg models)"),
    ],
)
def test_a_model_that_does_not_exist_is_told_without_a_traceback(tmp_path, name, says):
    environment = {key: value for key, value in os.environ.items() if key != "HF_HUB_OFFLINE"}
    arguments = ["-m", "sdlg.cli", "ask", QUESTION, "--model", name]
    done = program(*arguments, env={**environment, "SDLG_OFFLINE": "1", "SDLG_HOME": str(tmp_path)})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(says)
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_gone_is_not_an_error():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "sdlg.cli", "schema"], stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_cannot_be_written_is_told_once():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "sdlg.cli", "schema"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left" in done.stderr


def test_a_wrong_option_ends_with_code_2():
    done = program("-m", "sdlg.cli", "ask", QUESTION, "--samples", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "sdlg: samples must be a whole number from 1 to 1000, not 0\n"


@pytest.mark.parametrize(
    ("command", "code"), [("ask x >&-", 2), ("score - >&-", 2), ("schema >&-", 1), ("score - <&-", 2)]
)
def test_a_closed_stream_is_told_in_one_line(command, code):
    done = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m sdlg.cli {command}"], capture_output=True, text=True, stdin=subprocess.PIPE
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("sdlg: ")
    assert done.stderr.count("\n") == 1


def test_errors_never_go_among_the_results_where_standard_error_is_closed(tmp_path):
    done = subprocess.run(["sh", "-c", f"'{sys.executable}' -m sdlg.cli ask '' 2>&-"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
