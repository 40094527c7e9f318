"""A result in a notebook: the self-contained page in a frame of its own, which can reach nothing of the notebook."""

from __future__ import annotations

from html import escape

from ..formats.results import Result
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
    """The same view as the page's."""
    style = f"width:100%;height:{_guessed_height(result)}px;border:0;resize:vertical"
    document = escape(result_page(result), quote=True)
    frame = f'sandbox="allow-scripts" title="How sure the model is of its answer" style="{style}"'
    return f'{_FIT}<iframe class="sdlg-result" {frame} srcdoc="{document}"></iframe>'


def _guessed_height(result: Result) -> int:
    """Pixels: what every result has, and a line for each line of text."""
    lines = sum(2 + len(sample.text) // _LINE for sample in result.samples) * 2 + len(result.answer.text) // _LINE
    return min(600 + 30 * lines, 2400)
