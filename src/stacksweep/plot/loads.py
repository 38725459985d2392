"""Bytes that a collective sends over each link of a network."""

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import deepstack_noc as dn
from deepstack_noc.collectives import algorithms_of, rank_pairs

State = tuple[int | str | None, int | str | None, int | str | None]
Link = tuple[State, State]


def links_of(noc: dn.Noc, link_model: str) -> list[Link]:
    """List the links of the routes between all devices."""
    found: dict[Link, None] = {}
    for source in range(noc.devices):
        for target in range(noc.devices):
            states = dn.route(noc, source, target, link_model)
            found.update(dict.fromkeys(pairwise(states)))
    return list(found)


def link_loads(
    noc: dn.Noc, sizes: Mapping[str, int], dim: str, nbytes: int, collective: str, link_model: str
) -> tuple[dict[Link, int], str]:
    """
    Add up what a collective sends over each link.

    Parameters
    ----------
    noc, sizes, dim, nbytes, link_model
        As of the functions of deepstack_noc.
    collective : str
        One of `deepstack_noc.COLLECTIVES`.

    Returns
    -------
    dict
        Bytes over each link that carries any, in all stages of the algorithm and all groups, by the states before and
        after it.
    str
        The algorithm taken.
    """
    groups = dn.groups_of(noc.devices, sizes, dim)
    algorithms = algorithms_of(collective, groups)
    price: Any = getattr(dn, collective)
    arguments = (noc, sizes, nbytes) if collective == "pipeline_transfer" else (noc, sizes, dim, nbytes)
    algorithm = str(price(*arguments, link_model=link_model).algorithm)
    loads: Counter[Link] = Counter()
    for stage in algorithms[algorithm]:
        sent = nbytes // stage.divisor * stage.repeat
        for source, target in _flows(noc.devices, stage):
            states = dn.route(noc, source, target, link_model)
            for link in pairwise(states):
                loads[link] += sent
    return {link: load for link, load in loads.items() if load}, algorithm


def _flows(devices: int, stage: Any) -> list[tuple[int, int]]:
    """List sources and targets of the flows of a stage, in all groups."""
    family = stage.family
    if family.name == "direct":
        pairs = [(a, b) for a in range(family.size) for b in range(family.size) if a != b]
    elif family.name == "pipeline":
        pairs = [(int(a), int(b)) for one in rank_pairs(family) for a, b in zip(*one, strict=True)]
    else:
        sources, targets = rank_pairs(family)[stage.pattern]
        pairs = [(int(a), int(b)) for a, b in zip(sources, targets, strict=True)]
    span = family.stride * family.size
    firsts = [block * span + offset for block in range(devices // span) for offset in range(family.stride)]
    return [(first + a * family.stride, first + b * family.stride) for first in firsts for a, b in pairs]
