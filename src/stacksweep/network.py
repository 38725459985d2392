"""Join of `deepstack_noc`'s tables to design points."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import deepstack_noc as dn
from stacksweep.columns import Array, Column, constant, number
from stacksweep.dispatch import Dispatch, dispatch_tables
from stacksweep.kernels import rows
from stacksweep.kernels.validity import VALID
from stacksweep.parameters import ParameterError
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
    collectives : int array, (plans, 6)
        Rows of `tables` for each plan: all-reduce over tp, all-reduce and all-gather over cp, all-to-all over the MoE
        scheme's ep, all-reduce over its tp, transfer between pipeline stages.
    dispatch_keys, dispatch_rows : int arrays
        Sorted keys of dispatches that are counted token by token, and their rows of `tables`.
    load : dict
        Columns by field of `rows.LOAD`.
    """

    tables: dn.Tables
    collectives: Array
    dispatch_keys: Array
    dispatch_rows: Array
    load: dict[str, Column]


def join(
    columns: Mapping[str, Column],
    plan: Mapping[str, Column],
    reason: Column,
    models: Sequence[ModelSpec],
    routings: Sequence[Routing],
) -> Network:
    """
    Tabulate the collectives of every plan on every network, each once, and say which point uses which.

    Parameters
    ----------
    columns : mapping
        Columns of the sweep's parameters.
    plan : mapping
        Columns of `rows.PLAN_FIELDS`.
    reason : Column
        Why a plan cannot be; such a plan is not tabulated.
    models, routings : sequence
        What the numbers in the columns `model` and `routing` stand for.

    Returns
    -------
    Network

    Raises
    ------
    ParameterError
        If a link model has no routes for a network.
    """
    nocs: tuple[dn.Noc, ...] = columns["noc"].choices if "noc" in columns else ()
    rates = _rate_columns(columns, nocs)
    tables = [_free()]
    if not nocs:
        none = Dispatch.none()
        load = {"collectives": constant(0), "dispatch_group": none.group, **rates}
        return Network(dn.join(tables), np.full((1, 6), FREE), none.keys, none.rows, load)

    sizes = [plan[name] for name in ("tp", "dp", "pp", "cp", "moe_tp", "moe_ep")]
    valid = reason.map(lambda code: np.asarray(code == VALID))
    group, different = number(valid, columns["noc"], columns["link_model"], *sizes)
    words = columns["link_model"].choices
    wanted: dict[tuple[int, int], dict[Request, int]] = {}
    for is_valid, noc, link_model, *numbers in different:
        if is_valid:
            rows_of = wanted.setdefault((int(noc), int(link_model)), {})
            for request in requests(*map(int, numbers)):
                if request[2] > 1:
                    rows_of.setdefault(request, len(rows_of))
    first: dict[tuple[int, int], int] = {}
    count = 1
    for (noc, link_model), rows_of in wanted.items():
        first[noc, link_model] = count
        count += len(rows_of)
        if rows_of:
            tables.append(tabulate(nocs[noc].topology, list(rows_of), words[link_model]))
    collectives = np.full((len(different), 6), FREE)
    for row, (is_valid, noc, link_model, *numbers) in enumerate(different):
        if is_valid:
            pair = int(noc), int(link_model)
            rows_of, start = wanted[pair], first[pair]
            collectives[row] = [
                start + rows_of[request] if request[2] > 1 else FREE for request in requests(*map(int, numbers))
            ]
    dispatch = dispatch_tables(columns, plan, reason, models, routings, nocs)
    load = {"collectives": group, "dispatch_group": dispatch.group, **rates}
    dispatch_rows = np.where(dispatch.rows >= 0, dispatch.rows + count, -1)
    return Network(dn.join([*tables, *dispatch.tables]), collectives, dispatch.keys, dispatch_rows, load)


def tabulate(topology: dn.Topology, wanted: Sequence[Request], link_model: str) -> dn.Tables:
    """Tabulate collectives; a link model without routes for the network is an error of that parameter."""
    try:
        return dn.tabulate(topology, wanted, link_model)
    except dn.NocError as error:
        raise ParameterError(f"link_model: {error}") from None


def requests(tp: int, dp: int, pp: int, cp: int, moe_tp: int, moe_ep: int) -> list[Request]:
    """Name collective, stride and size of the six collectives of a plan; ranks lie in the order tp, ep, cp, dp, pp."""
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


def _rate_columns(columns: Mapping[str, Column], nocs: Sequence[dn.Noc]) -> dict[str, Column]:
    """Columns of `rows.RATE_FIELDS`: those of the networks, overridden by the parameters given."""
    for name in dn.RATE_NAMES:
        if name in columns and not nocs:
            raise ParameterError(f"{name}: overrides a network, and none is given; give noc too")
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
