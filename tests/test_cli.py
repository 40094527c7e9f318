"""The command line, with scripted models: exit codes, messages, JSON, many questions, and resuming."""

from __future__ import annotations

import inspect
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

import sdlg
from fakes import CAPITAL, MEANINGS, FakeNli
from sdlg.cli import main
from sdlg.evaluation.defaults import DEFAULT_METHODS
from sdlg.options import DEFAULT_METHOD, METHODS, PRESETS, option_groups
from sdlg.pipeline import Pipeline
from sdlg.sampling import SAMPLERS
from sdlg.serving.settings import Settings

SCHEMA = json.loads((Path(sdlg.__file__).parent / "formats" / "result.schema.json").read_text())
QUESTION = "What is the capital of France?"


@pytest.fixture(autouse=True)
def _fake_models(monkeypatch):
    """Every name is a scripted model."""
    monkeypatch.setattr("sdlg.pipeline.load_model", lambda name, **_: sdlg.ScriptedModel(CAPITAL, name=name))
    monkeypatch.setattr("sdlg.pipeline.load_nli", lambda name, **_: FakeNli(MEANINGS, name=name))


@pytest.fixture
def never_loads(monkeypatch):
    def load(name, **_):
        raise AssertionError(f"{name} was loaded")

    monkeypatch.setattr("sdlg.pipeline.load_model", load)
    monkeypatch.setattr("sdlg.pipeline.load_nli", load)


@pytest.fixture
def run(capsys):
    """Run a command: its exit code, standard output and standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # argparse
            code = stop.code
        return code, *capsys.readouterr()

    return run


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


def test_a_question_shows_the_answer_the_entropy_and_the_alternatives(run):
    code, out, err = run("ask", QUESTION)
    assert (code, err) == (0, "")
    parts = ("It is Paris", "leans towards its answer", "of these percentages", "It is Lyon", "alternatives")
    for part in (*parts, "of all probability"):
        assert part in out


def test_there_are_no_colour_codes_in_a_pipe(run, monkeypatch):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    assert "\x1b" not in "".join(run("ask", QUESTION)[1:])


def test_json_is_one_line_and_valid(run):
    code, out, err = run("ask", QUESTION, "--json", "--context", "A story.")
    assert (code, err, out.count("\n")) == (0, "", 1)
    jsonschema.validate(json.loads(out), SCHEMA)
    assert json.loads(out)["question"] == QUESTION
    assert json.loads(out)["context"] == "A story."


def test_the_context_may_be_a_file(run, tmp_path):
    story = tmp_path / "story.txt"
    story.write_text("\ufeffOnce upon a time …\n", encoding="utf-8")
    assert json.loads(run("ask", QUESTION, "--json", "--context", f"@{story}")[1])["context"] == "Once upon a time …\n"


def test_json_survives_a_pipe_that_is_not_utf8(monkeypatch):
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", pipe)
    assert main(["ask", "Où est 東京 🗼?", "--json"]) == 0
    assert json.loads(pipe.buffer.getvalue().decode("ascii"))["question"] == "Où est 東京 🗼?"


def test_the_view_survives_a_terminal_that_is_not_utf8(monkeypatch):
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", pipe)
    assert main(["ask", QUESTION]) == 0
    assert b"It is Paris" in pipe.buffer.getvalue()


# -- asked wrongly ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", ["", "  \n "])
def test_an_empty_question_is_refused(run, never_loads, question):
    refused(run("ask", question), "the question is empty", "sdlg ask")
    refused(run("ask", question, "--out", "never-made.jsonl"), "the question is empty")


def test_no_question_at_a_terminal_is_refused(run, never_loads, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    refused(run("ask"), "no question", "--file")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--preset", "papper"], ["unknown preset 'papper'", "default, paper"]),
        (["--method", "magic"], ["unknown method 'magic'", "sdlg"]),
        (["--linkage", "chain"], ["unknown linkage 'chain'", "greedy_first, components, last_match"]),
        (["--samples", "0"], ["samples must be a whole number from 1 to 1000, not 0"]),
        (["--temperature", "nan"], ["temperature must be a number from"]),
        (["--file", "questions.txt"], ["a question or --file, not both"]),
        (["--context", "@no/such/file"], ["cannot read no/such/file"]),
    ],
)
def test_a_wrong_option_is_told_before_anything_is_loaded(run, never_loads, arguments, says):
    refused(run("ask", QUESTION, *arguments), *says)


@pytest.mark.parametrize(
    "arguments", [["ask", QUESTION, "--samples", "many"], ["ask", "--no-such-flag"], ["answer"], []]
)
def test_what_cannot_be_parsed_is_a_usage_error(run, never_loads, arguments):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert "usage: sdlg" in err


def test_a_model_that_cannot_do_what_the_preset_needs_says_so(run):
    refused(run("ask", QUESTION, "--preset", "paper"), "cannot decode by beam", "greedy")


# -- failed -----------------------------------------------------------------------------------------------------


def broken(*_, **__):
    raise ZeroDivisionError("of all things")


def test_an_unexpected_failure_is_one_line_without_debug(run, monkeypatch):
    monkeypatch.setattr("sdlg.pipeline.load_nli", broken)
    refused(run("ask", QUESTION), "ZeroDivisionError: of all things", "--debug", code=1)


def test_debug_shows_the_traceback(run, monkeypatch):
    monkeypatch.setattr("sdlg.pipeline.load_nli", broken)
    with pytest.raises(ZeroDivisionError):
        run("ask", QUESTION, "--debug")


def test_being_interrupted_is_not_a_crash(run, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("sdlg.pipeline.load_model", interrupted)
    refused(run("ask", QUESTION), "stopped", code=130)


# -- help and schema --------------------------------------------------------------------------------------------


def test_help_has_examples(run):
    for arguments in (["--help"], ["ask", "--help"]):
        code, out, _ = run(*arguments)
        assert code == 0
        assert 'sdlg ask "Who wrote Hamlet?"' in out
        assert "--out results.jsonl" in out


def test_every_option_has_a_flag_that_reaches_it(run):
    text = run("ask", "--help")[1]
    for name, group in option_groups().items():
        flag = f"--{name.replace('_', '-')}"
        assert f"{flag} " in text
        here = PRESETS["default"]
        default = getattr(getattr(here, group) if group else here, name)
        value = default if isinstance(default, str) else default / 2 if isinstance(default, float) else 7
        options = json.loads(run("ask", QUESTION, "--json", flag, value)[1])["options"]
        wanted = ([7] if name.endswith("ids") else ["7"]) if isinstance(default, tuple) else value
        assert (options[group] if group else options)[name] == wanted


def test_help_names_the_defaults_that_are_used(run):
    assert tuple(SAMPLERS) == METHODS
    texts = {command: " ".join(run(command, "--help")[1].split()) for command in ("ask", "serve", "eval")}
    limits = Settings().limits
    assert f"{', '.join(SAMPLERS)} (default: {DEFAULT_METHOD})" in texts["ask"]
    assert f"the embedded {inspect.signature(Pipeline).parameters['model'].default};" in texts["ask"]
    assert f"longest prompt (default: {limits.prompt_characters})" in texts["serve"]
    assert f"most per request (default: {limits.samples})" in texts["serve"]
    assert f"(default: {', '.join(DEFAULT_METHODS)})" in texts["eval"]


def test_help_tells_where_the_presets_differ(run):
    text = " ".join(run("ask", "--help")[1].split())
    assert "(default: answers; paper: not_contradiction)" in text
    assert "(default: 64)" in text


def test_schema_prints_a_valid_schema(run):
    code, out, _ = run("schema")
    assert code == 0
    jsonschema.Draft202012Validator.check_schema(json.loads(out))
    assert json.loads(out) == SCHEMA


# -- many questions ---------------------------------------------------------------------------------------------


def test_a_text_file_gives_one_valid_line_per_question(run, tmp_path):
    asked = ["Who?", "東京はどこ？", "🗼 where?"]
    questions = tmp_path / "questions.txt"
    questions.write_bytes("\ufeffWho?\r\n\r\n   \n  東京はどこ？\n🗼 where?".encode())
    code, out, err = run("ask", "--file", questions)
    assert (code, err) == (0, "")
    assert [row["question"] for row in rows(out)] == asked
    for row in rows(out):
        jsonschema.validate(row, SCHEMA)


def test_json_lines_may_bring_their_own_context(run, tmp_path):
    lines = [{"question": "Who?", "context": "A story."}, {"question": "When?"}, {"question": "Why?", "context": None}]
    questions = tmp_path / "questions.jsonl"
    questions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, out, _ = run("ask", "--file", questions, "--context", "For all.")
    assert code == 0
    assert [(row["question"], row["context"]) for row in rows(out)] == [
        ("Who?", "A story."), ("When?", "For all."), ("Why?", None),
    ]  # fmt: skip


def test_only_a_newline_ends_a_line(run, tmp_path):
    question = "One\u2028two\x85three?"
    questions = tmp_path / "questions.jsonl"
    questions.write_text(json.dumps({"question": question}, ensure_ascii=False) + "\n", encoding="utf-8")
    code, out, _ = run("ask", "--file", questions)
    assert code == 0
    assert [row["question"] for row in rows(out)] == [question]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"question": "Who?"', "not valid JSON"),
        ('{"a": ' + "[" * 100_000, "not valid JSON"),
        ('{"a": ' + "1" * 5000 + "}", "not valid JSON"),
        ('{"query": "Who?"}', 'no "question"'),
        ('{"question": "  "}', 'no "question"'),
        ('{"question": 5}', 'no "question"'),
        ('{"question": "Who?", "context": 5}', '"context" must be a text'),
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
    assert (first["question"], last["question"]) == ("First?", "Last?")
    assert (wrong["format"], wrong["line"], wrong["question"]) == ("sdlg.error/1", 3, None)
    assert says in wrong["error"]


@pytest.mark.parametrize("content", ["", "\n \n\n"])
def test_a_file_without_a_question_is_refused(run, never_loads, tmp_path, content):
    questions = tmp_path / "questions.txt"
    questions.write_text(content)
    refused(run("ask", "--file", questions), "no question", "questions.txt")


def test_a_file_that_cannot_be_read_is_refused(run, never_loads, tmp_path):
    refused(run("ask", "--file", tmp_path / "none.txt"), "cannot read", "none.txt")
    refused(run("ask", "--file", tmp_path), "cannot read")
    (tmp_path / "latin.txt").write_bytes(b"O\xf9?")
    refused(run("ask", "--file", tmp_path / "latin.txt"), "cannot read", "utf-8")


def test_questions_come_from_a_pipe(run, piped):
    piped("Who?\n🗼 where?\n".encode())
    code, out, _ = run("ask")
    assert code == 0
    assert [row["question"] for row in rows(out)] == ["Who?", "🗼 where?"]


def test_an_empty_pipe_is_refused(run, piped, never_loads):
    piped(b"")
    refused(run("ask"), "no question in the input")


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
    assert [row["question"] for row in rows(out.read_text())] == ["{Who} is\nthat?"]


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


@pytest.mark.parametrize("torn", ["{", '{"format": "sdl', '{"format": "sdlg.result/2", "question": "Sec'])
def test_a_torn_last_line_is_repaired(run, questions, finished, torn):
    whole = without_seconds(finished)
    finished.write_text(finished.read_text().splitlines(keepends=True)[0] + torn)
    run("ask", "--file", questions, "--out", finished)
    assert without_seconds(finished) == whole


def test_a_finished_run_is_not_run_again(run, questions, finished, monkeypatch):
    before = finished.read_bytes()
    monkeypatch.setattr("sdlg.pipeline.load_model", broken)
    code, out, err = run("ask", "--file", questions, "--out", finished)
    assert (code, out) == (0, "")
    assert "holds 4 of 4 results; nothing is left to do" in err
    assert finished.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--max-tokens", "32"], "--max-tokens 64, not 32"),
        (["--seed", "3"], "--seed 0, not 3"),
        (["--model", "other"], "--model smollm2, not other"),
        (["--nli", "other"], "--nli nli-minilm, not other"),
        (["--preset", "paper"], "--prompt auto, not plain"),
        (["--context", "A story."], "another context"),
    ],
)
def test_results_made_with_other_options_are_refused_naming_the_option(run, questions, finished, arguments, says):
    before = finished.read_bytes()
    refused(run("ask", "--file", questions, "--out", finished, *arguments), says, "name another output file")
    assert finished.read_bytes() == before


def test_results_of_other_questions_are_refused(run, questions, finished):
    refused(run("ask", "Who?", "--out", finished), "4 results for 1 questions")
    questions.write_text("First?\nAnother?\nThird?\nFourth?\n")
    refused(run("ask", "--file", questions, "--out", finished), "line 2", "'Second?', not 'Another?'")


@pytest.mark.parametrize(
    "content", ["notes without a newline", "notes\n", "[1]\n", '{"question": "First?"}\n', "\n", "\xff\n"]
)
def test_a_file_that_holds_no_results_is_refused_and_left_alone(run, never_loads, questions, tmp_path, content):
    out = tmp_path / "mine.txt"
    out.write_text(content, encoding="latin-1")
    refused(run("ask", "--file", questions, "--out", out), "mine.txt, line 1 is not a result")
    assert out.read_text(encoding="latin-1") == content


def test_the_questions_are_not_overwritten_by_the_results(run, never_loads, questions):
    before = questions.read_bytes()
    refused(run("ask", "--file", questions, "--out", questions), "is not a result")
    assert questions.read_bytes() == before


def test_an_output_file_that_cannot_be_written_is_told_before_anything_is_loaded(run, never_loads, questions, tmp_path):
    refused(run("ask", "--file", questions, "--out", tmp_path), "cannot write")
    refused(run("ask", "--file", questions, "--out", tmp_path / "no" / "folder.jsonl"), "cannot write")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told_with_what_to_do(run, questions):
    refused(run("ask", "--file", questions, "--out", "/dev/full"), "No space left", "--out to go on", code=1)


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


def test_a_model_that_does_not_exist_is_told_without_a_traceback(tmp_path):
    arguments = ["-m", "sdlg.cli", "ask", QUESTION, "--model", str(tmp_path / "nowhere")]
    done = program(*arguments, env={**os.environ, "HF_HUB_OFFLINE": "1", "SDLG_HOME": str(tmp_path)})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("sdlg: cannot load the language model")
    assert "nowhere" in done.stderr
    assert "smollm2" in done.stderr
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


@pytest.mark.parametrize("count", ["0", "-1", "many"])
def test_questions_in_flight_are_at_least_one(count, capsys):
    with pytest.raises(SystemExit) as refusal:
        main(["ask", "Where?", "--in-flight", count])
    assert refusal.value.code == 2
    assert "at least 1" in capsys.readouterr().err
