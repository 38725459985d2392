"""Groups of ranks: which devices talk to each other in a dimension of the parallel sizes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import NamedTuple

import numpy as np

from .errors import NocError

DIMENSIONS = ("tp", "ep", "sp", "cp", "dp", "pp")
"""Parallel dimensions, from the innermost out."""


class Groups(NamedTuple):
    """All groups of one dimension: `size` ranks each, `stride` devices apart.

    Group number `g` of the order that per-pair counts follow has its first rank on device
    ``g // blocks + g % blocks * stride * size``, where ``blocks = devices // (stride * size)``.
    """

    stride: int
    size: int


def groups_of(devices: int, sizes: Mapping[str, int], dim: str) -> Groups:
    """Return stride and size of the groups of a dimension.

    Parameters
    ----------
    devices : int
        Devices of the network.
    sizes : mapping
        Parallel sizes by dimension, missing ones 1.
    dim : str
        One of `DIMENSIONS`.

    Raises
    ------
    NocError
        If a name or a size is not allowed, or the sizes do not multiply to the number of devices.
    """
    if not isinstance(sizes, Mapping):
        raise NocError(f"sizes is {sizes!r}; allowed is a mapping of {', '.join(DIMENSIONS)} to sizes")
    for name, size in sizes.items():
        if name not in DIMENSIONS:
            raise NocError(f"sizes has the key {name!r}; allowed are {', '.join(DIMENSIONS)}")
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise NocError(f"sizes[{name!r}] is {size!r}; allowed are integers from 1")
    if dim not in DIMENSIONS:
        raise NocError(f"dim is {dim!r}; allowed are {', '.join(DIMENSIONS)}")
    world = 1
    stride = 1
    for name in DIMENSIONS:
        if name == dim:
            stride = world
        world *= int(sizes.get(name, 1))
    if world != devices:
        given = " * ".join(f"{name} {size}" for name, size in sizes.items())
        raise NocError(f"sizes multiply to {world} ({given}); allowed is the number of devices, {devices}")
    return Groups(stride, int(sizes.get(dim, 1)))


def all_groups(devices: int) -> list[Groups]:
    """List the groups of every dimension of every plan of a number of devices, each stride and size once."""
    divisors = [n for n in range(1, devices + 1) if devices % n == 0]
    return [Groups(stride, size) for stride, size in product(divisors, divisors) if devices % (stride * size) == 0]
