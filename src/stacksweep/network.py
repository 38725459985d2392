"""Join of `deepstack_noc`'s tables to design points."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import deepstack_noc as dn
from stacksweep.columns import Array, Column, constant
from stacksweep.dispatch import count_dispatches
from stacksweep.kernels import rows
from stacksweep.kernels.validity import VALID
from stacksweep.parameters import ParameterError
from stacksweep.plan import Plans
from stacksweep.profiles import ModelSpec
from stacksweep.routing import Routing

FREE = 0
"""Row of a collective that costs nothing."""

Request = tuple[str, int, int]
"""Collective, stride and size of its groups."""


@dataclass(frozen=True)
class Network:
    """
    What the kernels need to know of the networks of a sweep.

    Parameters
    ----------
    tables : deepstack_noc.Tables
        Rows of collectives.
    dispatch_keys, dispatch_rows : int arrays
        Sorted keys of dispatches that are counted token by token, and their rows of `tables`.
    """

    tables: dn.Tables
    dispatch_keys: Array
    dispatch_rows: Array


def join(
    columns: Mapping[str, Column],
    plans: Plans,
    table: Array,
    models: Sequence[ModelSpec],
    routings: Sequence[Routing],
) -> Network:
    """
    Tabulate the collectives of every plan on every network, each once, and note in the plans which they use.

    Parameters
    ----------
    columns : mapping
        Columns of the sweep's parameters.
    plans : Plans
    table : record array, (plans,)
        Rows of `rows.PLAN`; `dispatch_group` and `rows.NETWORK_FIELDS` are filled.
    models, routings : sequence
        What row numbers stand for.

    Returns
    -------
    Network

    Raises
    ------
    ParameterError
        If a link model has no routes for a network.
    """
    for name in rows.NETWORK_FIELDS:
        table[name] = FREE
    nocs: tuple[dn.Noc, ...] = columns["noc"].choices if "noc" in columns else ()
    words = columns["link_model"].choices
    wanted: dict[tuple[int, int], dict[Request, int]] = {}
    pairs = list(zip(plans.noc.tolist(), plans.link_model.tolist(), strict=True))
    for pair, row in zip(pairs, table, strict=True):
        if pair[0] >= 0 and row["reason"] == VALID:
            of_pair = wanted.setdefault(pair, {})
            for request in requests(row):
                if request[2] > 1:
                    of_pair.setdefault(request, len(of_pair))
    tables = [_free()]
    first: dict[tuple[int, int], int] = {}
    count = 1
    for pair, of_pair in wanted.items():
        first[pair] = count
        count += len(of_pair)
        if of_pair:
            tables.append(tabulate(nocs[pair[0]].topology, list(of_pair), words[pair[1]]))
    for pair, row in zip(pairs, table, strict=True):
        if pair in wanted and row["reason"] == VALID:
            for name, request in zip(rows.NETWORK_FIELDS, requests(row), strict=True):
                row[name] = first[pair] + wanted[pair][request] if request[2] > 1 else FREE
    dispatch = count_dispatches(columns, plans, table, models, routings, nocs)
    return Network(
        dn.join([*tables, *dispatch.tables]),
        dispatch.keys,
        np.where(dispatch.rows >= 0, dispatch.rows + count, -1),
    )


def tabulate(topology: dn.Topology, wanted: Sequence[Request], link_model: str) -> dn.Tables:
    """Tabulate collectives; a link model without routes for the network is an error of that parameter."""
    try:
        return dn.tabulate(topology, wanted, link_model)
    except dn.NocError as error:
        raise ParameterError(f"link_model: {error}") from None


def requests(plan: np.void) -> list[Request]:
    """
    Name collective, stride and size of the collectives of a plan, in the order of `rows.NETWORK_FIELDS`.

    Ranks lie in the order tp, ep, cp, dp, pp.
    """
    tp, dp, pp, cp, moe_tp, moe_ep = (int(plan[name]) for name in ("tp", "dp", "pp", "cp", "moe_tp", "moe_ep"))
    return [
        ("all_reduce", 1, tp),
        ("all_reduce", tp, cp),
        ("all_gather", tp, cp),
        ("all_to_all", moe_tp, moe_ep),
        ("all_reduce", 1, moe_tp),
        ("pipeline_transfer", tp * cp * dp, pp),
    ]


def _free() -> dn.Tables:
    """Tabulate a group of one, which costs nothing."""
    alone = dn.load_noc(
        {
            "schema_version": 1,
            "kind": "noc_hierarchy",
            "name": "one device",
            "layers": {
                level: {"kind": "switch", "shape": [1, 1], "hop_latency_ns": 0, "link_bandwidth_gbytes_per_s": 1}
                for level in ("L1", "L2", "L3")
            },
        }
    )
    return dn.tabulate(alone, [("all_reduce", 1, 1)])


def rate_columns(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Columns of `rows.RATE_FIELDS`: those of the networks, overridden by the parameters given."""
    nocs: tuple[dn.Noc, ...] = columns["noc"].choices if "noc" in columns else ()
    for name in dn.RATE_NAMES:
        if name in columns and not nocs:
            raise ParameterError(f"{name}: overrides a network, and none is given; give noc too")
    energies = [name for name in dn.RATE_NAMES if name.endswith("pj_per_bit")]
    given = [name for name in energies if name in columns]
    missing = [name for name in energies if name not in columns]
    for noc in nocs:
        if given and missing and noc.energy_pj_per_bit is None:
            raise ParameterError(f"{given[0]}: network {noc.name!r} has no energies; give {', '.join(missing)} too")
    if not nocs:
        # no link is ever crossed
        return {name: constant(1.0 if "bandwidth" in name or "capacity" in name else 0.0) for name in rows.RATE_FIELDS}
    own = np.array([_own_rates(noc) for noc in nocs])
    return {
        name: columns.get(name) or columns["noc"].lookup(own[:, place]) for place, name in enumerate(rows.RATE_FIELDS)
    }


def _own_rates(noc: dn.Noc) -> list[float]:
    """Rates of a profile in the order of `rows.RATE_FIELDS`."""
    inner_first = noc.levels[::-1]
    return [
        *(level.latency for level in inner_first),
        *(level.bandwidth for level in inner_first),
        *(level.center_capacity for level in inner_first),
        *(noc.energy_pj_per_bit or (np.nan, np.nan, np.nan)),
    ]
