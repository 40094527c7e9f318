"""The blocks of the documents that can be run, and how: what test_documents and test_documented_commands share.

A block that cannot be run here says so in the line before it, `<!-- needs: hub -->`; or of some of its lines only,
`<!-- needs: hub, for lines with Qwen/ http: -->`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")})
SERVER = "http://127.0.0.1:8077"  # blocks that ask it are run by test_serving, against a server of its own
_BLOCK = re.compile(
    r"^(?:<!-- needs: (?P<needs>[^>]+?)(?:, for lines with (?P<lines>[^>]+?))? -->\n)?"
    r"```(?P<language>console|bash|sh|python)\n(?P<code>.*?)^```",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """Fenced text that a reader may type."""

    language: str
    code: str
    needs: str | None  # why it cannot be run here; None: it can
    excused: tuple[str, ...]  # only lines with one of these cannot; none: no line can

    @property
    def asks_the_server(self) -> bool:
        return SERVER in self.code and (self.language == "python" or self.code.startswith("curl "))

    @property
    def is_run(self) -> bool:
        """Whether any of it is run by test_documented_commands."""
        return not self.asks_the_server and (self.needs is None or bool(self.excused))

    @property
    def lines(self) -> list[str]:
        """The commands, without what they print and without those that are excused."""
        lines = self.code.replace("\\\n", " ").splitlines()
        typed = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")] or lines
        told = [re.sub(r"(^|\s+)#\s.*$", "", line) for line in typed]
        return [line for line in told if line and not any(word in line for word in self.excused)]


def blocks_of(path: Path) -> list[Block]:
    found = _BLOCK.finditer(path.read_text(encoding="utf-8"))
    return [Block(m["language"], m["code"], m["needs"], tuple((m["lines"] or "").split())) for m in found]
