"""A sweep cut into boxes, a stretch of every dimension each: chunks of arrays and files, blocks of a stream."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, product
from math import ceil, prod
from typing import Any

from stacksweep.blocks import Problem
from stacksweep.columns import Column
from stacksweep.parameters import BY_NAME, PARAMETERS, ParameterError, did_you_mean

AUTO_POINTS = 10**6
"""Points of a chunk of `chunks="auto"`."""

Box = dict[str, slice]
"""For each dimension from where to where."""

_LOADS = {known.coordinate for known in PARAMETERS if known.group == "load"}


def chunk_shape(sizes: Mapping[str, int], points: int) -> dict[str, int]:
    """
    Shape of chunks of about so many points.

    Dimensions of the design are cut first, down to single positions, and those of the load last: whoever reads one
    stack or one plan wants all of its loads, and reads few chunks.

    Parameters
    ----------
    sizes : mapping
        Lengths of the dimensions.
    points : int
        At most so many in a chunk.

    Returns
    -------
    dict
        Lengths of a chunk, in the order of `sizes`.
    """
    shape = dict(sizes)
    for dim in sorted(sizes, key=lambda dim: dim in _LOADS):
        room = points // prod(length for other, length in shape.items() if other != dim)
        if room >= shape[dim]:
            break
        # equal pieces rather than a small one at the end
        pieces = ceil(sizes[dim] / max(room, 1))
        shape[dim] = ceil(sizes[dim] / pieces)
    return shape


def block_shape(
    sizes: Mapping[str, int], chunk: Mapping[str, int], points: int, first: Sequence[str] = ()
) -> dict[str, int]:
    """
    Shape of blocks of whole chunks that are priced and written one after the other.

    Parameters
    ----------
    sizes : mapping
        Lengths of the dimensions.
    chunk : mapping
        Lengths of a chunk.
    points : int
        At most so many in a block, unless a chunk has more.
    first : sequence of str
        Dimensions along which blocks grow first; then they grow from the last dimension on, so that they are nearly
        stretches of the result.

    Returns
    -------
    dict
        Lengths of a block, in the order of `sizes`.
    """
    shape = dict(chunk)
    for dim in (*first, *(dim for dim in reversed(list(sizes)) if dim not in first)):
        chunks = points // prod(shape.values())
        if chunks < 2:
            break
        shape[dim] = min(sizes[dim], chunk[dim] * chunks)
    return shape


def pieces(sizes: Mapping[str, int], shape: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Lengths of the pieces that every dimension is cut into."""
    return {
        dim: tuple(min(shape[dim], size - start) for start in range(0, size, shape[dim])) for dim, size in sizes.items()
    }


def stretches(lengths: Mapping[str, tuple[int, ...]]) -> list[list[slice]]:
    """From where to where the pieces of every dimension go."""
    return [
        [slice(stop - length, stop) for length, stop in zip(of_dim, accumulate(of_dim), strict=True)]
        for of_dim in lengths.values()
    ]


def boxes(lengths: Mapping[str, tuple[int, ...]]) -> Iterator[Box]:
    """Go through all boxes of a cut, in C order."""
    for box in product(*stretches(lengths)):
        yield dict(zip(lengths, box, strict=True))


def part(problem: Problem, box: Box) -> Problem:
    """Cut a box out of a problem: every column keeps what lies in it, and what is fixed stays."""

    def cut(columns: Mapping[str, Column]) -> dict[str, Column]:
        return {
            name: Column(column.dims, column.values[tuple(box[dim] for dim in column.dims)], column.choices)
            if column.dims
            else column
            for name, column in columns.items()
        }

    sizes = {dim: along.stop - along.start for dim, along in box.items()}
    return Problem(sizes, problem.fixed, cut(problem.load), cut(problem.machine))


def cut_as_asked(chunks: Any, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """
    Cut dimensions as the argument `chunks` says.

    Parameters
    ----------
    chunks : mapping or "auto"
        Lengths of chunks by dimension (or by the parameter that makes it): a whole number, or the length of every
        chunk. Dimensions without one are not cut.
    sizes : mapping
        Lengths of the dimensions.

    Returns
    -------
    dict
        Lengths of all chunks, in the order of `sizes`.

    Raises
    ------
    ParameterError
        If there is no such dimension, or a length is none.
    """
    if isinstance(chunks, str) and chunks == "auto":
        return pieces(sizes, chunk_shape(sizes, AUTO_POINTS))
    if not isinstance(chunks, Mapping):
        raise ParameterError(
            f'chunks: got {chunks!r}, needs "auto" or lengths by dimension, as in {{"batch_size": 32}}'
        )
    lengths: dict[str, tuple[int, ...]] = {dim: (size,) for dim, size in sizes.items()}
    for name, length in chunks.items():
        dim = BY_NAME[name].coordinate if name in BY_NAME else name
        if dim not in sizes:
            known = did_you_mean(str(name), sizes) or "; the result has " + (", ".join(sizes) or "none")
            raise ParameterError(f"chunks: no dimension is called {name!r}{known}")
        if isinstance(length, tuple) and all(map(_is_length, length)) and sum(length) == sizes[dim]:
            lengths[dim] = tuple(map(int, length))
        elif _is_length(length):
            lengths |= pieces({dim: sizes[dim]}, {dim: int(length)})
        else:
            raise ParameterError(
                f"chunks: {name}: got {length!r}, needs a whole number of at least 1, or lengths of chunks that sum to "
                f"{sizes[dim]}"
            )
    return lengths


def _is_length(value: Any) -> bool:
    return not isinstance(value, bool) and hasattr(value, "__index__") and value >= 1
