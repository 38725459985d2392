"""From profiles to the rows that kernels read, and from columns to the rows of a block."""

from collections.abc import Mapping, Sequence

import numpy as np

from stacksweep.columns import Array, Column, combine
from stacksweep.kernels import rows
from stacksweep.parameters import ParameterError
from stacksweep.profiles import Chip, ChipProfile, MemoryProfile, ModelSpec
from stacksweep.profiles.layers import Attention

FORMS: Mapping[str, tuple[str, ...]] = {
    "composed peak": ("bytes_per_channel_transfer", "transfers_per_memory_clock", "memory_frequency_hz"),
    "direct peak": ("direct_peak_bandwidth_per_connected_layer_bytes_per_s",),
    "given efficiency": ("fully_connected_efficiency",),
    "bank timing": (
        "row_bytes",
        "sector_bytes",
        "sector_cycles",
        "recharge_cycles",
        "round_trip_latency_cycles",
        "latency_clock_hz",
    ),
    "buffering": ("requesters", "buffer_bytes_per_requester", "buffering_factor"),
    "buffering's round trip": ("buffer_round_trip_latency_cycles", "buffer_round_trip_latency_clock_hz"),
    "thermal": (
        "resistance_base_c_per_w",
        "resistance_per_layer_c_per_w",
        "baseline_layers",
        "design_power_w",
        "static_power_w",
        "dynamic_power_exponent",
    ),
    "energy": ("read_pj_per_bit", "write_pj_per_bit"),
}
"""Fields of a memory profile that stand together or not at all."""

FIXED_FIELDS = ("bandwidth_bytes_per_s", "capacity_bytes", "transaction_bytes")
"""Fields that a memory of fixed bandwidth has, or may be given."""

RIVALS = {
    "composed peak": "direct peak",
    "direct peak": "composed peak",
    "given efficiency": "bank timing",
    "bank timing": "given efficiency",
}
"""Forms of which a profile has exactly one."""


def model_rows(models: Sequence[ModelSpec], first_kinds: Array) -> Array:
    """Rows of `rows.MODEL`, (models,); `first_kinds` is where the kinds of each begin (`kinds.kind_rows`)."""
    table = np.zeros(len(models), rows.MODEL)
    for row, model in zip(table, models, strict=True):
        attention = next((layer.mixer for layer in model.kinds if isinstance(layer.mixer, Attention)), None)
        # without heads of one size there is nothing that could differ from the hidden size
        row["heads"], row["head_dim"] = (attention.heads, attention.key_size) if attention else (1, model.hidden_size)
        row["least_kv_heads"] = min(model.kv_head_counts, default=np.inf)
        row["hidden_size"] = model.hidden_size
        row["layers"] = model.num_hidden_layers
        row["vocab_size"] = model.vocab_size
        row["experts"], row["top_k"] = model.num_experts, model.experts_per_token
        row["expert_hidden"] = (model.experts and model.experts.latent_size) or model.hidden_size
        row["tied"] = model.tie_word_embeddings
        row["moe_composition"] = model.composition == "moe"
    table["first_kind"] = first_kinds
    return table


def chip_rows(chips: Sequence[Chip]) -> Array:
    """Rows of `rows.CHIP`, (chips,)."""
    table = np.zeros(len(chips), rows.CHIP)
    for row, chip in zip(table, chips, strict=True):
        if not isinstance(chip, ChipProfile):
            # no instructions: of the widths only the rows of a query tile count
            row["roofline"], row["mlen"] = True, rows.QUERY_TILE
            row["blen"] = row["vlen"] = row["hlen"] = row["prefetch"] = 1
            continue
        row["mlen"], row["blen"], row["vlen"], row["hlen"] = chip.mlen, chip.blen, chip.vlen, chip.hlen
        row["sram"] = chip.vector_sram_size * chip.vlen
        row["prefetch"] = chip.prefetch_amount
        for name in rows.INSTRUCTIONS:
            row[name] = chip.instructions[name.upper()]
    return table


def memory_columns(memories: Sequence[MemoryProfile], codes: Column, given: Mapping[str, Column]) -> dict[str, Column]:
    """
    Columns of all memory fields: the profiles' numbers, overridden by the parameters given.

    Parameters
    ----------
    memories : sequence of MemoryProfile
    codes : Column
        Row numbers into `memories`.
    given : mapping
        Columns of memory parameters by name.

    Returns
    -------
    dict
        A column for each of `rows.MEMORY_FIELDS`, and `stacked` and `wave_quantization`.

    Raises
    ------
    ParameterError
        If a parameter overrides a field that a profile does not use, or values break a rule between fields.
    """
    overrides = dict(given)
    if "layers" in overrides and "connected_layers" not in overrides:
        overrides["connected_layers"] = overrides["layers"]
    numbers = {name: np.full(len(memories), np.nan) for name in rows.MEMORY_FIELDS}
    for row, memory in enumerate(memories):
        dropped = _replaced_fields(memory, given)
        for name, value in memory.numbers.items():
            if name not in dropped:
                numbers[name][row] = value
    columns = {name: overrides.get(name) or codes.lookup(table) for name, table in numbers.items()}
    columns["stacked"] = codes.lookup(np.array([memory.kind == "stacked_dram" for memory in memories]))
    columns["wave_quantization"] = codes.lookup(np.array([memory.wave_quantization for memory in memories]))
    if "row_bytes" in given or "sector_bytes" in given:
        _check_rows(columns["row_bytes"], columns["sector_bytes"])
    return columns


def _replaced_fields(memory: MemoryProfile, given: Mapping[str, Column]) -> set[str]:
    """Check which fields of a profile may be overridden; returns those that a completed other form replaces."""
    replaced: set[str] = set()
    for one_form, other_form in RIVALS.items():
        one, other = (next((name for name in FORMS[which] if name in given), None) for which in (one_form, other_form))
        if one and other:
            raise ParameterError(
                f"{one}: given together with {other}; a memory has only one of {one_form} and {other_form}"
            )
    for name in given:
        if name in memory.numbers or (memory.kind == "fixed_bandwidth" and name in FIXED_FIELDS):
            continue
        form = next((form for form, fields in FORMS.items() if name in fields), None)
        if form is None or (memory.kind == "fixed_bandwidth" and form != "energy"):
            raise ParameterError(f"{name}: memory {memory.name!r} ({memory.kind}) has no such field to override")
        missing = [field for field in FORMS[form] if field not in given]
        rival = FORMS[RIVALS[form]] if form in RIVALS else ()
        if missing:
            raise ParameterError(
                f"{name}: memory {memory.name!r} does not have its {form}; give {', '.join(missing)} too to complete it"
            )
        if len(FORMS[form]) == 1:
            raise ParameterError(f"{name}: memory {memory.name!r} is described by {', '.join(rival)} instead")
        replaced.update(rival)
    present = (set(memory.numbers) | set(given)) - replaced
    buffered = "requesters" in present
    if buffered and not present & {"round_trip_latency_cycles", "buffer_round_trip_latency_cycles"}:
        raise ParameterError(
            f"requesters: memory {memory.name!r} has no round-trip latency; give buffer_round_trip_latency_cycles and "
            "buffer_round_trip_latency_clock_hz too"
        )
    if "buffer_round_trip_latency_cycles" in present and not buffered:
        raise ParameterError(f"buffer_round_trip_latency_cycles: memory {memory.name!r} has no buffering")
    return replaced


def _check_rows(row_bytes: Column, sector_bytes: Column) -> None:
    remainder = combine(np.mod, row_bytes, sector_bytes)
    if (remainder.values > 0).any():
        raise ParameterError("row_bytes: needs a multiple of sector_bytes at every point")


class RowBuffer:
    """
    Room for the rows of a block, filled anew from columns for each block.

    Parameters
    ----------
    dtype : record type
        Of the rows.
    columns : mapping
        A column for each field.
    size : int
        Rows of the largest block.
    """

    def __init__(self, dtype: np.dtype[np.void], columns: Mapping[str, Column], size: int) -> None:
        self._varying = {name: column for name, column in columns.items() if column.dims}
        template = np.zeros((), dtype)
        for name in columns.keys() - self._varying.keys():
            template[name] = columns[name].values
        self._rows = np.full(size, template)

    def fill(self, index: Mapping[str, Array], shape: tuple[int, int]) -> Array:
        """
        Take the rows of a block from the columns.

        Parameters
        ----------
        index : mapping
            For each dimension the positions of the rows along it; the arrays broadcast to `shape`.
        shape : tuple of int
            Of the block.

        Returns
        -------
        record array, `shape`
            A view, valid until the next block.
        """
        table = self._rows[: shape[0] * shape[1]].reshape(shape)
        for name, column in self._varying.items():
            where = tuple(index[dim] for dim in column.dims)
            if len(where) == 1 and where[0].size == where[0].flat[-1] - where[0].flat[0] + 1:
                # a stretch of the column: a view is cheaper than a selection
                stretch = column.values[where[0].flat[0] : where[0].flat[-1] + 1]
                table[name] = stretch.reshape(where[0].shape)
            else:
                table[name] = column.values[where]
        return table
