"""
Expert loads of few tokens, counted once per unique shape and looked up by the kernels.

From 4096 micro-batch tokens on, and for balanced routing, a load follows in closed form (`kernels.experts`).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from stacksweep.columns import Array, Column, aligned, all_dims, combine, constant, distinct
from stacksweep.kernels import experts as kernels
from stacksweep.profiles import ChipProfile, ModelSpec

SEED = 0
"""Seed of the random routing, the same for everyone so that results can be compared."""


def random_rows(tokens: int, experts: int, top_k: int) -> Array:
    """
    Experts of each token under random routing.

    Parameters
    ----------
    tokens, experts, top_k : int

    Returns
    -------
    int array, (tokens, top_k)
        The `top_k` smallest of uniform random numbers, per row; the first rows do not depend on `tokens`.
    """
    return np.random.default_rng(SEED).random((tokens, experts)).argsort(axis=1)[:, :top_k]


def counted_loads(
    columns: Mapping[str, Column], models: Sequence[ModelSpec], chips: Sequence[ChipProfile]
) -> tuple[Column, Array, Array]:
    """
    Count the expert loads that a sweep needs.

    Parameters
    ----------
    columns : mapping
        Columns of a sweep and its plan: `model`, `chip`, `routing`, `batch_size`, `input_seq_len`, `pp`, `cp`,
        `moe_ep`, `moe_dp`.
    models, chips : sequences of profiles
        What the row numbers of their columns stand for.

    Returns
    -------
    group : Column
        Routing group of each point, -1 where the load follows in closed form.
    keys : int array, (loads,)
        Sorted keys (`kernels.experts.load_key`) of the counted loads.
    counted : float array, (loads, 3)
        Pairs, active experts and BLEN blocks of the busiest rank.
    """
    routings = columns["routing"].choices
    if "random" not in routings or not any(model.num_experts for model in models):
        return constant(kernels.BALANCED), np.empty(0, np.int64), np.empty((0, 3))
    traits = [columns[name] for name in ("routing", "model", "chip", "moe_ep", "moe_dp")]
    dims = all_dims(*traits)
    values = np.broadcast_arrays(*(aligned(trait, dims) for trait in traits))
    shapes, number = np.unique(np.stack([v.ravel() for v in values]).astype(np.int64), axis=1, return_inverse=True)
    has_experts = np.array([bool(model.num_experts) for model in models])
    by_count = (shapes[0] == routings.index("random")) & has_experts[shapes[1]]
    groups = np.where(by_count, np.arange(by_count.size), kernels.BALANCED)
    group = Column(dims, groups[number].reshape(values[0].shape))

    micro_batch = combine(_ceil_div, columns["batch_size"], columns["pp"])
    query = combine(_ceil_div, columns["input_seq_len"], columns["cp"])
    wanted = np.unique(np.concatenate([_keys(group, micro_batch, phase) for phase in (query, constant(1.0))]))
    counted = np.empty((wanted.size, 3))
    of_group, loads = np.divmod(wanted, kernels.MAX_TOKENS**2)
    micro_batches, queries = np.divmod(loads, kernels.MAX_TOKENS)
    ids: dict[tuple[int, int], Array] = {}
    for g in np.unique(of_group):
        spec, blen = models[shapes[1, g]], chips[shapes[2, g]].blen
        chosen = of_group == g
        size = (spec.num_experts, spec.experts_per_token)
        if size not in ids:
            ids[size] = random_rows(int((micro_batches * queries).max()), *size)
        part = np.empty((int(chosen.sum()), 3))
        kernels.count_loads(
            ids[size],
            micro_batches[chosen],
            queries[chosen],
            int(shapes[4, g]),
            int(shapes[3, g]),
            spec.num_experts,
            blen,
            part,
        )
        counted[chosen] = part
    return group, wanted, counted


def _ceil_div(a: Array, b: Array) -> Array:
    return np.ceil(a / b)


def _keys(group: Column, micro_batch: Column, query: Column) -> Array:
    """Keys of the loads to be counted, each once."""
    columns = (group, distinct(micro_batch, group, query), distinct(query, group, micro_batch))
    dims = all_dims(*columns)
    g, m, q = np.broadcast_arrays(*(aligned(column, dims) for column in columns))
    wanted = (g != kernels.BALANCED) & (m * q < kernels.COUNTED_TOKENS)
    g, m, q = (values[wanted].astype(np.int64) for values in (g, m, q))
    return np.unique((g * kernels.MAX_TOKENS + m) * kernels.MAX_TOKENS + q)
