"""Pictures of a self-contained result page, for the documentation: light, dark with its alternatives, and on a phone.

sdlg ask "What is the capital of Australia?" --html page.html
.venv/bin/python bench/screenshots.py page.html docs/screenshots
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

SIZES: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 545}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 870}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 850}},
}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


def main(page_file: str, folder: str) -> None:
    from playwright.sync_api import sync_playwright

    Path(folder).mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--headless", *FLAGS])
        for name, size in SIZES.items():
            page = browser.new_page(**size)
            page.goto(Path(page_file).resolve().as_uri())
            if name == "dark":
                page.get_by_text("Alternatives:").click()
            page.screenshot(path=f"{folder}/page-{name}.png")
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
