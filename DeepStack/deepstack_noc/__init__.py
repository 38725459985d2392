"""DeepStack's network model for batches: collectives on hierarchical networks, tabulated once, priced over arrays."""

from .api import (
    RATE_NAMES,
    Cost,
    all_gather,
    all_reduce,
    all_to_all,
    pipeline_transfer,
    reduce_scatter,
    route,
)
from .collectives import ALGORITHMS, COLLECTIVES
from .errors import NocError, ProfileError
from .groups import DIMENSIONS, Groups, all_groups, groups_of
from .network import LINK_MODELS
from .noc import LEVEL_NAMES, Level, Noc, Topology, bundled_nocs, load_noc
from .patterns import set_cache_directory
from .report import Bottleneck, Description, bottleneck, describe, uncharged_shares
from .tables import Tables, join, tabulate, tabulate_pairs

__all__ = [
    "ALGORITHMS",
    "COLLECTIVES",
    "DIMENSIONS",
    "LEVEL_NAMES",
    "LINK_MODELS",
    "RATE_NAMES",
    "Bottleneck",
    "Cost",
    "Description",
    "Groups",
    "Level",
    "Noc",
    "NocError",
    "ProfileError",
    "Tables",
    "Topology",
    "all_gather",
    "all_groups",
    "all_reduce",
    "all_to_all",
    "bottleneck",
    "bundled_nocs",
    "describe",
    "groups_of",
    "join",
    "load_noc",
    "pipeline_transfer",
    "reduce_scatter",
    "route",
    "set_cache_directory",
    "tabulate",
    "tabulate_pairs",
    "uncharged_shares",
]
