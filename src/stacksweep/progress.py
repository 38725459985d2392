"""How far a sweep is: a bar on the terminal, or a call of whoever asked."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stacksweep.parameters import ParameterError

Progress = Callable[[int, int], None]
"""Takes the points done and their total."""


@contextmanager
def reporting(progress: Progress | bool | None, *, by_default: bool) -> Iterator[Progress | None]:
    """
    Report progress as an argument asks for it.

    Parameters
    ----------
    progress : callable, bool or None
        Whom to call; or whether a bar is shown on stderr, if that is a terminal; None is `by_default`.
    by_default : bool

    Yields
    ------
    callable or None
        To be called with the points done and their total.

    Raises
    ------
    ParameterError
        If it is anything else.
    """
    if callable(progress):
        yield progress
    elif progress is not None and not isinstance(progress, bool):
        raise ParameterError(f"progress: got {progress!r}, needs true, false, or what is called with points and total")
    elif (by_default if progress is None else progress) and sys.stderr.isatty():
        with bar() as report:
            yield report
    else:
        yield None


@contextmanager
def bar(*, shown: bool = True) -> Iterator[Progress]:
    """Show a progress bar on stderr; yields what to call with the points done and their total."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not shown) as progress:
        task = progress.add_task("preparing", total=None, rate="")
        begun: list[tuple[float, int]] = []

        def report(done: int, total: int) -> None:
            # the first report starts the clock: what was there before, or compiled before, is no speed
            begun.append((time.perf_counter(), done)) if not begun else None
            seconds, points = time.perf_counter() - begun[0][0], done - begun[0][1]
            rate = f"{points / seconds:,.0f} points/s" if points else ""
            words = "evaluating" if done < total else "finishing"
            progress.update(task, completed=done, total=total, rate=rate, description=words)

        yield report
        progress.update(task, description="done")
