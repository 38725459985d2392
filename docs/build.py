"""
Make what the documentation takes from the package: the reference page and the figures.

python docs/build.py
"""

import runpy
from pathlib import Path

from stacksweep.documentation import reference

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Write the page and run the examples."""
    (HERE / "reference.md").write_text(reference(), encoding="utf-8")
    for example in sorted((HERE / "examples").glob("*.py")):
        runpy.run_path(str(example), run_name="__main__")


if __name__ == "__main__":
    main()
