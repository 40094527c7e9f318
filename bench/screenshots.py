"""Pictures of self-contained result pages, for the documentation.

sdlg ask "What is the capital of Australia?" --html page.html    # light, dark with its alternatives, and on a phone
sdlg ask "Tell me about Marie Curie." --max-tokens 160 --html long.html    # sentence by sentence
.venv/bin/python bench/screenshots.py docs/screenshots page.html long.html
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from typing import Any

SIZES: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 545}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 870}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 850}},
}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


def main(folder: str, *files: str) -> None:
    from playwright.sync_api import sync_playwright

    Path(folder).mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--headless", *FLAGS])
        for file, (name, size) in product(map(Path, files), SIZES.items()):
            is_whole = file.stem == "long"
            page = browser.new_page(**size)
            page.goto(file.resolve().as_uri())
            if name == "dark" and page.get_by_text("Alternatives:").count():
                page.get_by_text("Alternatives:").click()
            page.screenshot(path=f"{folder}/{file.stem}-{name}.png", full_page=is_whole)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
