"""A result in a notebook: the self-contained page in a frame of its own, which can reach nothing of the notebook."""

from __future__ import annotations

from html import escape

from ..result import Result
from .html_file import result_page

_LINE = 90  # characters
# The frame tells its height; where the notebook runs no scripts, the guess stays and the frame scrolls.
_FIT = """<script>
window.sdlgFits ||= (addEventListener("message", (event) => {
  for (const frame of document.querySelectorAll("iframe.sdlg-result"))
    if (frame.contentWindow === event.source && event.data && event.data.sdlgHeight > 0)
      frame.style.height = Math.min(Math.ceil(event.data.sdlgHeight), 6000) + "px";
}), true);
</script>"""


def notebook_view(result: Result) -> str:
    """Return the page in a frame."""
    style = f"width:100%;height:{_guessed_height(result)}px;border:0;resize:vertical"
    document = escape(result_page(result), quote=True)
    frame = f'sandbox="allow-scripts" title="How sure the model is of its answer" style="{style}"'
    return f'{_FIT}<iframe class="sdlg-result" {frame} srcdoc="{document}"></iframe>'


def _guessed_height(result: Result) -> int:
    """Return pixels: what every result has, and a line for each meaning and each line of the answer."""
    lines = len(result.answer.text) // _LINE + min(len(result.clusters), 6)
    return min(480 + 36 * lines, 2400)
