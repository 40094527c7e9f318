"""The page in a real browser, against the real server with the embedded models: as a visitor sees it."""

from __future__ import annotations

import json
import subprocess
import sys
from urllib.request import urlopen

import pytest

from browser import accessibility_violations, chromium, open_page, overflow  # noqa: F401 (fixtures)

QUESTION = "When did the Titanic sink?"


@pytest.fixture(scope="module")
def site(chromium):  # noqa: F811 (no browser, no server)
    command = [
        sys.executable,
        "-m",
        "sdlg.cli",
        "serve",
        "--model",
        "smollm2",
        "--port",
        "0",
        "--samples",
        "4",
        "--max-tokens",
        "12",
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        told = server.stdout.readline()  # when it listens
        assert "http://127.0.0.1:" in told
        yield told.split()[-1]
    finally:
        server.terminate()
        assert server.wait(60) == 0
        server.stdout.close()


def ask(page, question=QUESTION):
    page.get_by_label("Question", exact=True).fill(question)
    page.get_by_role("button", name="Ask", exact=True).click()


def answered(page):
    page.locator(".verdict").first.wait_for(timeout=120_000)


def test_ask_watch_look_around_and_come_back(site, open_page):  # noqa: F811
    page = open_page(site)
    page.locator("#about", has_text="smollm2").wait_for()
    ask(page)
    page.locator(".arriving .text").wait_for()  # the answer, as it comes
    answered(page)
    answer = page.locator(".answer .text").first.inner_text()
    assert "Titanic" in answer
    page.get_by_text("Alternatives").click()
    assert page.locator(".tree ul > li").count() == 3
    assert page.locator(".clusters > li").count() >= 1
    assert "nats" in page.inner_text(".headline")

    page.locator(".word").nth(1).click()
    panel = page.locator(".panel")
    panel.wait_for()
    assert panel.locator("tbody tr").count() >= 2  # candidates with their scores, tried or not
    assert accessibility_violations(page) == []
    page.keyboard.press("Escape")

    link = page.url
    again = open_page(link, context=page.context)  # the same browser remembers
    answered(again)
    assert again.locator(".answer .text").first.inner_text() == answer
    stranger = open_page(link)  # another one asks again, when told to: same seed, same answer
    stranger.locator("#status", has_text="Press Ask").wait_for()
    assert stranger.locator("#result *").count() == 0
    stranger.keyboard.press("Enter")
    answered(stranger)
    assert stranger.locator(".answer .text").first.inner_text() == answer


def test_it_fits_a_phone_in_the_dark(site, open_page):  # noqa: F811
    page = open_page(site, viewport={"width": 360, "height": 740}, color_scheme="dark")
    ask(page, "Who wrote Hamlet?")
    answered(page)
    assert overflow(page) <= 0
    assert accessibility_violations(page, "color-contrast") == []


def test_markup_in_question_context_and_answer_stays_text(site, open_page):  # noqa: F811
    page = open_page(site)
    page.get_by_text("Context", exact=True).click()
    page.get_by_label("A text to read before").fill("<img src=x onerror=alert(1)> <b>bold</b>")
    ask(page, "Repeat exactly: <script>alert(2)</script> <b>bold</b>")
    answered(page)
    assert page.locator("#result script, #result img, #result b").count() == 0
    assert "<script>" in page.inner_text("#result")


def test_what_cannot_be_answered_is_said(site, open_page):  # noqa: F811
    page = open_page(site, expected=("400", "413", "422"))
    ask(page, "Why? " * 10_000)  # 50,000 characters
    page.locator("#error .error").wait_for()
    assert "shorten" in page.inner_text("#error")
    ask(page, "   ")
    assert page.locator(".verdict").count() == 0


def test_the_page_asks_for_what_the_server_allows(site):
    with urlopen(f"{site}/v1/settings") as reply:
        settings = json.load(reply)
        policy = reply.headers["Content-Security-Policy"]
    assert settings["model"] == "smollm2"
    assert settings["defaults"]["samples"] == 4
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
