"""Parallel plans: sizes, schemes of dense and expert layers, validity, pipeline stages."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from deepstack_noc import load_noc
from stacksweep.columns import Array, Column, combine, constant, number
from stacksweep.kernels import rows
from stacksweep.kernels.validity import REASONS, VALID
from stacksweep.parameters import BY_NAME, PARALLEL, ParameterError
from stacksweep.profiles import ModelSpec, load_chip, load_model
from stacksweep.routing import Routing, load_routing
from stacksweep.space import Space, build

CODES = {name: code for code, name in enumerate(REASONS)}


def complete(grid: Space) -> tuple[Space, Column]:
    """
    Work out the size that is to fill the devices.

    Parameters
    ----------
    grid : Space

    Returns
    -------
    grid : Space
        With a column and a coordinate for every parallel size; 0 where a "fill" does not divide.
    devices : Column
        Devices of the network at each point.

    Raises
    ------
    ParameterError
        If a plan of several devices has no network.
    """
    columns = dict(grid.columns)
    if "noc" in columns:
        devices = columns["noc"].lookup(np.array([noc.devices for noc in columns["noc"].choices], np.float64))
    else:
        devices = constant(1.0)
        for name in PARALLEL:
            if name in columns and columns[name].values.max() > 1:
                largest = columns[name].values.max()
                raise ParameterError(f"noc: is missing, and {name}={largest:g} needs a network of several devices")
    if grid.fill is None:
        return grid, devices
    known = BY_NAME[grid.fill]
    others = [columns[name] for name in PARALLEL if name != grid.fill]
    filled = combine(_fill, devices, *others)
    columns[grid.fill] = filled
    coordinate = (filled.dims, filled.values.astype(np.int64), {"units": known.units, "long_name": known.words})
    return Space(grid.sizes, columns, {**grid.coordinates, known.coordinate: coordinate}, grid.fill), devices


def _fill(devices: Array, *others: Array) -> Array:
    product: Any = 1.0
    for other in others:
        product = product * other
    share = devices / product
    return np.where(share == np.floor(share), share, 0.0)


def plan_columns(columns: Mapping[str, Column], models: Sequence[ModelSpec]) -> dict[str, Column]:
    """
    Columns of `rows.PLAN_FIELDS`.

    Parameters
    ----------
    columns : mapping
        Columns of the parallel sizes, `model` and `moe_tp_mode`.
    models : sequence of ModelSpec

    Returns
    -------
    dict
    """
    tp, ep, dp, pp, cp = (columns[name] for name in PARALLEL)
    moe_tp, moe_ep = moe_scheme(columns, models)
    dense_dp = combine(np.multiply, dp, ep)
    return {"tp": tp, "dp": dense_dp, "pp": pp, "cp": cp, "moe_tp": moe_tp, "moe_ep": moe_ep, "moe_dp": dp}


def moe_scheme(columns: Mapping[str, Column], models: Sequence[ModelSpec]) -> tuple[Column, Column]:
    """Tensor- and expert-parallel sizes of routed experts; 1 where a model has none."""
    experts = _of_model(columns["model"], [spec.num_experts if any(spec.moe) else 0 for spec in models])
    mode = columns["moe_tp_mode"]
    keep = mode.lookup(np.array([word == "keep" for word in mode.choices]))
    arguments = (columns["tp"], columns["ep"], experts, keep)

    def tensor(tp: Array, ep: Array, e: Array, kept: Array) -> Array:
        replaced = np.where(tp * ep > e, np.floor(tp * ep / np.maximum(e, 1.0)), 1.0)
        return np.where(e == 0.0, 1.0, np.where(kept, tp, replaced))

    def expert(tp: Array, ep: Array, e: Array, kept: Array) -> Array:
        return np.where(e == 0.0, 1.0, np.where(kept, ep, np.minimum(tp * ep, e)))

    return combine(tensor, *arguments), combine(expert, *arguments)


def _of_model(model: Column, values: Sequence[float]) -> Column:
    return model.lookup(np.array(values, np.float64))


def reasons(
    columns: Mapping[str, Column], models: Sequence[ModelSpec], devices: Column, *, with_prompt: bool
) -> Column:
    """
    Find the first reason why a plan cannot be, in the order of `validity.REASONS`.

    Parameters
    ----------
    columns : mapping
        Columns of the parallel sizes, `model`, `moe_tp_mode` and `input_seq_len`.
    models : sequence of ModelSpec
    devices : Column
    with_prompt : bool
        Whether the prompt's length counts; without it the result varies along the plan's dimensions alone.

    Returns
    -------
    Column
        Codes, 0 for a plan that can be.
    """
    prompt = columns["input_seq_len"] if with_prompt and columns["cp"].values.max() > 1 else constant(np.inf)
    dense = _of_model(columns["model"], [not any(spec.moe) for spec in models])
    _, moe_ep = moe_scheme(columns, models)
    mode = columns["moe_tp_mode"]
    arguments = {
        **{name: columns[name] for name in PARALLEL},
        "devices": devices,
        "prompt": prompt,
        "heads": _of_model(columns["model"], [spec.num_attention_heads for spec in models]),
        "kv_heads": _of_model(columns["model"], [spec.num_key_value_heads for spec in models]),
        "layers": _of_model(columns["model"], [spec.num_hidden_layers for spec in models]),
        "experts": _of_model(columns["model"], [max(spec.num_experts, 1) for spec in models]),
        "dense": dense,
        "plain": _of_model(columns["model"], [not any(spec.moe) and not any(spec.sliding) for spec in models]),
        "moe_ep": moe_ep,
        "replace": mode.lookup(np.array([word == "replace" for word in mode.choices])),
    }
    names = list(arguments)
    return combine(lambda *values: _first_reason(**dict(zip(names, values, strict=True))), *arguments.values())


def _first_reason(
    tp: Array,
    ep: Array,
    dp: Array,
    pp: Array,
    cp: Array,
    devices: Array,
    prompt: Array,
    heads: Array,
    kv_heads: Array,
    layers: Array,
    experts: Array,
    dense: Array,
    plain: Array,
    moe_ep: Array,
    replace: Array,
) -> Array:
    world = tp * ep * dp * pp * cp
    some_tp = np.maximum(tp, 1.0)  # a failed "fill" is 0 and has its own reason
    replicas = np.where(tp <= kv_heads, kv_heads % some_tp, tp % kv_heads)
    routed = dense == 0.0
    cases = {
        "fill": world == 0.0,
        "world_size": world != devices,
        "tp_heads": heads % some_tp != 0.0,
        "tp_kv_heads": replicas != 0.0,
        "pp_layers": pp > layers,
        "cp_prompt": cp > prompt,
        "cp_model": (cp > 1.0) & (plain == 0.0),
        "moe_ranks": routed & replace & (tp * ep > experts) & (tp * ep % experts != 0.0),
        "ep_experts": routed & (experts % np.maximum(moe_ep, 1.0) != 0.0),
        "ep_dense": (ep > 1.0) & (dense != 0.0),
    }
    return np.asarray(np.select(list(np.broadcast_arrays(*cases.values())), [CODES[name] for name in cases], VALID))


def with_traces(
    reason: Column, model: Column, routing: Column, models: Sequence[ModelSpec], routings: Sequence[Routing]
) -> Column:
    """Add to the reasons of plans that a routing trace is not one of the model."""
    misfit = np.array(
        [
            [any(spec.moe) and not one.fits(spec.num_experts, spec.experts_per_token) for one in routings]
            for spec in models
        ]
    )
    if not misfit.any():
        return reason
    unfit = combine(lambda m, r: misfit[m, r], model, routing)
    return combine(lambda code, bad: np.where((code == VALID) & bad, CODES["routing_trace"], code), reason, unfit)


def stage_columns(model: Column, pp: Column, models: Sequence[ModelSpec]) -> tuple[Array, Column, Column]:
    """
    Lay out the pipeline stages of each model and pipeline-parallel size.

    Parameters
    ----------
    model, pp : Column
    models : sequence of ModelSpec

    Returns
    -------
    stages : array, (rows, `rows.ITEMS` + 1)
        Items of the whole pipeline, then of each stage that can be the slowest or the fullest, with its index.
    start, stop : Column
        Rows of each point.
    """
    numbers, different = number(model, pp)
    parts = [pipeline(models[int(code)], int(size)) for code, size in different]
    edges = np.cumsum([0, *map(len, parts)])
    start = numbers.lookup(edges[:-1])
    stop = numbers.lookup(edges[1:])
    return np.concatenate(parts), start, stop


def all_stages(model: ModelSpec, pp: int) -> Array:
    """
    Items of every stage of a pipeline: `ceil(layers / pp)` contiguous layers each, the last ones fewer or none.

    Parameters
    ----------
    model : ModelSpec
    pp : int

    Returns
    -------
    array, (pp, `rows.ITEMS` + 1)
    """
    stages = np.zeros((max(pp, 1), rows.ITEMS + 1))
    per_stage = -(-model.num_hidden_layers // max(pp, 1))
    for layer, (sliding, moe) in enumerate(zip(model.sliding, model.moe, strict=True)):
        stages[layer // per_stage, 2 * sliding + moe] += 1
    stages[0, rows.EMBEDDING] = 1
    stages[-1, rows.HEAD] = 1
    stages[:, rows.STAGE_INDEX] = np.arange(len(stages))
    return stages


def pipeline(model: ModelSpec, pp: int) -> Array:
    """
    Items of a whole pipeline, and of its stages that none other surpasses.

    A stage is dropped if another has as many of every item and stands before it, or has more layers: in some passes
    the embedding or the LM head costs nothing, and then the first of equal stages counts.
    """
    stages = all_stages(model, min(pp, model.num_hidden_layers))
    items = stages[:, : rows.ITEMS]
    layers = items[:, : rows.KINDS].sum(axis=1)
    _, first = np.unique(items, axis=0, return_index=True)
    kept = [
        one
        for one in sorted(first)
        if not any(
            (items[other] >= items[one]).all() and (other < one or layers[other] > layers[one]) for other in first
        )
    ]
    whole = np.append(items.sum(axis=0), -1.0)
    return np.concatenate([whole[None], stages[kept]])


def plans(
    model: Any, noc: Any, *, moe_tp_mode: str = "replace", input_seq_len: int | None = None
) -> dict[str, xr.DataArray]:
    """
    List all plans of a system that can be.

    Parameters
    ----------
    model, noc : str, path, mapping, or loaded profile
        The network that is served, and the one between the devices.
    moe_tp_mode : {"replace", "keep"}
        Whether routed experts replace tensor by expert parallelism.
    input_seq_len : int, optional
        Prompt that context parallelism must be able to split; any if not given.

    Returns
    -------
    dict
        tp, ep, dp, pp and cp as `xarray.DataArray` along one dimension `plan`, whose labels name the sizes above 1;
        ready to be passed on with `**`.

    Raises
    ------
    ParameterError
        If `moe_tp_mode` or `input_seq_len` is not allowed, or there is no plan that can be.
    ProfileError
        If a profile cannot be loaded.

    Examples
    --------
    >>> import stacksweep as ss
    >>> found = ss.plans("llama-3.1-8b", "gpu_node_8")
    >>> ds = ss.sweep(model="llama-3.1-8b", memory="fictional_stacked_dram", noc="gpu_node_8", **found)
    """
    spec, network = load_model(model), load_noc(noc)
    sizes = np.array(list(factorisations(network.devices, len(PARALLEL))), np.float64)
    given = {
        "model": spec,
        "moe_tp_mode": moe_tp_mode,
        "input_seq_len": int(1e9) if input_seq_len is None else input_seq_len,
        **{name: xr.DataArray(column, dims="plan") for name, column in zip(PARALLEL, sizes.T, strict=True)},
    }
    columns = build(given, loaders={"model": load_model, "routing": load_routing, "chip": load_chip}).columns
    devices = constant(float(network.devices))
    valid = reasons(columns, [spec], devices, with_prompt=True).values == VALID
    if not valid.any():
        raise ParameterError(f"noc: no plan of the {network.devices} devices of {network.name!r} serves {spec.name!r}")
    chosen = sizes[valid].astype(np.int64)
    labels = [
        " ".join(f"{name}={size}" for name, size in zip(PARALLEL, plan, strict=True) if size > 1) or "one device"
        for plan in chosen.tolist()
    ]
    return {
        name: xr.DataArray(column, dims="plan", coords={"plan": labels})
        for name, column in zip(PARALLEL, chosen.T, strict=True)
    }


def factorisations(number: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Write a number as a product in all ways, the order of the factors counting."""
    if parts == 1:
        yield (number,)
        return
    for factor in range(1, number + 1):
        if number % factor == 0:
            for rest in factorisations(number // factor, parts - 1):
                yield (factor, *rest)
