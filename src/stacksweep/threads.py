"""Work on all cores: numpy and the kernels release the GIL."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from deepstack_noc.tables import available_cores

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

LARGE = 2**17
"""Arrays of at least so many values are worth a thread."""


def each(function: Callable[[Item], Outcome], items: Sequence[Item], size: int) -> list[Outcome]:
    """Apply a function to every item, in threads if an item holds `size` values and that is many."""
    if size < LARGE or available_cores() == 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(available_cores()) as pool:
        return list(pool.map(function, items))
