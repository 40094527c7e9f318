"""A result as one HTML file that needs no network: the page's style and view, and the result as JSON, all inside.

Without scripts it still says question, answer and verdict. Model text is text everywhere: escaped in the markup, and in
the JSON no `<` is left that could end its element. The policy allows exactly the style and the script of this file.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html import escape

from ..browser import static_text, view_script
from ..result import Result, sentence_share, share_text
from .reading import entropy_text, reading, short_note
from .said import said_of

_START = """
const place = document.getElementById("result");
showResult(place, JSON.parse(document.getElementById("data").textContent));
if (parent !== window) {
  const tell = () => parent.postMessage({ sdlgHeight: document.documentElement.getBoundingClientRect().height }, "*");
  new ResizeObserver(tell).observe(document.documentElement);
}
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<div class="sheet">
<header class="masthead"><h1>How sure is this answer?</h1></header>
<main id="result">
{plain}
</main>
</div>
<script type="application/json" id="data">{data}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def result_page(result: Result) -> str:
    """Return the whole file."""
    style, script = static_text("style.css"), view_script() + _START
    return _PAGE.format(
        policy=_policy(style, script), title=_text(result.question.text[:80]) + " · sdlg", style=style,
        plain=_plain(result), data=_data(result), script=script,
    )  # fmt: skip


def _policy(style: str, script: str) -> str:
    sources = f"script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:"
    return f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _data(result: Result) -> str:
    """Return JSON that every browser reads: no NaN, no `<`, and half a surrogate pair escaped."""
    text = json.dumps({**result.to_dict(), "said": said_of(result)}, ensure_ascii=False, allow_nan=False)
    return re.sub("[<>&\u2028\u2029\ud800-\udfff]", lambda found: f"\\u{ord(found.group()):04x}", text)


def _plain(result: Result) -> str:
    """Return what is read where no script runs."""
    parts = [("h2", result.question.text), ("p", result.answer.text or "(an empty answer)"), ("p", reading(result))]
    if result.sentences:
        parts += [("p", f"{sentence_share(one)} {one.text}") for one in result.sentences]
    else:
        parts += [("p", f"{share_text(cluster)} {cluster.text or '(empty)'}") for cluster in result.meanings]
    parts.append(("p", entropy_text(result)))
    if result.risk is not None:
        parts.append(("p", f"{result.risk.sentence}, {result.risk.basis}"))
    parts += [("p", f"note: {note}") for note in (short_note(result), *result.notes) if note]
    return "\n".join(f"<{tag}>{_text(text)}</{tag}>" for tag, text in parts)


def _text(text: str) -> str:
    """Escape a text; half a surrogate pair, which no file can hold, becomes a replacement character."""
    return escape(re.sub("[\ud800-\udfff]", "\ufffd", text))
