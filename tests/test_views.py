"""What people read in a terminal and in a notebook. The page has tests of its own, in a browser."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from fakes import fake_pipeline
from results import CANBERRA, EVIL, RESULTS, RISK, SYDNEY, made
from sdlg.progress import Progress
from sdlg.records import Word
from sdlg.result import Result
from sdlg.views.html_file import result_page
from sdlg.views.notebook import notebook_view
from sdlg.views.progress import ProgressLine
from sdlg.views.reading import reading, short_note, word_shades
from sdlg.views.terminal import print_result, visible

ESCAPE = "\x1b"
DOZEN = 12


def shown(result: Result, *, width: int = 80, verbose: bool = False, **console) -> str:
    """The view as it would be printed; without colours unless a terminal is forced."""
    out = Console(file=io.StringIO(), width=width, highlight=False, **console)
    print_result(out, result, verbose=verbose)
    return out.file.getvalue()


def in_colour(result: Result, **more) -> str:
    return shown(result, force_terminal=True, color_system="truecolor", **more)


def marked(result: Result) -> list[str]:
    """What stands in brackets in each alternative."""
    lines = shown(result, width=500, verbose=True).splitlines()
    return [re.search(r"\[(.*?)\]", line).group(1) for line in lines if "●" in line]


# -- control characters -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("character", ["\x1b", "\x00", "\x07", "\x08", "\r", "\x7f", "\x9b", "\u202e", "\u2066"])
def test_control_and_direction_characters_are_made_visible(character):
    assert character not in visible(f"a{character}b")
    assert len(visible(f"a{character}b")) == 3  # offsets stay right


def test_other_characters_stay_themselves():
    assert visible("Tab\tand\nline, 東京 🗼 [bold]é") == "Tab\tand\nline, 東京 🗼 [bold]é"


@given(st.text(max_size=40), st.booleans())
def test_no_control_character_of_any_field_reaches_the_terminal(text, verbose):
    result = made([((text,), (0.6, 0.7, 0.9)), ((f"{text}x", text), (0.1, 0.3, 0.4))], model=text, nli=text)
    view = shown(replace(result, notes=(text,)), verbose=verbose)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", view.replace("\t", ""))


@pytest.mark.parametrize("verbose", [False, True])
def test_model_text_is_no_markup(verbose):
    assert "[red]x[/red]" in shown(RESULTS["markup"], width=200, verbose=verbose)
    assert ESCAPE not in shown(RESULTS["control"], verbose=verbose)


# -- the short view ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", RESULTS)
def test_the_short_view_has_a_dozen_lines_beside_a_long_answers_own(name, width):
    result = RESULTS[name]
    lines = shown(result, width=width).splitlines()
    answer = lines.index("") if "" in lines else lines.index(" " * width)  # its lines stand before an empty one
    assert len(lines) - answer <= DOZEN - 1
    assert max(map(cell_len, lines)) <= width


@given(st.lists(st.tuples(st.text(max_size=200), st.floats(0, 1)), min_size=1, max_size=30), st.integers(80, 200))
def test_any_meanings_fit_into_a_dozen_lines(meanings, width):
    texts = [((f"a {text}",), (share / 2, share, (1 + share) / 2)) for text, share in meanings]
    result = made([((CANBERRA,), (0.3, 0.5, 0.7)), *texts], options={"samples": 100}, risk=RESULTS["rival"].risk)
    cut = replace(result.samples[0], generation=replace(result.answer, stop_reason="length"))
    assert shown(replace(result, samples=(cut, *result.samples[1:])), width=width).count("\n") <= DOZEN


@pytest.mark.parametrize("name", RESULTS)
def test_the_short_view_has_answer_sentence_largest_meanings_and_headline(name):
    result = RESULTS[name]
    view = shown(result, width=200)
    assert reading(result) in view
    assert ("semantic entropy 0.85 nats" in view) is (name != "undefined")
    bars = [line for line in view.splitlines() if "█" in line or "▏" in line]
    shares = [0.0 if "<" in line else float(line.split("%")[0]) for line in bars]
    assert shares == sorted(shares, reverse=True)
    assert sum("this answer" in line for line in bars) == 1  # also where it is not among the largest
    assert ("more meanings" in view) is (len(result.clusters) > 6)


def test_the_answers_own_meaning_is_shown_even_if_it_is_the_smallest():
    others = [((f"Other {n}",), (0.05, 0.1, 0.3)) for n in range(9)]
    view = shown(made([((CANBERRA,), (0.0, 0.01, 0.05)), *others]))
    assert f"this answer: {CANBERRA}" in view
    assert "5 more meanings" in view


def test_meanings_that_begin_like_a_long_answer_are_told_apart():
    shared = "It is well known and often said by everybody who has ever been to the country that it is "
    view = shown(made([((f"{shared}Canberra",), (0.5, 0.7, 0.8)), ((f"{shared}Sydney",), (0.1, 0.3, 0.5))]))
    assert "… Sydney" in view


def test_what_must_not_be_missed_is_noted():
    result = RESULTS["twenty"]
    assert short_note(RESULTS["sure"]) == ""
    assert "40 of 50 sequences" in shown(result)
    cut = replace(result.samples[0], generation=replace(result.answer, stop_reason="length"))
    assert "the answer was cut" in shown(replace(result, samples=(cut, *result.samples[1:])))


def test_a_risk_is_said_where_a_calibration_speaks():
    assert "about 2 in 10 such answers are wrong · semantic entropy" in shown(RESULTS["rival"])
    promise = "about 1 in 10 such answers is wrong; answered: of answers as sure as this at most 1 in 10 is wrong"
    promised = replace(RESULTS["twenty"], risk=replace(RISK, sentence=promise))
    assert f"{promise} · semantic entropy" in " ".join(shown(promised).split())
    assert shown(promised).count("\n") <= DOZEN
    assert "risk of being wrong 20%, measured on 400 answers" in shown(RESULTS["rival"], verbose=True)


def test_an_empty_answer_is_said_to_be_empty():
    view = shown(RESULTS["empty"])
    assert view.splitlines()[0].strip() == "(an empty answer)"
    assert "(empty)" in view


def test_an_answer_of_several_lines_keeps_them():
    assert [line.strip() for line in shown(RESULTS["several_lines"]).splitlines()[:2]] == ["One", "Two"]


# -- everything -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RESULTS)
def test_the_verbose_view_has_every_wording_note_and_number(name):
    result = RESULTS[name]
    view = " ".join(shown(result, width=8000, verbose=True).split())
    for text in (text for cluster in result.clusters for text in cluster.texts if text):
        assert " ".join(visible(text).split()) in view
    assert all(note in view for note in result.notes)
    assert ("entropy of these percentages 0.62 (0.40–0.90) nats" in view) is (result.share_entropy is not None)
    assert view.count("●") == sum(sample.substitution is not None for sample in result.samples)


def test_the_whole_changed_word_is_marked_though_its_token_only_begins_it():
    assert RESULTS["unsure"].samples[1].substitution.replacement == "Sydn"
    assert marked(RESULTS["unsure"]) == ["Sydney."]
    assert marked(RESULTS["emoji"]) == ["eats"]


def test_a_branch_that_ends_early_is_marked():
    assert "The capital of [end]" in shown(RESULTS["shorter"], verbose=True)


def test_measures_that_were_asked_for_and_reasons_for_missing_ones_are_shown():
    result = RESULTS["leans"]
    measured = {**result.estimates, "perplexity": replace(result.estimates["semantic_entropy"], value=2.5)}
    view = shown(replace(result, estimates=measured, unavailable={"SAR": "needs tokens"}), verbose=True)
    assert re.search(r"perplexity +2\.50", view)
    assert re.search(r"SAR +– +needs tokens", view)


# -- colours ----------------------------------------------------------------------------------------------------


def test_words_are_coloured_by_how_likely_another_meaning_begins_there():
    result = RESULTS["unsure"]
    assert word_shades(result) == [word.other_meaning for word in result.words]
    assert f"{ESCAPE}[38;2;181;137;0mCanberra.{ESCAPE}[0m" in in_colour(result)
    assert ESCAPE + "[38" not in in_colour(result, no_color=True)


def test_words_are_coloured_by_attribution_where_nothing_else_is_known():
    result = replace(RESULTS["sure"], words=(Word("The", 0, 3, 0.2), Word("capital", 4, 11, 0.4)))
    assert word_shades(result) == [0.5, 1.0]


# -- the reading ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("sure", "sure"),
        ("leans", "leans towards this answer: 81% (78–86%)"),
        ("unsure", "cannot tell yet how sure it is: 21–63%; more draws may tell"),
        ("multinomial", "more samples may tell"),
        ("rival", "another meaning is likelier: 70%; this answer: 20% (10–30%)"),
        ("seldom", "something else at least nine times in ten"),
        ("no_draws", "2 meanings, this answer's scores highest (draws=0"),
        ("all_alike", "all 2 answers mean the same (draws=0"),
        ("given", "2 meanings, this answer's scores highest"),
        ("alone", "one answer says nothing of other meanings"),
    ],
)
def test_the_reading_says_what_the_interval_does(name, says):
    assert says in reading(RESULTS[name])
    assert ("draws=0" in reading(RESULTS[name])) is ("draws=0" in says)


def test_the_terminal_says_which_setting_may_tell_more():
    assert "(--set draws=20)" in shown(RESULTS["unsure"])
    assert "(--set samples=8)" in shown(RESULTS["multinomial"])
    assert "--set" not in shown(RESULTS["leans"])


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_the_words_do_not_depend_on_where_in_its_interval_a_share_is(first, second, inside):
    low, high = sorted((first, second))
    said = {
        re.sub(r"[<>]?\d+", "N", reading(made([((CANBERRA,), (low, share, high)), ((SYDNEY,), (0.1, 0.2, 0.9))])))
        for share in (low, low + inside * (high - low), high)
    }
    assert len(said) == 1


# -- the notebook -----------------------------------------------------------------------------------------------


def in_frame(result: Result) -> str:
    """The document of the notebook's frame."""
    return unescape(re.search(r'srcdoc="([^"]*)"', notebook_view(result)).group(1))


def test_the_notebook_shows_the_page_in_a_frame():
    assert in_frame(RESULTS["leans"]) == result_page(RESULTS["leans"])


def test_nothing_of_the_model_leaves_the_frame():
    text = f'"></iframe>{EVIL}'
    view = notebook_view(made([((text,), (0.6, 0.7, 0.9))]))
    assert view.count("<script") == 1  # ours, which fits the frame's height
    assert view.count("<iframe") == view.count("</iframe") == 1
    assert 'sandbox="allow-scripts"' in view  # and not allow-same-origin: it cannot reach the notebook
    assert "alert('" not in view


# -- progress ---------------------------------------------------------------------------------------------------


def test_progress_is_silent_without_a_terminal(capsys):
    with ProgressLine() as watch:
        watch(Progress("answer", "It is"))
    assert capsys.readouterr() == ("", "")


def test_every_stage_can_be_shown_on_a_terminal(monkeypatch):
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with ProgressLine() as watch:
        for stage in ("load", "answer", "scores", "branches", "clusters"):
            watch(Progress(stage, f"{ESCAPE}[31m[red]\nhello"))
    assert "hello" in screen.getvalue()
    assert f"{ESCAPE}[31m" not in screen.getvalue()


def test_measures_that_were_asked_for_are_in_the_short_view():
    result = fake_pipeline(measures=["G-NLL", "Deg"]).ask("What?")
    values = " · ".join(f"{name} {result.estimates[name].value:.2f}" for name in ("G-NLL", "Deg"))
    assert values in shown(result)
    assert "G-NLL" not in shown(fake_pipeline().ask("What?"))
