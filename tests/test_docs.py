"""The documentation is in step with the package, its examples run, and its links lead somewhere."""

import re
import runpy
from pathlib import Path

import pytest

from stacksweep.documentation import reference
from stacksweep.parameters import PARAMETERS
from stacksweep.results import RESULTS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def test_reference_is_that_of_the_tables():
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert page == reference(), "run python docs/build.py"


def test_reference_lists_everything():
    page = reference()
    for entry in (*PARAMETERS, *RESULTS):
        assert page.count(f"| `{entry.name}` | {entry.words} | {entry.units} |") == 1


def anchors(text):
    """Names under which a page's headings can be linked to, by GitHub's rule."""
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in HEADING.findall(text)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    broken = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            broken.append(link)
    assert broken == []


def test_figure_of_the_readme(tmp_path):
    script = ROOT / "docs" / "examples" / "stack_height.py"
    picture = tmp_path / "stack_height.png"
    runpy.run_path(str(script))["draw"](picture)
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert (ROOT / "docs" / "figures" / "stack_height.png").is_file()
