"""The page and the self-contained file, in a real browser."""

from __future__ import annotations

import json
import math
import re
import threading
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import pytest

from browser import (  # noqa: F401 (fixtures)
    StubServer,
    accessibility_violations,
    chromium,
    open_page,
    overflow,
    refusal,
    streamed,
    stub,
)
from fakes import CAPITAL, fake_pipeline
from sdlg.browser import NAMES, PAGE, VIEW, static_files, static_text, view_script
from sdlg.formats.results import Result
from sdlg.records import AnswerRisk, Substitution, Word
from sdlg.views.html_file import result_page
from sdlg.views.notebook import notebook_view
from sdlg.views.reading import reading

EVIL = "<script>alert('&')</script><img src=x onerror=alert(2)>"
QUESTION = "What is the capital of France?"
EMPTY = {"": {"<end>": 0.8, "Paris": 0.2}}
PHONE = {"viewport": {"width": 360, "height": 740}}
# 11 sequences: branches at every word, one that ends early, words of several lengths.
RIVERS = {
    "": {"The": 1.0},
    "The": {" longest": 0.6, " river": 0.25, " Rhine": 0.15},
    "The longest": {" river": 0.7, " one": 0.2, " stream": 0.1},
    "The longest river": {" is": 0.8, " was": 0.2},
    "The longest river is": {" the": 0.5, " Amazon": 0.3, " Yangtze": 0.2},
    "The longest river is the": {" Nile": 0.5, " Amazon": 0.4, " Mississippi": 0.1},
    "The longest river is the Nile": {"<end>": 0.7, " today": 0.3},
}


@cache
def asked(kind: str = "capital") -> Result:
    if kind == "long":
        return long_answer()
    scripts = {"capital": CAPITAL, "empty": EMPTY, "rivers": RIVERS}
    scripts["evil"] = {"": {EVIL: 0.6, f"{EVIL}<b>": 0.4}}
    scripts["unbroken"] = {"": {"W" * 3000: 0.6, "京" * 3000: 0.4}}
    scripts["emoji"] = {"": {"🦊": 1.0}, "🦊": {" réd 東京": 0.6, " eats": 0.4}, "🦊 réd 東京": {" 👩‍🚀 fin": 1.0}}
    result = fake_pipeline(scripts[kind]).ask(f"{EVIL}?" if kind == "evil" else QUESTION)
    return replace(result, candidates=_ranked(result))


@cache
def long_answer() -> Result:
    """5,000 words in the place of a short answer's three."""
    result, text = asked(), " ".join(["word"] * 5000)
    words = tuple(Word("word", 5 * n, 5 * n + 4, (n % 10) / 10) for n in range(5000))
    first, second, *others = result.samples
    first = replace(first, generation=replace(first.generation, text=text), tokens=("word", " word", text[9:]))
    second = replace(second, generation=replace(second.generation, text=text.replace("word", "other")))
    return replace(result, words=words, samples=(first, second, *others))


def _ranked(result: Result) -> tuple[Substitution, ...]:
    """The tried ones, and one more that was not."""
    tried = [sample.substitution for sample in result.samples if sample.substitution]
    spare = replace(tried[0], replacement="never", token_id=999_999, logprob=math.log(0.01), importance=0.01, rank=99)
    return (*tried, spare)


@cache
def multinomial() -> Result:
    return fake_pipeline(RIVERS, method="multinomial", samples=6).ask(QUESTION)


def as_json(result: Result) -> dict:
    return json.loads(result.to_json())


@pytest.fixture
def shown(open_page, tmp_path):  # noqa: F811
    """The self-contained file of a result, opened."""

    def opens(result: Result, **settings):
        path = tmp_path / "result.html"
        path.write_text(result_page(result), encoding="utf-8")
        return open_page(path.as_uri(), **settings)

    return opens


# -- the self-contained file ------------------------------------------------------------------------------------


def test_the_file_shows_answer_verdict_meanings_and_tree(shown):
    result = asked("rivers")
    page = shown(result)
    assert page.inner_text(".answer .text").replace("\n", " ").startswith(result.answer.text)
    assert page.text_content(".reading") == reading(result)
    assert f"{result.semantic_entropy:.2f}" in page.inner_text(".numbers")
    assert page.locator(".clusters > li").count() == len(result.clusters)
    assert page.locator(".tree .branches > li").count() == len(result.samples) - 1
    shares = [
        float(text.split("%")[0].replace("<0.1", "0")) for text in page.locator(".clusters .share").all_inner_texts()
    ]
    assert shares == sorted(shares, reverse=True)
    assert "Copy as JSON" in page.inner_text(".details")


@pytest.mark.parametrize("draws", [0, 5])
def test_bars_of_meanings_can_be_compared(shown, draws):
    page = shown(fake_pipeline(RIVERS, draws=draws).ask(QUESTION))
    shares = page.locator(".clusters .share").all_inner_texts()
    assert len({len(text) for text in shares}) > 1  # texts that would take bars of several widths
    widths = page.locator(".clusters .mass").evaluate_all("bars => bars.map(bar => bar.getBoundingClientRect().width)")
    assert max(widths) - min(widths) < 0.5


def test_each_branch_says_what_changed_where_and_how_likely(shown):
    result = asked("rivers")
    page = shown(result)
    labels = page.locator(".tree .branches .label").all_text_contents()
    for sample in result.samples[1:]:
        change = sample.substitution
        becomes = "(the answer ends)" if change.ends_answer else f"‘{change.replacement}’"
        wanted = [becomes, f"{change.importance:.1%}", f"meaning {chr(65 + sample.cluster)}"]
        assert any(all(part in label for part in wanted) for label in labels), wanted
    line = " ".join(" ".join(page.locator(".tree .stem").all_text_contents()).split())
    assert line.removesuffix(" (end)") == result.answer.text


def test_a_word_opens_its_candidates_by_keyboard_and_escape_closes_them(shown):
    page = shown(asked("rivers"))
    page.keyboard.press("Tab")
    words = page.locator(".word")
    assert words.nth(0).evaluate("word => word === document.activeElement")
    assert page.locator(".word[tabindex='0']").count() == 1  # one stop for the Tab key
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    panel = page.locator(".panel")
    assert "‘longest’" in panel.inner_text()
    heads = ["Replacement", "Probability", "Attribution", "Substitution", "Importance", "Rank", "Tried"]
    assert panel.locator("thead th").all_inner_texts() == heads
    assert "25.0%" in panel.inner_text()
    assert "Ranked by attribution, substitution and importance." in panel.inner_text()
    assert words.nth(1).get_attribute("aria-expanded") == "true"
    page.keyboard.press("Escape")
    assert panel.is_hidden()
    assert words.nth(1).evaluate("word => word === document.activeElement")
    page.keyboard.press("End")
    assert words.last.evaluate("word => word === document.activeElement")


@pytest.mark.parametrize(
    ("one_word", "told"), [("importance", "importance"), ("scores", "attribution, substitution and importance")]
)
def test_candidates_of_a_one_word_answer_say_what_ranked_them(shown, one_word, told):
    result = asked("rivers")
    options = result.options.updated(one_word=one_word)
    page = shown(replace(result, options=options, words=result.words[1:2]))
    page.locator(".word").first.click()
    assert f"Ranked by {told}." in page.inner_text(".panel")


def test_candidates_say_whether_they_were_tried(shown):
    result = asked("rivers")
    page = shown(result)
    position = result.candidates[-1].position
    page.locator(".word").nth(position).click()  # in this script a token is a word
    row = page.locator(".panel tr", has_text="never")
    assert "not tried" in row.inner_text()
    assert "99" in row.inner_text()
    assert page.locator(".panel tr .badge").count() >= 1


def test_words_are_cut_by_characters_not_by_utf16_units(shown):
    result = asked("emoji")
    page = shown(result)
    texts = page.locator(".word:not(.end)").all_text_contents()
    assert texts == [word.text for word in result.words]
    assert page.locator(".branch-text mark").all_text_contents() == ["eats"]


def test_the_file_is_accessible_in_light_and_dark(shown):
    sentence = "about 1 in 5 such answers is wrong"
    risk = AnswerRisk(0.2, sentence, "measured on 400 answers", "semantic_entropy", 1.2, True)
    page = shown(replace(asked("rivers"), risk=risk, notes=("a note",)))
    page.locator(".word").nth(1).click()
    for summary in page.locator("summary").all():
        summary.click()
    assert sentence in page.inner_text(".verdict")
    assert accessibility_violations(page) == []
    page.emulate_media(color_scheme="dark")  # the same elements in other colours
    assert accessibility_violations(page, "color-contrast") == []


@pytest.mark.parametrize(("risk", "told"), [(0.782, "78%"), (0.996, ">99%"), (0.004, "<1%")])
def test_a_risk_is_told_no_finer_than_it_was_measured_and_as_what_it_is(shown, risk, told):
    answer_risk = AnswerRisk(risk, "about so many such answers are wrong", "measured", "perplexity", 1.2, None)
    verdict = shown(replace(asked("rivers"), risk=answer_risk)).locator(".verdict")
    assert verdict.locator("dd.value").first.inner_text() == told
    assert "Only the risk is about right or wrong" in verdict.inner_text()
    assert "This describes how" not in verdict.inner_text()


def test_model_text_never_runs(shown):
    page = shown(asked("evil"))
    assert EVIL in page.text_content("h2")
    assert EVIL in page.text_content(".answer .text")
    assert page.locator("main script, main img, main b").count() == 0


def test_the_file_holds_no_markup_of_the_model():
    html = result_page(asked("evil"))
    assert html.count("<script") == 2  # the data and ours
    assert "<img" not in html
    assert "\\u003cscript" in html
    assert "&lt;script&gt;" in html


def test_an_empty_answer_is_said_to_be_empty(shown):
    page = shown(asked("empty"))
    assert page.inner_text(".answer .text") == "(an empty answer)"
    assert page.locator(".clusters em").all_inner_texts() == ["(empty)"]
    assert accessibility_violations(page) == []


@pytest.mark.parametrize("kind", ["rivers", "long", "unbroken", "emoji"])
def test_nothing_is_wider_than_a_phone(shown, kind):
    page = shown(asked(kind), **PHONE)
    assert overflow(page) <= 0
    page.locator(".word").first.click()
    assert overflow(page) <= 0


def test_five_thousand_words_stay_readable(shown):
    page = shown(asked("long"))
    assert page.locator(".word:not(.end)").count() == 5000
    assert page.locator(".answer .text").bounding_box()["height"] < 800  # it scrolls
    assert page.locator("main").bounding_box()["height"] < 4000
    page.locator(".tree .more").first.click()
    assert any(text.count("other") > 4990 for text in page.locator(".branch-text").all_text_contents())


def test_samples_that_were_drawn_are_a_list(shown):
    page = shown(multinomial())
    assert "Sampled answers" in page.inner_text("main") or "SAMPLED ANSWERS" in page.inner_text("main")
    assert page.locator(".branches.flat > li").count() == 6
    assert page.locator(".tree").count() == 0


def test_undefined_numbers_and_half_characters_are_shown(shown):
    result = asked()
    estimate = replace(result.estimates["semantic_entropy"], value=math.nan)
    odd = replace(result, estimates={"semantic_entropy": estimate}, coverage=None, notes=("half \udce9 \u202e",))
    page = shown(odd)
    assert "not known" in page.inner_text(".numbers")
    assert page.text_content(".notes li") == "half \udce9 \ufffd"


def test_without_scripts_the_file_still_says_the_answer(shown):
    page = shown(asked(), java_script_enabled=False)
    text = page.inner_text("main")
    assert asked().answer.text in text
    assert reading(asked()) in text


def test_copying_gives_the_result_as_json(shown):
    page = shown(asked(), permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as JSON").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert json.loads(page.evaluate("navigator.clipboard.readText()")) == as_json(asked())


def test_the_notebook_shows_the_page_in_a_frame_that_fits(open_page, tmp_path):  # noqa: F811
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><title>n</title>{notebook_view(asked('rivers'))}", encoding="utf-8")
    page = open_page(path.as_uri())
    frame = page.frame_locator("iframe.sdlg-result")
    assert frame.locator(".reading").text_content() == reading(asked("rivers"))
    inner = frame.locator("html").evaluate("html => html.getBoundingClientRect().height")
    page.wait_for_function("h => Math.abs(document.querySelector('iframe').clientHeight - h) < 40", arg=inner)
    assert page.locator("iframe").get_attribute("sandbox") == "allow-scripts"


def test_each_script_imports_only_from_those_before_it():
    """So that the view's scripts can stand one after the other in a file of its own."""
    before: list[str] = []
    for name in (*VIEW, *PAGE):
        sources = re.findall(r'\bfrom "\./(.+?)"', static_text(name))
        assert static_text(name).count("import ") == len(sources)
        assert set(sources) <= set(before), name
        before.append(name)
    folder = Path(static_files.__code__.co_filename).parent
    assert set(NAMES) == {path.name for path in folder.iterdir() if path.suffix in (".html", ".css", ".js")}


def test_the_views_scripts_are_one_that_imports_nothing_and_names_nothing_twice():
    script = view_script()
    assert "import " not in script
    names = re.findall(r"^(?:export )?(?:async )?(?:function|const|let) (\w+)", script, re.MULTILINE)
    assert len(names) == len(set(names)) > 40
    assert "showResult" in names


def test_no_file_names_a_foreign_host():
    for name, content in static_files().items():
        assert b"http://" not in content, name
        assert b"https://" not in content, name
        assert b"innerHTML" not in content, name
        assert b"eval(" not in content, name


# -- the page ---------------------------------------------------------------------------------------------------


def ask_on(page, question: str = QUESTION) -> None:
    page.get_by_label("Question", exact=True).fill(question)
    page.get_by_role("button", name="Ask", exact=True).click()


def test_the_reading_is_the_same_in_both_languages(open_page, stub):  # noqa: F811
    base = asked("rivers")
    alone, certain = fake_pipeline(samples=1).ask("?"), fake_pipeline({"": {"a": 1.0}}).ask("?")
    results = [base, asked("empty"), multinomial(), alone, certain]
    for low, high in ((0.0, 0.08), (0.0, 0.1), (0.005, 0.125), (0.1, 0.3), (0.2, 0.8), (0.505, 0.605), (0.9, 1.0)):
        ends = ((low, high), (1 - high, 1 - low))
        own, other = (
            replace(base.clusters[n], probability=(a + b) / 2, low=a, high=b) for n, (a, b) in enumerate(ends)
        )
        results += [replace(base, clusters=(own, other)), replace(base, clusters=(own,))]
    page = open_page(stub.url)
    said = page.evaluate(
        "results => import('/static/verdict.js').then(verdict => results.map(verdict.reading))",
        [as_json(result) for result in results],
    )
    assert said == [reading(result) for result in results]


def test_an_answer_streams_and_becomes_a_result(open_page, stub):  # noqa: F811
    result = asked("rivers")
    stub.reply = streamed(as_json(result), pause=0.05)
    page = open_page(stub.url)
    page.locator("#about", has_text="scripted · judged by fake-nli").wait_for()
    page.get_by_text("Context", exact=True).click()
    page.get_by_label("A text to read before").fill("Rivers are long.")
    ask_on(page)
    page.locator(".arriving .text", has_text="The longest").wait_for()
    assert page.get_by_role("button", name="Stop").is_visible()
    assert page.locator("#result [aria-live]").count() == 0  # a screen reader hears the status only
    page.locator(".verdict").wait_for()
    assert reading(result) in page.text_content("#status")
    sent = {"question": QUESTION, "context": "Rivers are long.", "method": "sdlg", "preset": "default"}
    assert stub.asked == [{**sent, "samples": 10, "max_tokens": 64, "seed": 0, "stream": True}]
    assert page.get_by_role("button", name="Stop").is_hidden()


def test_the_answers_perplexity_counts_its_ending_in_results_of_every_version(open_page, stub):  # noqa: F811
    page = open_page(stub.url)
    steps = [{"ending_logprobs": [-1.0]}, {"stop_logprob": -1.0}, {"stop_logprob": None}, {"ending_logprobs": []}]
    values = page.evaluate(
        "all => import('/static/numbers.js').then(numbers => all.map(one => numbers.likelihoodOf(one).perplexity))",
        [{"logprobs": [-3.0], **ending} for ending in steps],
    )
    assert values == pytest.approx([math.exp(2), math.exp(2), math.exp(3), math.exp(3)])


def test_a_permanent_link_shows_the_result_from_history_or_asks_again_at_a_click(open_page, stub, chromium):  # noqa: F811
    stub.reply = streamed(as_json(asked()))
    page = open_page(stub.url)
    ask_on(page)
    page.locator(".verdict").wait_for()
    link = page.url
    assert "#q=What+is" in link
    assert "seed=0" in link
    again = open_page(link, context=page.context)
    again.locator(".verdict").wait_for()
    assert len(stub.asked) == 1  # from the history
    elsewhere = open_page(f"{link}&compare=1")
    elsewhere.locator("#status", has_text="Press Ask").wait_for()
    elsewhere.wait_for_timeout(300)
    assert len(stub.asked) == 1  # any site can lead a visitor here
    elsewhere.get_by_role("button", name="Ask", exact=True).click()
    elsewhere.locator(".verdict").wait_for()
    assert len(stub.asked) == 2
    assert stub.asked[0] == stub.asked[1]
    assert elsewhere.get_by_label("Question", exact=True).input_value() == QUESTION


def test_history_can_be_opened_and_deleted(open_page, stub):  # noqa: F811
    stub.reply = streamed(as_json(asked()))
    page = open_page(stub.url)
    assert page.locator("#history").is_hidden()
    for question in ("First?", "Second?", "Third?"):
        ask_on(page, question)
        page.locator("#history a", has_text=question).wait_for()
    page.locator("#history a", has_text="First?").click()
    page.wait_for_function("location.hash.startsWith('#q=First')")
    assert page.get_by_label("Question", exact=True).input_value() == "First?"
    page.get_by_role("button", name="Delete: Second?").click()
    assert page.locator("#history a").all_inner_texts() == ["Third?", "First?"]
    page.get_by_role("button", name="Delete all").click()
    assert page.locator("#history").is_hidden()
    assert len(stub.asked) == 3


def test_a_full_store_drops_the_oldest(open_page, stub):  # noqa: F811
    stub.reply = streamed(as_json(asked()))
    page = open_page(stub.url)
    page.evaluate(
        "() => { const set = Storage.prototype.setItem;"
        "Storage.prototype.setItem = function (name, text) {"
        "  if (text.length > 20000) throw new DOMException('full', 'QuotaExceededError');"
        "  set.call(this, name, text); } }"
    )
    for number in range(4):
        ask_on(page, f"Number {number}?")
        page.locator("#history a", has_text=f"Number {number}?").wait_for()
        page.locator(".verdict").wait_for()
    kept = page.locator("#history a").all_inner_texts()
    assert kept[0] == "Number 3?"
    assert 1 <= len(kept) < 4


def test_stop_cancels_a_slow_answer(open_page, stub):  # noqa: F811
    stub.reply = streamed(as_json(asked("rivers")), pause=0.4)
    page = open_page(stub.url)
    ask_on(page)
    page.locator(".arriving .text", has_text="The").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.locator("#status", has_text="Stopped.").wait_for()
    assert "The" in page.inner_text(".arriving .text")  # what came stays
    assert stub.left.wait(8)
    assert page.locator("#error *").count() == 0


def test_a_server_without_news_is_said_to_be_slow(open_page, stub):  # noqa: F811
    over = threading.Event()
    stub.reply = lambda handler, _: (handler.begin(200, "text/event-stream"), over.wait(20))
    page = open_page(stub.url)
    page.clock.install()
    ask_on(page)
    page.locator("#status", has_text="Waiting for the server").wait_for()
    page.clock.run_for(16_000)
    page.locator("#status", has_text="Still waiting").wait_for()
    assert "16 s" in page.inner_text("#clock")
    over.set()


def test_a_question_asked_before_the_settings_came_waits_for_them(open_page, stub):  # noqa: F811
    stub.reply = streamed(as_json(asked()))
    stub.settings["defaults"] = {**stub.settings["defaults"], "samples": 7}
    stub.slow_settings = 1.0
    page = open_page(stub.url)
    ask_on(page)
    page.locator(".verdict").wait_for()
    assert [(sent["method"], sent["samples"]) for sent in stub.asked] == [("sdlg", 7)]


def test_an_option_out_of_range_is_shown_not_swallowed(open_page, stub):  # noqa: F811
    page = open_page(stub.url)
    page.locator("#about", has_text="scripted").wait_for()
    page.evaluate("document.getElementById('samples').value = 1000")
    ask_on(page)
    assert page.get_by_label("Answers", exact=True).is_visible()
    assert stub.asked == []


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (refusal(429, "10 questions are waiting", Retry_After="7"), ["busy", "10 questions are waiting", "wait 7 s"]),
        (refusal(500, "the model is gone: <b>restart</b>"), ["the model is gone: <b>restart</b>"]),
        (lambda handler, _: handler.send(502, b"<h1>proxy</h1>", "text/html"), ["502"]),
        (lambda handler, _: handler.connection.close(), ["cannot be reached"]),
        ("error event", ["the deadline of 120 s passed"]),
        ("broken off", ["ended before the result"]),
    ],
)
def test_errors_are_said_and_can_be_tried_again(open_page, stub, reply, says):  # noqa: F811
    result = as_json(asked())
    told = {"type": "error", "error": {"message": "the deadline of 120 s passed"}}
    named = {"error event": streamed(result, last=told), "broken off": streamed(result, last={})}
    stub.reply = named[reply] if isinstance(reply, str) else reply
    page = open_page(stub.url, expected=("Failed to load resource",))
    ask_on(page)
    alert = page.locator("#error .error")
    alert.wait_for()
    assert all(part in alert.inner_text() for part in says)
    assert page.locator("#error b").count() == 0
    if reply == "error event":
        assert accessibility_violations(page) == []
    stub.reply = streamed(result)
    page.get_by_role("button", name="Try again").click()
    page.locator(".verdict").wait_for()
    assert page.locator("#error *").count() == 0


def test_a_key_is_asked_for_and_sent(open_page, stub):  # noqa: F811
    stub.settings["needs_key"] = True
    result = as_json(asked())

    def reply(handler, sent) -> None:
        fine = handler.headers["Authorization"] == "Bearer right"
        (streamed(result) if fine else refusal(401, "wrong key"))(handler, sent)

    stub.reply = reply
    page = open_page(stub.url, expected=("Failed to load resource",))
    ask_on(page)
    assert stub.asked == []  # not without a key
    for typed in ("wrong", "right"):
        page.get_by_label("This server asks for a key").fill(typed)
        page.get_by_role("button", name="Use this key").click()
        page.locator("#status", has_text="not accepted" if typed == "wrong" else "Done").wait_for()
    assert stub.keys == ["Bearer wrong", "Bearer right"]
    assert "right" not in page.evaluate("JSON.stringify(localStorage) + location.href")


@pytest.mark.parametrize(("width", "beside"), [(1280, True), (390, False)])
def test_two_methods_are_compared_side_by_side(open_page, stub, width, beside):  # noqa: F811
    results = {"sdlg": as_json(asked("rivers")), "multinomial": as_json(multinomial())}
    stub.reply = lambda handler, sent: streamed(results[sent["method"]])(handler, sent)
    page = open_page(stub.url, viewport={"width": width, "height": 900})
    ask_on(page)
    page.get_by_role("button", name="Compare with multinomial").click()
    page.locator(".compared").wait_for()
    assert [sent["method"] for sent in stub.asked] == ["sdlg", "multinomial"]
    first, second = (page.locator(".columns > article").nth(n).bounding_box() for n in (0, 1))
    assert (first["y"] == second["y"]) is beside
    assert "compare=1" in page.url
    assert overflow(page) <= 0
    assert not beside or accessibility_violations(page) == []
    page.reload()
    page.locator(".compared").wait_for()
    assert len(stub.asked) == 2  # both are in the history


def test_the_page_is_accessible_in_light_and_dark(open_page, stub):  # noqa: F811
    stub.reply = streamed(as_json(asked("rivers")))
    page = open_page(stub.url)
    page.locator("#about", has_text="scripted").wait_for()
    for summary in page.locator("summary").all():
        summary.click()
    assert accessibility_violations(page) == []
    ask_on(page)
    page.locator("#history a").wait_for()
    page.locator(".word").nth(1).click()
    assert accessibility_violations(page) == []
    page.emulate_media(color_scheme="dark")  # the same elements in other colours
    assert accessibility_violations(page, "color-contrast") == []


def test_text_from_everywhere_stays_text(open_page, stub):  # noqa: F811
    stub.reply = streamed(as_json(replace(asked("evil"), question=replace(asked("evil").question, context=EVIL))))
    stub.settings["model"] = EVIL
    page = open_page(stub.url)
    ask_on(page, EVIL)
    page.locator(".verdict").wait_for()
    page.locator("#about", has_text=EVIL).wait_for()
    assert EVIL in page.text_content("#history")
    assert page.locator("#sheet script, #sheet img, #sheet b").count() == 0
    again = open_page(page.url)
    again.get_by_role("button", name="Ask", exact=True).click()
    again.locator(".verdict").wait_for()


@pytest.mark.parametrize("kind", ["empty", "long"])
def test_odd_answers_stream_too(open_page, stub, kind):  # noqa: F811
    stub.reply = streamed(as_json(asked(kind)))
    page = open_page(stub.url, **PHONE)
    ask_on(page)
    page.locator(".verdict").wait_for()
    assert overflow(page) <= 0


# -- sdlg ask --html --------------------------------------------------------------------------------------------


@pytest.fixture
def run(monkeypatch, capsys):
    from sdlg.cli import ask, main
    from sdlg.cli.flags import named_options

    monkeypatch.setattr(ask, "load_pipeline", lambda parsed, watch: fake_pipeline(**named_options(parsed)))

    def runs(*arguments) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return runs


def test_html_writes_the_page_and_prints_the_view(run, tmp_path):
    path = tmp_path / "out.html"
    code, out, _ = run("ask", "What?", "--html", path)
    assert code == 0
    assert "semantic entropy" in out
    html = path.read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>")
    assert "It is Paris" in html


@pytest.mark.parametrize("more", [("--out", "x.jsonl"), ("--file", "q.txt")])
def test_html_is_for_one_question(run, tmp_path, more):
    code, _, err = run("ask", *(["What?"] if more[0] == "--out" else []), "--html", tmp_path / "out.html", *more)
    assert code == 2
    assert "--html shows one question" in err


def test_a_page_that_cannot_be_written_is_told_before_models_are_loaded(monkeypatch, run, tmp_path):
    from sdlg.cli import ask

    monkeypatch.setattr(ask, "load_pipeline", partial(pytest.fail, "models were loaded"))
    for path in (tmp_path, tmp_path / "no" / "folder.html"):
        code, _, err = run("ask", "What?", "--html", path)
        assert code == 2
        assert "cannot write" in err
