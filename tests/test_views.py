"""What people see in a terminal and in a notebook. The page has tests of its own, in a browser."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from html import unescape
from itertools import pairwise

import pytest
from rich.cells import cell_len
from rich.console import Console

from fakes import CAPITAL, fake_pipeline
from sdlg.formats.results import Result
from sdlg.pipeline import Progress
from sdlg.views.html_file import result_page
from sdlg.views.notebook import notebook_view
from sdlg.views.progress import ProgressLine
from sdlg.views.reading import reading, word_shades
from sdlg.views.terminal import ALTERNATIVES, print_result, terminal_view, visible

ESCAPE = "\x1b"
LONG = {"": {"word " * 2000 + "a": 0.6, "word " * 2000 + "b": 0.4}}


def asked(script=CAPITAL, **options) -> Result:
    return fake_pipeline(script, **options).ask("What?")


def shown(result: Result, *, width: int = 100, **console) -> str:
    """The view as it would be printed; without colours unless a terminal is forced."""
    out = Console(file=io.StringIO(), width=width, highlight=False, **console)
    print_result(out, result)
    return out.file.getvalue()


def in_colour(result: Result, **more) -> str:
    return shown(result, force_terminal=True, color_system="truecolor", **more)


def underlined(result: Result) -> list[str]:
    """What is marked in each alternative."""
    alternatives = next(
        part.renderable
        for before, part in pairwise(terminal_view(result).renderables)
        if getattr(before, "plain", "") == ALTERNATIVES
    )
    texts = list(alternatives.columns[2].cells)
    return [
        text.plain[span.start : span.end] for text in texts for span in text.spans if "underline" in str(span.style)
    ]


# -- control characters -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("character", ["\x1b", "\x00", "\x07", "\x08", "\r", "\x7f", "\x9b", "\u202e", "\u2066"])
def test_control_and_direction_characters_are_made_visible(character):
    assert character not in visible(f"a{character}b")
    assert len(visible(f"a{character}b")) == 3  # offsets stay right


def test_other_characters_stay_themselves():
    assert visible("Tab\tand\nline, 東京 🗼 [bold]é") == "Tab\tand\nline, 東京 🗼 [bold]é"


def test_the_reader_is_told_what_kind_of_model_judges_meanings():
    result = asked()
    assert f"meanings are judged by {result.nli}" in " ".join(shown(result).split())
    small = " ".join(shown(replace(result, nli="nli-minilm")).split())
    assert "judged by nli-minilm, a small network that is wrong about one pair of answers in eight" in small


def test_an_ansi_escape_in_model_text_never_reaches_the_terminal():
    evil = f"{ESCAPE}]0;owned\x07{ESCAPE}[31mred"
    view = shown(asked({"": {evil: 0.6, f"{evil}!": 0.4}}))
    assert ESCAPE not in view
    assert "\x07" not in view
    assert view.count("␛[31mred") >= 3  # answer, meanings, alternatives


def test_square_brackets_in_model_text_are_not_markup():
    assert "[red]Paris[/nonsense]" in shown(asked({"": {"[red]Paris[/nonsense]": 1.0}}))


# -- parts ------------------------------------------------------------------------------------------------------


def test_the_view_shows_answer_entropy_meanings_alternatives_and_cost():
    result = asked()
    view = shown(result)
    assert view.splitlines()[0].strip() == "It is Paris"
    own, headline = result.clusters[0], result.estimates["semantic_entropy"]
    assert view.splitlines()[2].strip() == reading(result)
    assert f"semantic entropy {headline.value:.2f} nats ({headline.low:.2f} to {headline.high:.2f})" in view
    assert f"{own.probability:.1%} ({own.low:.0%}–{own.high:.0%}) " in view
    assert "to rank answers by doubt, use the score (the paper's), which is no percentage" in " ".join(view.split())
    assert "wavers most at ‘Paris’: 40.0% to another meaning, 5.0% not looked at" in view
    assert "● 25.0% It is [Lyon]" in view
    assert "88.4% of all probability looked at · 6 sequences and 5 draws" in view
    assert ESCAPE not in view


def test_the_likeliest_meaning_comes_first():
    lines = shown(asked({"": {"a": 0.35, "b": 0.33, "c": 0.32}, "a": {"x": 0.1, "y": 0.05, "z": 0.05}})).splitlines()
    shares = [float(line.split("%")[0]) for line in lines if "█" in line]
    assert shares == sorted(shares, reverse=True)


def test_the_changed_word_is_marked():
    result = asked()
    assert underlined(result) == [sample.substitution.replacement for sample in result.samples[1:]]
    assert f"{ESCAPE}[1;4mLyon{ESCAPE}[0m" in in_colour(result)


def test_the_whole_changed_word_is_marked_when_its_token_only_begins_it():
    script = {
        "": {"Near": 1.0},
        "Near": {" Paris": 0.7, " Mar": 0.3},
        "Near Mar": {"seille": 1.0},
        "Near Marseille": {" now": 1.0},
    }
    result = asked(script)
    assert result.samples[1].text == "Near Marseille now"
    assert underlined(result) == ["Marseille"]


def test_a_branch_that_ends_early_is_marked():
    result = asked({"": {"Paris": 1.0}, "Paris": {" now": 0.6, "<end>": 0.4}})
    assert "40.0% Paris [end]" in shown(result)


def test_words_are_coloured_by_how_much_they_waver():
    result = asked()
    assert word_shades(result) == [word.wavering for word in result.words]
    assert f"{ESCAPE}[38;2;203;138;22mParis{ESCAPE}[0m" in in_colour(result)


def test_words_are_coloured_by_attribution_where_nothing_says_whether_they_waver():
    result = asked()
    words = tuple(replace(word, wavering=None, not_looked_at=None) for word in result.words)
    result = replace(result, words=words)
    assert max(word_shades(result)) == 1.0
    assert f"{ESCAPE}[1;38;2;220;50;47mis{ESCAPE}[0m" in in_colour(result)
    assert ESCAPE + "[38" not in in_colour(result, no_color=True)


def test_an_empty_answer_is_said_to_be_empty():
    view = shown(asked({"": {"<end>": 0.8, "Paris": 0.2}}))
    assert view.splitlines()[0].strip() == "(an empty answer)"
    assert "(empty)" in view
    assert "● 20.0% [Paris]" in view


def test_an_answer_of_control_characters_and_spaces_is_shown():
    assert "␀" in shown(asked({"": {"\x00 \x00": 1.0}}))


@pytest.mark.parametrize("word", [" word", "W", "京"])
def test_a_very_long_answer_is_wrapped_and_keeps_its_bars(word):
    long = (word * 400).strip()
    lines = shown(asked({"": {long: 0.6, f"{long}!": 0.4}}), width=60).splitlines()
    assert max(map(cell_len, lines)) <= 60
    times = sum(line.count(word.strip()) for line in lines)  # whole: the answer, two meanings, an alternative
    assert 0 <= times - 4 * 400 <= 25  # and a bit of the word at which it wavers most
    assert any("█" * 10 in line for line in lines)


def test_an_answer_of_several_lines_keeps_them():
    lines = [line.strip() for line in shown(asked({"": {"One\nTwo": 1.0}})).splitlines()]
    assert lines[:2] == ["One", "Two"]


def test_one_sample_has_no_alternatives_and_says_why():
    drawn = shown(asked({"": {"Paris": 1.0}}))
    assert "the model would say this nine times in ten or more (between 100% and 100%)" in drawn
    certain = shown(asked({"": {"Paris": 1.0}}, draws=0))
    assert ALTERNATIVES not in certain
    assert "no likely alternative was found" in certain
    alone = shown(asked(samples=1, draws=0))
    assert ALTERNATIVES not in alone
    assert "no likely alternative" not in alone  # nobody looked for one
    assert "ask for more samples" in alone


def test_notes_are_shown():
    view = " ".join(shown(asked(max_tokens=2)).split())
    assert "note: the answer was cut at 2 tokens; raise --max-tokens" in view
    assert "lower --min-probability to explore more" in view


def test_the_notebook_shows_notes_too():
    assert "the answer was cut at 2 tokens" in in_frame(asked(max_tokens=2))


# -- the notebook -----------------------------------------------------------------------------------------------


def in_frame(result: Result) -> str:
    """The document of the notebook's frame."""
    return unescape(re.search(r'srcdoc="([^"]*)"', notebook_view(result)).group(1))


def test_the_notebook_shows_the_page_in_a_frame():
    result = asked()
    document = in_frame(result)
    assert document == result_page(result)
    for part in ("It is Paris", "It is Lyon", f"semantic entropy {result.semantic_entropy:.2f} nats", reading(result)):
        assert part in document


def test_nothing_of_the_model_leaves_the_frame():
    evil = "\"></iframe><script>alert('&')</script>"
    view = notebook_view(asked({"": {evil: 0.7, f"{evil}<b>": 0.3}}))
    assert view.count("<script") == 1  # ours, which fits the frame's height
    assert view.count("<iframe") == view.count("</iframe") == 1
    assert 'sandbox="allow-scripts"' in view  # and not allow-same-origin: it cannot reach the notebook
    assert "alert('" not in view


def test_the_frame_is_higher_for_longer_answers():
    heights = [int(re.search(r"height:(\d+)px", notebook_view(asked(script))).group(1)) for script in (CAPITAL, LONG)]
    assert heights == sorted(heights)
    assert heights[1] <= 2400


# -- the reading ------------------------------------------------------------------------------------------------


def with_shares(*intervals: tuple[float, float, float]) -> Result:
    """Clusters of these (low, probability, high)."""
    result = asked()
    clusters = (
        replace(result.clusters[n], low=low, probability=p, high=high) for n, (low, p, high) in enumerate(intervals)
    )
    return replace(result, clusters=tuple(clusters))


@pytest.mark.parametrize(
    ("intervals", "says"),
    [
        (
            ((0.0, 0.02, 0.08), (0.2, 0.4, 0.7)),
            "the model would say something else at least nine times in ten; its answer's meaning holds "
            "between 0% and 8%",
        ),
        (((0.92, 0.97, 1.0),), "the model would say this nine times in ten or more (between 92% and 100%)"),
        (
            ((0.1, 0.2, 0.4), (0.5, 0.7, 0.8)),
            "another meaning is likelier; the answer's own holds between 10% and 40%",
        ),
        (
            ((0.05, 0.15, 0.3), (0.1, 0.3, 0.5)),
            "the model would more often say something else; its answer's meaning holds between 5% and 30%",
        ),
        (((0.55, 0.7, 0.85),), "the model leans towards its answer, which holds between 55% and 85%"),
        (
            ((0.3, 0.7, 0.9), (0.1, 0.3, 0.6)),
            "too few draws to tell whether the model leans towards its answer: its meaning holds between 30% and 90%",
        ),
    ],
)
def test_the_reading_follows_from_the_interval(intervals, says):
    assert reading(with_shares(*intervals)) == says


def test_the_words_of_the_reading_do_not_depend_on_where_in_its_interval_a_share_is():
    for low, high in ((0.0, 0.08), (0.05, 0.3), (0.2, 0.8), (0.55, 0.85), (0.93, 1.0)):
        said = {reading(with_shares((low, share, high))) for share in (low, (low + high) / 2, high)}
        assert len(said) == 1


@pytest.mark.parametrize(
    ("scores", "says"),
    [
        ((1.0,), "all 6 answers mean the same"),
        ((0.95, 0.05), "2 meanings were found; the answer's own scores highest"),
        ((0.3, 0.7), "2 meanings were found; another one scores highest"),
    ],
)
def test_without_draws_the_reading_says_what_was_found_and_no_percentage(scores, says):
    result = asked(draws=0)
    clusters = tuple(replace(result.clusters[n], score_share=score) for n, score in enumerate(scores))
    result = replace(result, clusters=clusters)
    assert reading(result) == says
    assert "nothing was drawn (draws = 0): shares are the paper's score" in " ".join(shown(result).split())


# -- progress ---------------------------------------------------------------------------------------------------


def test_progress_is_silent_without_a_terminal(capsys):
    with ProgressLine() as watch:
        watch(Progress("answer", "It is"))
    assert capsys.readouterr() == ("", "")


def test_every_stage_of_a_run_can_be_shown_on_a_terminal(monkeypatch):
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    seen = []
    with ProgressLine() as watch:

        def both(progress: Progress) -> None:
            seen.append(progress.stage)
            watch(progress)

        fake_pipeline(watch=both).ask("What?")
        watch(Progress("answer", f"{ESCAPE}[31m[red]\nhello"))
    assert list(dict.fromkeys(seen)) == ["load", "answer", "scores", "branches", "clusters"]
    assert f"{ESCAPE}[31m" not in screen.getvalue()
