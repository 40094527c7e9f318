"""The page and the self-contained file, in a real browser."""

from __future__ import annotations

import json
import re
import threading
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html import unescape
from pathlib import Path

import pytest

from browser import (  # noqa: F401 (fixtures)
    accessibility_violations,
    chromium,
    open_page,
    overflow,
    refusal,
    streamed,
    stub,
)
from fakes import BORN_IN, fake_pipeline
from results import CANBERRA, CURIE, EVIL, QUESTION, RESULTS, RISK, SYDNEY, made, made_long
from sdlg.browser import NAMES, VIEW, static_files, static_text, view_script
from sdlg.result import Result, percent, sentence_share, share_text
from sdlg.views.html_file import result_page
from sdlg.views.notebook import notebook_view
from sdlg.views.reading import reading

PHONE = {"viewport": {"width": 360, "height": 740}}
SCREEN = {"viewport": {"width": 1280, "height": 800}}
RIVER = "The longest river is the Nile"
RIVERS = made(
    [
        ((RIVER, f"{RIVER} today", "The longest one is the Nile"), (0.4, 0.5, 0.6)),
        (("The longest river is the Amazon", "The longest river was the Amazon"), (0.2, 0.3, 0.4)),
        (("The longest river is the Mississippi",), (0.1, 0.2, 0.3)),
        (("The longest river",), (0.0, 0.001, 0.1)),
    ]
)


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


def unfold(page) -> None:
    for summary in page.locator("summary").all():
        summary.click()


# -- the self-contained file ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["leans", "twenty", "no_draws", "rival"])
def test_the_first_screen_has_question_answer_sentence_meanings_and_headline(shown, name):
    result = RESULTS[name]
    page = shown(result, **SCREEN)
    for place in ("h2", ".answer .text", ".reading", ".clusters", ".headline"):
        box = page.locator(place).first.bounding_box()
        assert box["y"] + box["height"] <= 800, place
    assert page.inner_text("main").lower().count(reading(result).lower()) == 1
    assert f"{result.semantic_entropy:.2f} nats" in page.inner_text(".headline")


@pytest.mark.parametrize("name", ["leans", "twenty", "no_draws", "seldom", "right_to_left", "empty"])
def test_every_meaning_is_reached_by_keyboard_and_opens_to_its_wordings(shown, name):
    result = RESULTS[name]
    page = shown(result)
    if len(result.clusters) > 6:
        page.get_by_text("more meanings").click()
    rows = page.locator(".clusters > li")
    assert rows.locator(".share").all_inner_texts() == [share_text(cluster) for cluster in result.meanings]
    page.locator(".answer .word, .clusters summary").first.focus()
    for _ in range(len(result.clusters) + 2):
        if page.evaluate("document.activeElement.closest('.clusters details:not([open])') !== null"):
            page.keyboard.press("Enter")
        page.keyboard.press("Tab")
    texts = [cluster.texts for cluster in result.meanings]
    for row, wordings in zip(rows.all(), texts, strict=True):
        assert row.locator(".wordings").is_visible()
        assert row.locator(".wordings li").all_text_contents() == [text or "(empty)" for text in wordings]


@pytest.mark.parametrize("name", ["unsure", "no_draws"])
@pytest.mark.parametrize("settings", [SCREEN, PHONE])
def test_bars_of_meanings_can_be_compared(shown, name, settings):
    bars = shown(RESULTS[name], **settings).locator(".clusters .bar")
    widths = bars.evaluate_all("bars => bars.map(bar => bar.getBoundingClientRect().width)")
    assert max(widths) - min(widths) < 0.5
    assert min(widths) > 40


def test_the_tree_has_the_answer_as_its_stem_and_marks_whole_words(shown):
    page = shown(RIVERS)
    page.get_by_text("Alternatives").click()
    line = " ".join(" ".join(page.locator(".tree .stem").all_text_contents()).split())
    assert line == f"{RIVER} (end)"
    assert page.locator(".tree ul > li").count() == len(RIVERS.samples) - 1
    marked = {text.strip() for text in page.locator(".tree mark").all_text_contents()}
    assert marked == {"today", "one", "Amazon", "was", "Mississippi", "(end)"}
    shares = set(page.locator(".tree .share").all_inner_texts())
    assert shares == {percent(sample.substitution.importance) for sample in RIVERS.samples[1:]}


def test_a_word_opens_its_candidates_by_keyboard_and_escape_closes_them(shown):
    page = shown(RIVERS)
    page.keyboard.press("Tab")
    words = page.locator(".word")
    assert words.nth(0).evaluate("word => word === document.activeElement")
    assert page.locator(".word[tabindex='0']").count() == 1  # one stop for the Tab key
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    panel = page.locator(".panel")
    assert "‘river’" in panel.inner_text()
    assert "The longest one is the Nile" in panel.inner_text()
    assert words.nth(2).get_attribute("aria-expanded") == "true"
    page.keyboard.press("Escape")
    assert panel.is_hidden()
    assert words.nth(2).evaluate("word => word === document.activeElement")
    page.keyboard.press("End")
    assert words.last.evaluate("word => word === document.activeElement")


def test_candidates_say_whether_they_were_tried(shown):
    page = shown(RESULTS["unsure"])
    page.locator(".word", has_text="Canberra.").click()
    assert "not tried" in page.locator(".panel tr", has_text="never").inner_text()
    assert SYDNEY in page.locator(".panel tr", has_text="Sydn").inner_text()


def test_words_are_cut_by_characters_not_by_utf16_units(shown):
    page = shown(RESULTS["emoji"])
    assert page.locator(".word:not(.end)").all_text_contents() == [word.text for word in RESULTS["emoji"].words]
    unfold(page)
    assert page.locator(".tree mark").all_text_contents() == ["eats"]


@pytest.mark.parametrize("name", ["rival", "twenty", "empty", "right_to_left", "given"])
def test_the_file_is_accessible_in_light_and_dark(shown, name):
    page = shown(replace(RESULTS[name], risk=RISK, notes=("a note",)))
    unfold(page)
    if page.locator(".word").count():
        page.locator(".word").last.click()
    assert accessibility_violations(page) == []
    page.emulate_media(color_scheme="dark")  # the same elements in other colours
    assert accessibility_violations(page, "color-contrast") == []


def test_model_text_never_runs(shown):
    page = shown(RESULTS["markup"])
    unfold(page)
    assert EVIL in page.text_content("h2")
    assert EVIL in page.text_content(".answer .text")
    assert page.locator("main script, main img, main b").count() == 0


def test_the_file_holds_no_markup_of_the_model():
    html = result_page(RESULTS["markup"])
    assert html.count("<script") == 2  # the data and ours
    assert "<img" not in html
    assert "\\u003cscript" in html
    assert "&lt;script&gt;" in html


def test_the_policy_allows_exactly_this_style_and_this_script():
    html = result_page(RESULTS["leans"])
    policy = unescape(re.search(r'Content-Security-Policy" content="([^"]+)"', html).group(1))
    parts = [
        re.search(f"<{tag}>(.*?)</{tag[:6].strip()}>", html, re.DOTALL) for tag in ("style", 'script type="module"')
    ]
    for found in parts:
        digest = b64encode(sha256(found.group(1).encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


@pytest.mark.parametrize("name", ["twenty", "long", "unbroken", "emoji", "right_to_left", "no_draws"])
def test_nothing_is_wider_than_a_phone(shown, name):
    page = shown(RESULTS[name], **PHONE)
    assert overflow(page) <= 0
    unfold(page)
    page.locator(".word").first.click()
    assert overflow(page) <= 0


def test_five_thousand_words_stay_readable(shown):
    text = " ".join(["word"] * 5000)
    page = shown(made([((text,), (0.6, 0.7, 0.8)), ((f"other {text}",), (0.1, 0.3, 0.4))]), **SCREEN)
    assert page.locator(".word:not(.end)").count() == 5000
    assert page.locator("main").bounding_box()["height"] < 1200  # the answer scrolls
    page.get_by_text("Alternatives").click()
    page.locator(".tree .more").first.click()
    assert page.locator(".tree ul > li").first.text_content().count("word") == 5000


def test_a_long_answer_is_shaded_by_sentence_and_a_sentence_opens_its_meanings(shown):
    page = shown(replace(CURIE, sentences=tuple(replace(one, risk=RISK, measured_from=4) for one in CURIE.sentences)))
    sentences = page.locator(".sentence")
    assert page.locator(".measured").first.text_content() == "e Curie was a physicist."
    shades = sentences.evaluate_all("all => all.map((one) => Number(one.style.getPropertyValue('--shade')))")
    assert shades == pytest.approx([0.05, 0.8, 0.5])
    assert page.locator(".unmeasured").all_text_contents() == ["Here is what I know:"]
    assert page.locator(".answer > .text").inner_text().startswith("Here is what I know: Marie Curie was a physicist.")
    assert "2 of 3 measured sentences" in page.locator(".reading").inner_text().lower()
    assert page.locator(".shaky > li > strong").all_text_contents() == [
        "She named radium after her father.",
        "She won two prizes.",
    ]
    sentences.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    panel = page.locator(".panel").first
    assert panel.is_visible()
    assert "She named it after rays." in panel.inner_text()
    assert RISK.sentence in panel.inner_text()
    page.keyboard.press("Escape")
    assert not panel.is_visible()
    assert accessibility_violations(page) == []


def test_words_that_a_sentence_was_given_are_neither_shaded_nor_said_to_be_certain(shown):
    page = shown(fake_pipeline(BORN_IN, {}, unit="sentences", draws=5).ask("Who was she?"))
    assert page.locator(".measured").text_content() == " in March 1867 in Warsaw."
    page.locator(".sentence").click()
    words = page.locator(".panel .word")
    assert words.first.evaluate("word => word.style.getPropertyValue('--shade')") == "0.000"
    words.first.click()
    assert "What the sentence is about: given, not measured." in page.locator(".panel .panel").inner_text()


def test_twenty_sentences_stay_readable_on_a_phone(shown):
    others = [(("",), (0.1, 0.4, 0.6)), ((f"Something {'else ' * 20}.",), (0.3, 0.6, 0.8))]
    parts = [(f"Sentence number {n} says something rather long about it.", others) for n in range(20)]
    page = shown(made_long(parts), **PHONE)
    assert overflow(page) <= 0
    page.locator(".sentence").last.click()
    assert overflow(page) <= 0
    assert page.locator(".sentence").count() == 20


def test_samples_that_were_drawn_are_no_tree(shown):
    page = shown(RESULTS["multinomial"])
    assert "first of the answers drawn" in page.inner_text(".answer")
    assert page.locator(".tree").count() == 0


def test_undefined_numbers_and_half_characters_are_shown(shown):
    page = shown(replace(RESULTS["undefined"], notes=("half \udce9 \u202e",)))
    assert "not known" in page.inner_text(".headline")
    assert page.text_content(".notes li") == "half \udce9 \ufffd"


def test_without_scripts_the_file_still_says_the_answer(shown):
    text = shown(RESULTS["leans"], java_script_enabled=False).inner_text("main")
    for part in (CANBERRA, SYDNEY, reading(RESULTS["leans"])):
        assert part in text


def test_copying_gives_the_result_as_json(shown):
    page = shown(RESULTS["leans"], permissions=["clipboard-read", "clipboard-write"])
    unfold(page)
    page.get_by_role("button", name="Copy as JSON").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert json.loads(page.evaluate("navigator.clipboard.readText()")) == as_json(RESULTS["leans"])


def test_the_notebook_shows_the_page_in_a_frame_that_fits(open_page, tmp_path):  # noqa: F811
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><title>n</title>{notebook_view(RIVERS)}", encoding="utf-8")
    page = open_page(path.as_uri())
    frame = page.frame_locator("iframe.sdlg-result")
    assert frame.locator(".reading").text_content() == reading(RIVERS)
    frame.get_by_text("Numbers and notes").click()  # it grows
    inner = frame.locator("html").evaluate("html => html.getBoundingClientRect().height")
    page.wait_for_function("h => Math.abs(document.querySelector('iframe').clientHeight - h) < 40", arg=inner)
    assert page.locator("iframe").get_attribute("sandbox") == "allow-scripts"


def test_the_views_scripts_make_one_that_imports_nothing_and_names_nothing_twice():
    before: list[str] = []
    for name in VIEW:
        assert set(re.findall(r'\bfrom "\./(.+?)"', static_text(name))) <= set(before)
        before.append(name)
    assert "import " not in view_script()
    names = re.findall(r"^(?:export )?(?:async )?(?:function|const|let) (\w+)", view_script(), re.MULTILINE)
    assert len(names) == len(set(names))
    folder = Path(static_files.__code__.co_filename).parent
    assert set(NAMES) == {path.name for path in folder.iterdir() if path.suffix in (".html", ".css", ".js")}


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


def test_an_answer_streams_and_becomes_a_result(open_page, stub):  # noqa: F811
    result = RIVERS
    stub.reply = streamed(result, pause=0.05)
    page = open_page(stub.url)
    page.locator("#about", has_text="scripted · judge fake-nli").wait_for()
    page.get_by_text("Context", exact=True).click()
    page.get_by_label("A text to read before").fill("Rivers are long.")
    ask_on(page)
    page.locator(".arriving .text", has_text="The longe").wait_for()
    assert page.get_by_role("button", name="Stop").is_visible()
    assert page.locator("#result [aria-live]").count() == 0  # a screen reader hears the status only
    page.locator(".verdict").wait_for()
    assert page.text_content("#status") == "Done."
    assert page.text_content(".reading") == reading(result)
    sent = {"question": QUESTION, "context": "Rivers are long.", "method": "sdlg", "preset": "default"}
    assert stub.asked == [{**sent, "samples": 10, "max_tokens": 64, "seed": 0, "stream": True}]
    assert page.get_by_role("button", name="Stop").is_hidden()


def test_a_long_answer_streams_sentence_by_sentence_and_becomes_a_result(open_page, stub):  # noqa: F811
    stub.reply = streamed(CURIE, pause=0.5)
    page = open_page(stub.url)
    ask_on(page)
    page.locator(".arriving ~ .wordings li").nth(2).wait_for()
    shares = [sentence_share(one) for one in CURIE.sentences if one.clusters]
    arrived = page.locator(".arriving ~ .wordings li").all_text_contents()
    assert [line.split(" ")[0] for line in arrived] == shares
    page.locator(".verdict").wait_for()
    assert page.text_content(".reading") == reading(CURIE)


def test_a_permanent_link_shows_the_result_from_history_or_asks_again_at_a_click(open_page, stub, chromium):  # noqa: F811
    stub.reply = streamed(RESULTS["leans"])
    page = open_page(stub.url)
    ask_on(page)
    page.locator(".verdict").wait_for()
    link = page.url
    assert "#q=What+is" in link
    assert "seed=0" in link
    again = open_page(link, context=page.context)
    again.locator(".verdict").wait_for()
    assert len(stub.asked) == 1  # from the history
    elsewhere = open_page(link)
    elsewhere.locator("#status", has_text="Press Ask").wait_for()
    elsewhere.wait_for_timeout(300)
    assert len(stub.asked) == 1  # any site can lead a visitor here
    elsewhere.get_by_role("button", name="Ask", exact=True).click()
    elsewhere.locator(".verdict").wait_for()
    assert len(stub.asked) == 2
    assert stub.asked[0] == stub.asked[1]
    assert elsewhere.get_by_label("Question", exact=True).input_value() == QUESTION


def test_history_can_be_opened_and_deleted(open_page, stub):  # noqa: F811
    stub.reply = streamed(RESULTS["leans"])
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
    stub.reply = streamed(RESULTS["leans"])
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
    stub.reply = streamed(RIVERS, pause=0.4)
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
    stub.reply = streamed(RESULTS["leans"])
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
    assert page.get_by_label("Sequences", exact=True).is_visible()
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
    result = RESULTS["leans"]
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
    result = RESULTS["leans"]

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


def test_the_page_is_accessible_in_light_and_dark(open_page, stub):  # noqa: F811
    stub.reply = streamed(RIVERS)
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
    stub.reply = streamed(replace(RESULTS["markup"], question=replace(RESULTS["markup"].question, context=EVIL)))
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


@pytest.mark.parametrize("name", ["empty", "long"])
def test_odd_answers_stream_too(open_page, stub, name):  # noqa: F811
    stub.reply = streamed(RESULTS[name])
    page = open_page(stub.url, **PHONE)
    ask_on(page)
    page.locator(".verdict").wait_for()
    assert overflow(page) <= 0
