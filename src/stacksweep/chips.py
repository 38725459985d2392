"""Parameters that only one kind of chip takes, and the columns of roofline chips."""

from collections.abc import Mapping

import numpy as np

from stacksweep.columns import Array, Column, aligned, combine, constant
from stacksweep.kernels import rows
from stacksweep.parameters import BY_NAME, PARAMETERS, ParameterError
from stacksweep.profiles import RooflineChip
from stacksweep.profiles.roofline import NUMBERS, OPERAND_BITS
from stacksweep.space import Space

PLENA_OVERLAP = "stage-roofline"
"""What `overlap` is by default on a PLENA chip; a roofline chip has its own."""


def complete(grid: Space) -> Space:
    """
    Refuse parameters that a chip of the call does not take, and add the defaults that depend on its kind.

    Parameters
    ----------
    grid : Space

    Returns
    -------
    Space

    Raises
    ------
    ParameterError
        If a parameter is given that a chip has no use for.
    """
    columns, coordinates = dict(grid.columns), dict(grid.coordinates)
    chip = columns["chip"]
    for profile in chip.choices:
        for name in columns:
            wanted = BY_NAME[name].chips
            if wanted and wanted != profile.kind:
                kind = "PLENA" if wanted == "plena" else wanted
                raise ParameterError(f"{name}: does not apply to chip {profile.name!r}, which is no {kind} chip")
    if "overlap" in columns:
        others = chip.lookup(np.array([profile.kind != "roofline" for profile in chip.choices]))
        if combine(np.logical_and, others, is_word(columns["overlap"], "op-roofline")).values.any():
            name = next(profile.name for profile in chip.choices if profile.kind != "roofline")
            raise ParameterError(
                f"overlap: got 'op-roofline', and chip {name!r} is no roofline chip, whose operations are told apart; "
                "needs stage-roofline or serial"
            )
    kinds = [profile.kind for profile in chip.choices]
    for known in PARAMETERS:
        if known.chips in kinds and known.default is not None and known.name not in columns:
            columns[known.name] = constant(known.default)
            coordinates[known.coordinate] = ((), np.asarray(known.default), _attributes(known.name))
    if "overlap" not in columns:
        own = [profile.overlap if isinstance(profile, RooflineChip) else PLENA_OVERLAP for profile in chip.choices]
        words = tuple(dict.fromkeys(own))
        places = np.array([words.index(word) for word in own])
        columns["overlap"] = (
            Column((), np.asarray(0), words) if len(words) == 1 else Column(chip.dims, places[chip.values], words)
        )
        labels = np.asarray(np.array(words, object)[columns["overlap"].values], object)
        coordinates["overlap"] = (columns["overlap"].dims, labels, _attributes("overlap"))
    return Space(grid.sizes, columns, coordinates, grid.fill)


def _attributes(name: str) -> dict[str, str]:
    return {"units": BY_NAME[name].units, "long_name": BY_NAME[name].words}


def is_word(column: Column, word: str) -> Column:
    """Whether a word was chosen."""
    if column.choices == (word,) or word not in column.choices:
        return constant(word in column.choices)
    return column.lookup(np.array([choice == word for choice in column.choices]))


OPERANDS = {"weight_peak": "weight_bytes", "cache_peak": "kv_read_bytes", "row_peak": "activation_bytes"}
"""
What meets activations in operations of each peak. A state does not count: it takes up the products of activations, in
single precision like any accumulator.
"""


def roofline_columns(columns: Mapping[str, Column], storage: Mapping[str, Column]) -> dict[str, Column]:
    """
    Columns of `rows.ROOFLINE_FIELDS`: the numbers of roofline chips, overridden by the parameters given.

    Parameters
    ----------
    columns : mapping
        Columns of the sweep's parameters.
    storage : mapping
        Columns of `rows.STORAGE_FIELDS`.

    Returns
    -------
    dict

    Raises
    ------
    ParameterError
        If a chip has no peak for operands as wide as they are stored.
    """
    chip = columns["chip"]
    profiles = chip.choices
    if not any(isinstance(profile, RooflineChip) for profile in profiles):
        return {name: constant(np.nan) for name in rows.ROOFLINE_FIELDS}
    made = {
        name: columns.get(name) or chip.lookup(np.array([getattr(profile, name, np.nan) for profile in profiles]))
        for name in NUMBERS
    }
    peaks = [_peak_column(columns, bits) for bits in OPERAND_BITS]
    for field, operand in OPERANDS.items():
        bits = combine(_operand_bits, storage[operand], storage["activation_bytes"])
        made[field] = combine(_first_peak, bits, *peaks)
        _check_peaks(made[field], bits, chip)
    return made


def _peak_column(columns: Mapping[str, Column], bits: int) -> Column:
    """FLOP/s for operands of a width, NaN where a chip has none."""
    peaks = [
        profile.peak_flops.get(bits, np.nan) if isinstance(profile, RooflineChip) else np.nan
        for profile in columns["chip"].choices
    ]
    return columns.get(f"peak_flops_{bits}") or columns["chip"].lookup(np.array(peaks))


def _operand_bits(one: Array, other: Array) -> Array:
    """
    Bits of the wider of two operands.

    A scale that many elements share takes less than a bit of each (8.25 in OCP's MXFP8), and is no part of the operand.
    """
    return np.floor(8.0 * np.maximum(one, other))


def _first_peak(bits: Array, *peaks: Array) -> Array:
    """Peak for operands of so many bits, or of the next larger width that there is a peak for."""
    fitting = [(bits <= width) & ~np.isnan(peak) for width, peak in zip(OPERAND_BITS, peaks, strict=True)]
    return np.select(fitting, peaks, np.nan)


def _check_peaks(peak: Column, bits: Column, chip: Column) -> None:
    roofline = chip.lookup(np.array([isinstance(profile, RooflineChip) for profile in chip.choices]))
    missing = combine(lambda value, asked: np.isnan(value) & asked, peak, roofline)
    if not missing.values.any():
        return
    where = np.unravel_index(np.argmax(missing.values), missing.values.shape)
    wide, which = (
        np.broadcast_to(aligned(column, missing.dims), missing.values.shape)[where] for column in (bits, chip)
    )
    profile = chip.choices[int(which)]
    widths = ", ".join(map(str, profile.peak_flops))
    raise ParameterError(
        f"chip: {profile.name!r} has peaks for operands of {widths} bits, and an element of {wide:g} bits is stored; "
        "give narrower weight_bytes, kv_read_bytes and activation_bytes, or the peak_flops_… of a wider operand"
    )
