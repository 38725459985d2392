"""Collectives on a network, priced over arrays of bytes and rates."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .collectives import ALGORITHMS
from .cost import price
from .errors import NocError
from .groups import Groups, groups_of
from .links import State, states_of_route
from .network import network_of
from .noc import Noc, load_noc
from .tables import Tables, tabulate, tabulate_pairs

NocLike = str | os.PathLike[str] | Mapping[str, Any] | Noc

RATE_NAMES = tuple(f"{level}_{rate}" for rate in ("latency", "bandwidth", "pj_per_bit") for level in ("l1", "l2", "l3"))
"""Rates that may be given in place of a profile's: ``l1_latency`` in s, ``l1_bandwidth`` in byte/s, ``l1_pj_per_bit``
in pJ/bit, and the same of l2 and l3."""

MOST_BYTES = 2**53
"""Most bytes of a collective: up to here they are exact as floating-point numbers."""


@dataclass(frozen=True)
class Cost:
    """Price of a collective: numbers, or arrays in the shape that bytes and rates broadcast to.

    Attributes
    ----------
    hop_time : float or ndarray
        Time of the longest routes, summed over stages, s.
    link_time : float or ndarray
        Time of the busiest links, summed over stages, s.
    energy : float or ndarray
        Energy of all transfers of all groups, pJ; NaN without coefficients.
    algorithm_code : int or ndarray of int8
        Algorithm taken, as a position in :data:`ALGORITHMS`.
    """

    hop_time: float | NDArray[np.float64]
    link_time: float | NDArray[np.float64]
    energy: float | NDArray[np.float64]
    algorithm_code: int | NDArray[np.int8]

    @property
    def time(self) -> float | NDArray[np.float64]:
        """Hop plus link time, s."""
        return self.hop_time + self.link_time

    @property
    def algorithm(self) -> str | NDArray[np.str_]:
        """Name of the algorithm taken; ``none`` for a group of one."""
        if isinstance(self.algorithm_code, int):
            return ALGORITHMS[self.algorithm_code]
        return np.array(ALGORITHMS)[self.algorithm_code]


def all_reduce(
    noc: NocLike,
    sizes: Mapping[str, int],
    dim: str,
    nbytes: ArrayLike,
    link_model: str = "deepstack",
    **rates: ArrayLike,
) -> Cost:
    """Price all-reduces in all groups of a dimension at once.

    The cheapest of recursive doubling, ring, Rabenseifner, double tree and all-to-all is taken, the first of equals in
    this order; the ring where the group size is no power of two.

    Parameters
    ----------
    noc : str, path, mapping or Noc
        The network; see :func:`load_noc`.
    sizes : mapping
        Parallel sizes of tp, ep, sp, cp, dp and pp, innermost first, missing ones 1; they multiply to the number of
        devices.
    dim : str
        The dimension that the collective runs in.
    nbytes : int or array of int
        Bytes that every rank holds, 0 to 2**53.
    link_model : {"deepstack", "physical"}
        DeepStack's numbers, or every link of a route charged.
    **rates : float or array
        ``l1_latency``, ``l2_latency``, ``l3_latency`` (s), ``l1_bandwidth``, … (byte/s), ``l1_pj_per_bit``, …
        (pJ/bit) in place of the profile's. They broadcast with `nbytes` like numpy arrays.

    Returns
    -------
    Cost

    Raises
    ------
    NocError
        If an argument is not allowed, or the link model has no routes for the network.

    See Also
    --------
    all_gather, reduce_scatter, all_to_all, pipeline_transfer

    Examples
    --------
    >>> import deepstack_noc as dn
    >>> cost = dn.all_reduce("gpu_cluster_32", {"tp": 8, "dp": 4}, "tp", [2**10, 2**24], l1_bandwidth=400e9)
    >>> cost.algorithm.tolist()
    ['all_to_all', 'rabenseifner']
    >>> cost.time.round(8).tolist()
    [2.52e-06, 8.84e-05]
    """
    return _price("all_reduce", noc, sizes, dim, nbytes, link_model, rates)


def all_gather(
    noc: NocLike,
    sizes: Mapping[str, int],
    dim: str,
    nbytes: ArrayLike,
    link_model: str = "deepstack",
    **rates: ArrayLike,
) -> Cost:
    """Price all-gathers in all groups of a dimension at once.

    The cheapest of ring, recursive doubling (group sizes that are powers of two) and direct is taken, the first of
    equals in this order.

    Parameters
    ----------
    noc, sizes, dim, link_model, **rates
        As of :func:`all_reduce`.
    nbytes : int or array of int
        Bytes that every rank holds in the end, 0 to 2**53.

    Returns
    -------
    Cost

    Raises
    ------
    NocError
        As :func:`all_reduce`.
    """
    return _price("all_gather", noc, sizes, dim, nbytes, link_model, rates)


def reduce_scatter(
    noc: NocLike,
    sizes: Mapping[str, int],
    dim: str,
    nbytes: ArrayLike,
    link_model: str = "deepstack",
    **rates: ArrayLike,
) -> Cost:
    """Price reduce-scatters in all groups of a dimension at once.

    Recursive halving, as in the first half of Rabenseifner's all-reduce, where the group size is a power of two; else
    the ring.

    Parameters
    ----------
    noc, sizes, dim, link_model, **rates
        As of :func:`all_reduce`.
    nbytes : int or array of int
        Bytes that every rank holds at first, 0 to 2**53.

    Returns
    -------
    Cost

    Raises
    ------
    NocError
        As :func:`all_reduce`.
    """
    return _price("reduce_scatter", noc, sizes, dim, nbytes, link_model, rates)


def all_to_all(
    noc: NocLike,
    sizes: Mapping[str, int],
    dim: str,
    nbytes: ArrayLike | None = None,
    link_model: str = "deepstack",
    *,
    pair_bytes: ArrayLike | None = None,
    **rates: ArrayLike,
) -> Cost:
    """Price all-to-alls in all groups of a dimension at once: one stage, every rank sends to every other.

    Parameters
    ----------
    noc, sizes, dim, link_model, **rates
        As of :func:`all_reduce`.
    nbytes : int or array of int, optional
        Bytes that every rank sends to every other, 0 to 2**53.
    pair_bytes : array of int, (size, size) or (groups, size, size), optional
        In place of `nbytes`: bytes from rank a to rank b, the same in all groups or for each, in the order of
        :class:`Groups`. The diagonal stays on its device and is not read.

    Returns
    -------
    Cost

    Raises
    ------
    NocError
        As :func:`all_reduce`.

    See Also
    --------
    tabulate_pairs : the same as a table, for counts that are priced many times.
    """
    if (nbytes is None) == (pair_bytes is None):
        raise NocError("all_to_all takes one of nbytes and pair_bytes; give one of the two")
    if pair_bytes is None:
        assert nbytes is not None
        return _price("all_to_all", noc, sizes, dim, nbytes, link_model, rates)
    network = load_noc(noc)
    stride, size = groups_of(network.devices, sizes, dim)
    return _price_table(
        network, tabulate_pairs(network, stride, size, np.asarray(pair_bytes), link_model), np.array(1), rates
    )


def pipeline_transfer(
    noc: NocLike,
    sizes: Mapping[str, int],
    nbytes: ArrayLike,
    link_model: str = "deepstack",
    **rates: ArrayLike,
) -> Cost:
    """Price the transfers between pipeline stages: every rank sends to its counterpart of the next stage.

    Parameters
    ----------
    noc, sizes, link_model, **rates
        As of :func:`all_reduce`.
    nbytes : int or array of int
        Bytes that every rank sends, 0 to 2**53.

    Returns
    -------
    Cost
        Times of the slowest boundary between stages, energy of all boundaries.

    Raises
    ------
    NocError
        As :func:`all_reduce`.
    """
    return _price("pipeline_transfer", noc, sizes, "pp", nbytes, link_model, rates)


def route(noc: NocLike, source: int, target: int, link_model: str = "deepstack") -> list[State]:
    """List the states of the route between two devices.

    Parameters
    ----------
    noc : str, path, mapping or Noc
        The network; see :func:`load_noc`.
    source, target : int
        Device numbers.
    link_model : {"deepstack", "physical"}
        Which routes.

    Returns
    -------
    list of tuple
        Places at L3, L2, L1: a node number, ``"C"`` for the CENTER of a switch, None for a level without a place.

    Raises
    ------
    NocError
        If there is no such device, or the link model has no routes for the network.
    """
    return states_of_route(network_of(load_noc(noc).topology, link_model), source, target)


def _price(
    collective: str,
    noc: NocLike,
    sizes: Mapping[str, int],
    dim: str,
    nbytes: ArrayLike,
    link_model: str,
    rates: Mapping[str, ArrayLike],
) -> Cost:
    profile = load_noc(noc)
    groups = groups_of(profile.devices, sizes, dim)
    return price_collective(collective, profile, groups, whole_bytes(nbytes), link_model, rates)


def price_collective(
    collective: str,
    noc: Noc,
    groups: Groups,
    nbytes: NDArray[np.int64],
    link_model: str,
    rates: Mapping[str, ArrayLike],
) -> Cost:
    """Price a collective by name, for checked arguments.

    Raises
    ------
    NocError
        If a rate is not allowed, or the link model has no routes for the network.
    """
    return _price_table(noc, tabulate(noc, [(collective, *groups)], link_model), nbytes, rates)


def _price_table(noc: Noc, tables: Tables, nbytes: NDArray[np.int64], rates: Mapping[str, ArrayLike]) -> Cost:
    """Price the only row of a table."""
    full = rates_of(noc, rates)
    try:
        np.broadcast_shapes(nbytes.shape, *(rate.shape for rate in full))
    except ValueError:
        given = {"nbytes": nbytes, **rates}
        shapes = ", ".join(f"{name} {np.shape(value)}" for name, value in given.items())
        raise NocError(f"shapes are {shapes}; allowed are shapes that broadcast together") from None
    prices = price(tables, 0, nbytes, full)
    energy = prices.energy
    if any(np.ndim(rate) == 0 and np.isnan(rate) for rate in full):
        energy = np.full_like(energy, np.nan)
    if prices.hop.ndim == 0:
        return Cost(prices.hop.item(), prices.link.item(), energy.item(), prices.algorithm.item())
    return Cost(prices.hop, prices.link, energy, prices.algorithm)


def whole_bytes(nbytes: ArrayLike) -> NDArray[np.int64]:
    """Check bytes and return them as integers.

    Raises
    ------
    NocError
        If they are no whole numbers from 0 to 2**53.
    """
    given = np.asarray(nbytes)
    allowed = "whole numbers from 0 to 2**53"
    if given.dtype.kind not in "iuf":
        raise NocError(f"nbytes is {nbytes!r}; allowed are {allowed}")
    if given.size and not (given.min() >= 0 and given.max() <= MOST_BYTES and (np.floor(given) == given).all()):
        bad = next(value for value in given.flat if not (0 <= value <= MOST_BYTES and value == np.floor(value)))
        raise NocError(f"nbytes is {bad}; allowed are {allowed}")
    return given.astype(np.int64, copy=False)


def rates_of(noc: Noc, given: Mapping[str, ArrayLike]) -> list[NDArray[np.float64]]:
    """Complete given rates by those of a profile, in the order of :data:`deepstack_noc.cost.RATES`.

    Raises
    ------
    NocError
        If a name or a value is not allowed.
    """
    for name in given:
        if name not in RATE_NAMES:
            raise NocError(f"{name!r} is no rate of a network; allowed are {', '.join(RATE_NAMES)}")
    inner_first = noc.levels[::-1]
    energies = noc.energy_pj_per_bit or (np.nan, np.nan, np.nan)
    own = [
        *(level.latency for level in inner_first),
        *(level.bandwidth for level in inner_first),
        *energies,
    ]
    rates = [
        _checked_rate(name, given[name]) if name in given else np.asarray(value)
        for name, value in zip(RATE_NAMES, own, strict=True)
    ]
    centers = [np.asarray(1.0 / level.center_capacity) for level in inner_first]
    return [*rates[:3], *(1.0 / bandwidth for bandwidth in rates[3:6]), *centers, *rates[6:]]


def _checked_rate(name: str, value: ArrayLike) -> NDArray[np.float64]:
    rate = np.asarray(value)
    positive = name.endswith("bandwidth")
    allowed = "finite numbers above 0" if positive else "finite numbers from 0"
    if rate.dtype.kind not in "iuf":
        raise NocError(f"{name} is {value!r}; allowed are {allowed}")
    # a NaN fails every comparison
    if rate.size and not (rate.max() < np.inf and (rate.min() > 0 if positive else rate.min() >= 0)):
        bad = next(x for x in rate.flat if not (np.isfinite(x) and (x > 0 if positive else x >= 0)))
        raise NocError(f"{name} is {bad}; allowed are {allowed}")
    return rate.astype(np.float64, copy=False)
