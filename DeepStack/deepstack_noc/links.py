"""From link numbers back to what people read: states before and after a link."""

from __future__ import annotations

import numpy as np

from .errors import NocError
from .network import (
    KIND,
    L1,
    L2,
    OFFSET,
    PORTS,
    SIZE,
    SLOTS,
    SWITCH,
    Network,
    hop_of,
    in_port,
    out_port,
)
from .routes import entry_side, route_links

Place = int | str | None
State = tuple[Place, Place, Place]
"""Places at L3, L2, L1: a node number, ``"C"`` for a CENTER, None for a level without a place."""


def states_of_route(network: Network, source: int, target: int) -> list[State]:
    """List the states of a route from device to device, both ends included.

    Raises
    ------
    NocError
        If there is no such device.
    """
    devices = network.topology.devices
    for name, device in (("source", source), ("target", target)):
        if isinstance(device, bool) or not isinstance(device, int | np.integer) or not 0 <= device < devices:
            raise NocError(f"{name} is {device!r}; allowed are the device numbers 0 to {devices - 1}")
    _, middle, inner = network.topology.sizes
    states: list[State] = [(int(source // (middle * inner)), int(source // inner % middle), int(source % inner))]
    if source == target:
        return states
    runs = np.empty((network.runs, 2), np.int64)
    for k in range(route_links(network.layout, int(source), int(target), runs)):
        states += [link_ends(network, link)[1] for link in range(runs[k, 0], runs[k, 0] + runs[k, 1])]
    return states


def link_level(network: Network, link: int) -> int:
    """Level of a link: 0 for L3, 1 for L2, 2 for L1."""
    return 2 if link < network.layout[OFFSET + 1] else 1 if link < network.layout[OFFSET] else 0


def link_ends(network: Network, link: int) -> tuple[State, State]:
    """States before and after a link."""
    net, level = network.layout, link_level(network, link)
    blocks, slot = divmod(link - int(net[OFFSET + level]), int(net[SLOTS + level]))
    hop = np.zeros(3, np.int64)
    hop_of(net, level, slot, hop)
    u, v, x = hop.tolist()
    entry = entry_side(net, level, x)
    if level == 2:
        outer = divmod(blocks, int(net[SIZE + 1]))
        return (*outer, _place(network, 2, u)), (*outer, _place(network, 2, v))
    outside, j1 = divmod(blocks, int(net[PORTS + 2]))  # the node of L3, or the port number of L2
    leaves, enters = int(out_port(net, L1, x, j1)), int(in_port(net, L1, entry, j1))
    if level == 1:
        places = [(_place(network, 1, u), leaves), (_place(network, 1, v), enters)]
        before, after = (_inside(network, [outside, place], [inner]) for place, inner in places)
        return before, after
    ports = int(out_port(net, L2, x, outside)), int(in_port(net, L2, entry, outside))
    return (
        _inside(network, [_place(network, 0, u)], [ports[0], leaves]),
        _inside(network, [_place(network, 0, v)], [ports[1], enters]),
    )


def _place(network: Network, level: int, node: int) -> Place:
    """Name a node: a number, or C for a CENTER."""
    is_center = network.layout[KIND + level] == SWITCH and node == network.layout[SIZE + level]
    return "C" if is_center else int(node)


def _inside(network: Network, known: list[Place], ports: list[int]) -> State:
    """Complete a state by the ports where the inner levels stand; inside a CENTER they have no place."""
    physical = network.link_model == "physical"
    places = list(known)
    for node in ports:
        gone = physical and (places[-1] == "C" or places[-1] is None)
        places.append(None if gone else _place(network, len(places), node))
    outermost, middle, innermost = places
    return outermost, middle, innermost
