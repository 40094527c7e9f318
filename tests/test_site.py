"""The documentation site builds without a warning, and has the pages that are made when it is built."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from documented import ROOT

TITLES = {
    "reference/cli": "sdlg calibrate",
    "reference/api": "Pipeline",
    "quickstart": "A first look at sdlg",
    "contributing": "Contributing",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("page", TITLES)
def test_a_page_that_is_made_has_its_content(site, page):
    assert TITLES[page] in (site / page / "index.html").read_text(encoding="utf-8")


def test_every_page_is_in_the_navigation(site):
    pages = {path.relative_to(ROOT / "docs").with_suffix("") for path in ROOT.glob("docs/**/*.md")}
    home = (site / "index.html").read_text(encoding="utf-8")
    missing = [page for page in pages if page.name != "index" and f'href="{page.as_posix()}/"' not in home]
    assert not missing


def test_the_site_asks_no_other_host_for_anything(site):
    for page in site.glob("**/*.html"):
        text = page.read_text(encoding="utf-8")
        assert "fonts.googleapis" not in text
        assert 'src="http' not in text
