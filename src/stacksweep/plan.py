"""Parallel plans: sizes, schemes of dense and expert layers, validity, pipeline stages."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
import xarray as xr

from stacksweep.columns import Array, Column, combine, constant, number
from stacksweep.kernels import rows
from stacksweep.kernels.validity import CODES, VALID
from stacksweep.kinds import kinds_of
from stacksweep.parameters import BY_NAME, PARALLEL, ParameterError
from stacksweep.pricing import unpriced
from stacksweep.profiles import Chip, ModelSpec, load_chip, load_model, load_noc
from stacksweep.profiles.layers import Attention
from stacksweep.routing import Routing, load_routing
from stacksweep.space import Space, build


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


@dataclass(frozen=True)
class Plans:
    """
    The different plans of a sweep: every combination of model, chip, network, policies and parallel sizes in it.

    Parameters
    ----------
    number : Column
        Which plan each point has.
    model, chip, noc, link_model, routing : int arrays, (plans,)
        Row numbers into the sweep's choices; noc is -1 without a network.
    keep : bool array, (plans,)
        Whether routed experts keep tensor parallelism.
    tp, ep, dp, pp, cp : float arrays, (plans,)
    devices : float array, (plans,)
    """

    number: Column
    model: Array
    chip: Array
    noc: Array
    link_model: Array
    routing: Array
    keep: Array
    tp: Array
    ep: Array
    dp: Array
    pp: Array
    cp: Array
    devices: Array


def different_plans(columns: Mapping[str, Column], devices: Column) -> Plans:
    """
    List the different plans of a sweep.

    Parameters
    ----------
    columns : mapping
        Columns of the sweep's parameters.
    devices : Column

    Returns
    -------
    Plans
    """
    mode = columns["moe_tp_mode"]
    keep = mode.lookup(np.array([word == "keep" for word in mode.choices]))
    noc = columns.get("noc", constant(-1))
    named = [columns["model"], columns["chip"], noc, columns["link_model"], columns["routing"], keep]
    numbers, values = number(*named, *(columns[name] for name in PARALLEL), devices)
    return Plans(numbers, *values)


def moe_scheme(plans: Plans, models: Sequence[ModelSpec]) -> tuple[Array, Array]:
    """Tensor- and expert-parallel sizes of routed experts; 1 where a model has none."""
    experts = np.array([spec.num_experts if any(spec.moe) else 0 for spec in models], np.float64)[plans.model]
    ranks = plans.tp * plans.ep
    replaced = np.where(ranks > experts, np.floor(ranks / np.maximum(experts, 1.0)), 1.0)
    tp = np.where(plans.keep, plans.tp, replaced)
    ep = np.where(plans.keep, plans.ep, np.minimum(ranks, experts))
    return np.where(experts == 0.0, 1.0, tp), np.where(experts == 0.0, 1.0, ep)


def reasons(
    plans: Plans, models: Sequence[ModelSpec], routings: Sequence[Routing], chips: Sequence[Chip] = ()
) -> Array:
    """
    Find the first reason why a plan cannot be, in the order of `validity.REASONS`, whatever the prompt.

    Parameters
    ----------
    plans : Plans
    models, routings, chips : sequence
        What their row numbers stand for; without chips it does not matter what they can price.

    Returns
    -------
    int array, (plans,)
        Codes, 0 for a plan that can be.
    """

    def of_model(values: Sequence[float]) -> Array:
        return np.array(values, np.float64)[plans.model]

    # what divides the heads of all layers divides their greatest common divisor
    heads = of_model([gcd(*spec.head_counts) for spec in models])
    most = max(1, *(len(spec.kv_head_counts) for spec in models))
    # one KV head goes with every tp
    kv_heads = [of_model([(*spec.kv_head_counts, *(1,) * most)[i] for spec in models]) for i in range(most)]
    experts = of_model([max(spec.num_experts, 1) for spec in models])
    routed = of_model([any(spec.moe) for spec in models]) > 0.0
    plain = of_model([_is_plain(spec) for spec in models]) > 0.0
    misfit = np.array(
        [[not one.fits(spec.num_experts, spec.experts_per_token) for one in routings] for spec in models]
    )[plans.model, plans.routing]
    _, moe_ep = moe_scheme(plans, models)
    # a "fill" that does not divide is 0 and has its own reason
    tp, ranks = np.maximum(plans.tp, 1.0), plans.tp * plans.ep
    world = ranks * plans.dp * plans.pp * plans.cp
    cases = {
        "fill": world == 0.0,
        "world_size": world != plans.devices,
        "tp_heads": heads % tp != 0.0,
        "tp_kv_heads": np.any([np.where(tp <= kv, kv % tp, tp % kv) != 0.0 for kv in kv_heads], axis=0),
        "pp_layers": plans.pp > of_model([spec.num_hidden_layers for spec in models]),
        "cp_model": (plans.cp > 1.0) & ~plain,
        "moe_ranks": routed & ~plans.keep & (ranks > experts) & (ranks % experts != 0.0),
        "ep_experts": routed & (experts % np.maximum(moe_ep, 1.0) != 0.0),
        "ep_dense": (plans.ep > 1.0) & ~routed,
        "routing_trace": routed & misfit,
    }
    if chips:
        missing = np.array([[bool(unpriced(spec, chip)) for chip in chips] for spec in models])
        cases["chip_layers"] = missing[plans.model, plans.chip]
    return np.select(list(cases.values()), [CODES[name] for name in cases], VALID)


def _is_plain(model: ModelSpec) -> bool:
    """Whether all layers are dense ones with the same full attention, which context parallelism can split."""
    mixers = {layer.mixer for layer in model.kinds}
    full = all(isinstance(mixer, Attention) and mixer.reach == "full" for mixer in mixers)
    return full and len(mixers) == 1 and not any(model.moe)


def plan_rows(plans: Plans, models: Sequence[ModelSpec], routings: Sequence[Routing], reason: Array) -> Array:
    """
    Rows of `rows.PLAN`, without what tables are needed for.

    Parameters
    ----------
    plans : Plans
    models, routings : sequence
        What their row numbers stand for.
    reason : int array, (plans,)

    Returns
    -------
    record array, (plans,)
    """
    table = np.zeros(len(reason), rows.PLAN)
    table["model"], table["chip"], table["reason"] = plans.model, plans.chip, reason
    table["tp"], table["pp"], table["cp"], table["dp"] = plans.tp, plans.pp, plans.cp, plans.dp * plans.ep
    table["moe_tp"], table["moe_ep"] = moe_scheme(plans, models)
    table["moe_dp"] = plans.dp
    for phase, field in enumerate(("recorded_prefill", "recorded_decode")):
        table[field] = np.array([routing.recorded(phase) for routing in routings])[plans.routing]
    table["routed"] = np.array([any(spec.moe) for spec in models])[plans.model]
    return table


def lay_stages(table: Array, models: Sequence[ModelSpec]) -> Array:
    """
    Lay out the pipeline of each plan and note in its row where it stands.

    Parameters
    ----------
    table : record array
        Rows of `rows.PLAN`; `stages_start` and `stages_stop` are filled.
    models : sequence of ModelSpec

    Returns
    -------
    array, (rows, items + 1)
        For each model and pipeline-parallel size items of the whole pipeline, then of the stages that can be the
        slowest or the fullest, each with its index. Items are the embedding, the LM head and, from `rows.FIRST_KIND`
        on, layers of each kind (`kinds.kinds_of`), as many kinds as a model has at the most.
    """
    parts: list[Array] = []
    kinds = max(len(spec.kinds) for spec in models)
    place: dict[tuple[int, int], tuple[int, int]] = {}
    for row in table:
        key = int(row["model"]), int(row["pp"])
        if key not in place:
            start = sum(map(len, parts))
            parts.append(pipeline(models[key[0]], key[1], kinds))
            place[key] = start, start + len(parts[-1])
        row["stages_start"], row["stages_stop"] = place[key]
    return np.concatenate(parts)


def all_stages(model: ModelSpec, pp: int, kinds: int = 0) -> Array:
    """
    Items of every stage of a pipeline: `ceil(layers / pp)` contiguous layers each, the last ones fewer or none.

    Parameters
    ----------
    model : ModelSpec
    pp : int
    kinds : int
        Kinds of layer that there is room for, if the model has fewer.

    Returns
    -------
    array, (pp, items + 1)
    """
    place = {layer: rows.FIRST_KIND + position for position, layer in enumerate(kinds_of(model))}
    stages = np.zeros((max(pp, 1), rows.FIRST_KIND + max(kinds, len(place)) + 1))
    per_stage = -(-model.num_hidden_layers // max(pp, 1))
    for position, layer in enumerate(model.layers):
        stages[position // per_stage, place[layer]] += 1
    stages[0, rows.EMBEDDING] = 1
    stages[-1, rows.HEAD] = 1
    stages[:, rows.STAGE_INDEX] = np.arange(len(stages))
    return stages


def pipeline(model: ModelSpec, pp: int, kinds: int) -> Array:
    """
    Items of a whole pipeline, and of its stages that none other surpasses.

    A stage is dropped if another has as many of every item and stands before it, or has more layers: in some passes
    the embedding or the LM head costs nothing, and then the first of equal stages counts.
    """
    stages = all_stages(model, min(pp, model.num_hidden_layers), kinds)
    items = stages[:, : rows.STAGE_INDEX]
    layers = items[:, rows.FIRST_KIND :].sum(axis=1)
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
    found = different_plans(columns, constant(float(network.devices)))
    valid = (reasons(found, [spec], columns["routing"].choices) == VALID)[found.number.values]
    valid &= columns["cp"].values <= columns["input_seq_len"].values
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
