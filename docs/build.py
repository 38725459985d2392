"""
Make the documentation: the reference page, the figures, and the site in docs/_build/html.

python docs/build.py            everything
python docs/build.py --site     the site alone, of the pages and figures that are there

A warning of Sphinx is an error.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIGURES = HERE / "figures"


def main() -> int:
    """Make what is asked for; the status is that of Sphinx."""
    parser = argparse.ArgumentParser(description="Make the documentation.")
    parser.add_argument("--site", action="store_true", help="only the site, of the pages and figures that are there")
    if not parser.parse_args().site:
        make_pages()
    return make_site(HERE / "_build" / "html")


def make_pages() -> None:
    """Write the reference page, and keep the figures that the blocks of the pages draw."""
    import matplotlib
    import pages

    from stacksweep.documentation import reference

    (HERE / "reference.md").write_text(reference(), encoding="utf-8")
    matplotlib.use("Agg")
    for page in pages.pages():
        with tempfile.TemporaryDirectory() as directory:
            pages.run(page, Path(directory))
            for figure in Path(directory).glob("*.png"):
                shutil.copyfile(figure, FIGURES / figure.name)


def make_site(target: Path) -> int:
    """Build the site afresh."""
    from sphinx.cmd.build import main as sphinx

    return sphinx(["-W", "--keep-going", "-q", "-E", "-b", "html", str(HERE), str(target)])


if __name__ == "__main__":
    sys.exit(main())
