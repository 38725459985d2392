"""Arguments that are dask arrays."""

from collections.abc import Mapping
from typing import Any

import xarray as xr

from stacksweep.parameters import ParameterError
from stacksweep.space import POINT

Chunks = dict[str, tuple[int, ...]]


def settle(parameters: Mapping[str, Any], points: Any) -> tuple[dict[str, Any], Any, Chunks | None]:
    """
    Compute arguments that are dask arrays, all at once, and note how they were cut.

    What parameters hold along their own dimensions is small beside the result; plans, models and networks must be known
    before tables can be made of them.

    Parameters
    ----------
    parameters : mapping
        Arguments by name.
    points : object
        The argument `points`.

    Returns
    -------
    parameters : dict
    points : object
    chunks : dict or None
        Lengths of chunks by dimension; None where no argument is a dask array.

    Raises
    ------
    ParameterError
        If two of them are cut differently along one dimension.
    """
    backed = {name: value for name, value in parameters.items() if _is_backed(value)}
    lazy_points = isinstance(points, xr.Dataset) and _is_backed(points)
    if not backed and not lazy_points:
        return dict(parameters), points, None
    from dask.base import compute

    chunks: Chunks = {}
    for name, value in backed.items():
        _note(name, _cut(name, value), chunks)
    if lazy_points:
        # a table that has not just one dimension is refused later
        _note("points", dict(zip((POINT,), points.chunksizes.values(), strict=False)), chunks)
        backed[""] = points
    computed = dict(zip(backed, compute(*backed.values()), strict=True))  # type: ignore[no-untyped-call]
    points = computed.pop("", points)
    return {**parameters, **computed}, points, chunks


def _is_backed(value: Any) -> bool:
    """Whether a value is computed by dask; asks no class, since dask may not be there."""
    graph = getattr(value, "__dask_graph__", None)
    return callable(graph) and not isinstance(value, type) and graph() is not None


def _cut(name: str, value: Any) -> Chunks:
    if isinstance(value, xr.DataArray):
        return {str(dim): lengths for dim, lengths in value.chunksizes.items()}
    lengths = getattr(value, "chunks", None)
    if not isinstance(lengths, tuple) or len(lengths) > 1:
        raise ParameterError(
            f"{name}: got a {type(value).__name__} of dask; name its dimensions with an xarray.DataArray"
        )
    return {name: lengths[0]} if lengths else {}


def _note(name: str, cut: Chunks, chunks: Chunks) -> None:
    for dim, lengths in cut.items():
        if chunks.setdefault(dim, lengths) != lengths:
            raise ParameterError(f"{name}: its chunks along {dim!r} differ from those of another argument")
