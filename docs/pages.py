"""
The code blocks of the pages: run them in order, as a reader would.

A block of `python` runs in the namespace of its page, and a block of `text` right after it is what it prints.
A line of a block of `console` that starts with `$ ` calls stacksweep or an example, and the lines below are
what that prints. A block below a comment of HTML becomes the file that this names, and one of `toml` that of its
first line (`# FILE`). Formulas (no language), other text, what sets up (`bash`), and blocks of Sphinx (in
braces) are left alone.
"""

import contextlib
import io
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from typer.testing import CliRunner

from stacksweep.cli import app

DOCS = Path(__file__).resolve().parent

FENCE = re.compile(
    r"^(?:<!-- (?P<file>\S+) -->\n)?```(?P<language>\S*)[^\n]*\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
"""A block, its language, and the name of its file where a comment above gives one."""

LEFT_ALONE = {"", "text", "bash"}


class Printed(NamedTuple):
    """What a page says that a block prints, and what it does print."""

    code: str
    expected: list[str]
    shown: list[str]

    @property
    def agree(self) -> bool:
        """Whether both are the same; `...` on the page stands for anything, such as a time."""
        anything = re.escape("\n".join(self.expected)).replace(re.escape("..."), ".*")
        return re.fullmatch(anything, "\n".join(self.shown), re.DOTALL) is not None


def pages() -> list[Path]:
    """Pages of the site that stand in the repository."""
    return sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)


def run(page: Path, directory: Path) -> list[Printed]:
    """
    Run the blocks of a page.

    Parameters
    ----------
    page : Path
        Markdown.
    directory : Path
        Where files go.

    Returns
    -------
    list of Printed
        One for each block that runs.

    Raises
    ------
    ValueError
        If a block is of a language that does not run.
    """
    with contextlib.chdir(directory):
        return list(_run(page))


def _run(page: Path) -> Iterator[Printed]:
    text = page.read_text(encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    blocks = list(FENCE.finditer(text))
    for block, after in zip_longest(blocks, blocks[1:]):
        language, body = block["language"], block["body"]
        if language == "python":
            follows = after is not None and after["language"] == "text" and text[block.end() : after.start()] == "\n"
            yield Printed(body, _lines(after["body"]) if follows else [], _python(body, namespace, page))
        elif language == "console":
            yield from _commands(body)
        elif block["file"] or language == "toml":
            Path(block["file"] or body.split("\n", 1)[0].removeprefix("# ")).write_text(body, encoding="utf-8")
        elif language not in LEFT_ALONE and not language.startswith("{"):
            line = text.count("\n", 0, block.start()) + 1
            raise ValueError(f"{page.name}, line {line}: a block of {language!r} does not run")


def _python(body: str, namespace: dict[str, Any], page: Path) -> list[str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(body, page.name, "exec"), namespace)
    return _lines(out.getvalue())


def _commands(body: str) -> Iterator[Printed]:
    for call in re.split(r"^\$ ", body.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        command, _, expected = call.partition("\n")
        yield Printed(command, _lines(expected), _lines(_command(shlex.split(command))))


def _command(words: list[str]) -> str:
    match words:
        case ["stacksweep", *arguments]:
            done = CliRunner().invoke(app, arguments, prog_name="stacksweep")
            if done.exception is not None and not isinstance(done.exception, SystemExit):
                raise done.exception
            return done.output
        case ["python", script, *arguments]:
            out = io.StringIO()
            with contextlib.redirect_stdout(out), mock.patch.object(sys, "argv", [script, *arguments]):
                runpy.run_path(str(DOCS.parent / script), run_name="__main__")
            return out.getvalue()
    raise ValueError(f"{shlex.join(words)!r} calls neither stacksweep nor an example")


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]
