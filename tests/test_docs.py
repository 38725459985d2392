"""The documentation is in step with the package, its examples run, and its links lead somewhere."""

import re
from pathlib import Path

import pytest

import deepstack_noc as dn
import stacksweep as ss
from stacksweep.documentation import reference
from stacksweep.parameters import PARAMETERS
from stacksweep.results import RESULTS

ROOT = Path(__file__).resolve().parents[1]
SITE = [page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts]
PAGES = [*ROOT.glob("*.md"), *SITE, *(ROOT / "benchmarks").glob("*.md"), *(ROOT / "DeepStack").glob("*.md")]
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


@pytest.mark.parametrize(("page", "package"), [("api.md", ss), ("network.md", dn)], ids=["stacksweep", "deepstack_noc"])
def test_every_public_name_is_described(page, package):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    described = re.findall(r"^\.\. auto(?:function|class|exception|data):: (\w+)", text, re.MULTILINE)
    assert sorted(described) == sorted(name for name in package.__all__ if name != "__version__")


def test_every_page_can_be_reached():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = re.findall(
        r"^[\w/]+$", "".join(re.findall(r"```{toctree}\n.*?\n\n(.*?)```", index, re.DOTALL)), re.MULTILINE
    )
    pages = {page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in SITE}
    assert sorted(listed) == sorted(pages - {"index"})


def test_every_example_is_shown():
    text = "\n".join(page.read_text(encoding="utf-8") for page in SITE)
    scripts = sorted(path.name for path in (ROOT / "docs" / "examples").glob("*.py"))
    assert sorted(re.findall(r"^\$ python docs/examples/(\S+)", text, re.MULTILINE)) == scripts
    assert sorted(set(re.findall(r"{literalinclude} examples/(\S+)", text))) == scripts
