"""
The memory of one chip: bandwidth, capacity and clock of a stacked DRAM or of a memory of fixed bandwidth.

The formulas are those of the stacked-DRAM model published with PLENA (AICrossSim/PLENA_Simulator, pull request 121).
Functions take a row `m` of `rows.MACHINE_INPUT`, in which NaN stands for a number that the profile does not have.
"""

import numpy as np

from stacksweep.kernels._compile import kernel
from stacksweep.kernels.validity import CONNECTED_LAYERS, THERMAL, VALID


@kernel
def peak_bandwidth(m):
    """Bytes per second of all connected layers together."""
    per_layer = m.direct_peak_bandwidth_per_connected_layer_bytes_per_s
    if np.isnan(per_layer):
        per_layer = (
            m.channels_per_connected_layer
            * m.bytes_per_channel_transfer
            * m.transfers_per_memory_clock
            * m.memory_frequency_hz
        )
    return m.connected_layers * per_layer


@kernel
def fully_connected_efficiency(m):
    """Share of the peak that remains when every layer is connected and row recharges cannot hide."""
    if not np.isnan(m.fully_connected_efficiency):
        return m.fully_connected_efficiency
    row_read = m.row_bytes / m.sector_bytes * m.sector_cycles
    return row_read / (row_read + m.recharge_cycles)


@kernel
def connectivity_efficiency(connected, layers, fully_connected):
    """Share of the peak that remains with `connected` of `layers` layers; recharges hide behind unconnected ones."""
    half = layers / 2.0
    if connected <= half:
        return 1.0
    if connected >= layers:
        return fully_connected
    return 1.0 + (connected - half) / (layers - half) * (fully_connected - 1.0)


@kernel
def round_trip_latency(m):
    """Seconds from a request to its data."""
    if not np.isnan(m.buffer_round_trip_latency_cycles):
        return m.buffer_round_trip_latency_cycles / m.buffer_round_trip_latency_clock_hz
    return m.round_trip_latency_cycles / m.latency_clock_hz


@kernel
def buffered_share(m, effective):
    """Share of the effective bandwidth that the requesters' buffers sustain, by Little's law; 1 when they suffice."""
    needed = effective / m.requesters * round_trip_latency(m) * m.buffering_factor
    if m.buffer_bytes_per_requester < needed:
        return m.buffer_bytes_per_requester / needed
    return 1.0


@kernel
def clock_scale(m):
    """Factor on the compute clock that keeps the stack at the baseline's temperature; NaN when no clock does."""
    cooling = m.resistance_base_c_per_w + m.resistance_per_layer_c_per_w * m.layers
    baseline = m.resistance_base_c_per_w + m.resistance_per_layer_c_per_w * m.baseline_layers
    power = m.design_power_w * baseline / cooling
    if power <= m.static_power_w or m.design_power_w <= m.static_power_w:
        return np.nan
    return ((power - m.static_power_w) / (m.design_power_w - m.static_power_w)) ** (1.0 / m.dynamic_power_exponent)


@kernel
def machine_row(m, out):
    """Derive the row of `rows.MACHINE` that belongs to the row `m` of `rows.MACHINE_INPUT`."""
    out.reason = VALID
    out.serial = m.serial
    out.by_operation = m.by_operation
    out.comm_hidden = m.comm_hidden
    out.buffering_limited = False
    out.clock_scale = 1.0
    out.connectivity_efficiency = 1.0
    out.wave = 0.0
    out.read_pj_per_bit = m.read_pj_per_bit
    out.write_pj_per_bit = m.write_pj_per_bit
    if m.stacked:
        if m.connected_layers > m.layers:
            out.reason = CONNECTED_LAYERS
        out.peak_bandwidth = peak_bandwidth(m)
        out.connectivity_efficiency = connectivity_efficiency(
            m.connected_layers, m.layers, fully_connected_efficiency(m)
        )
        out.usable_bandwidth = out.peak_bandwidth * out.connectivity_efficiency
        if not np.isnan(m.requesters):
            share = buffered_share(m, out.usable_bandwidth)
            out.buffering_limited = share < 1.0
            out.usable_bandwidth *= share
        if not np.isnan(m.design_power_w):
            out.clock_scale = clock_scale(m)
            if np.isnan(out.clock_scale) and out.reason == VALID:
                out.reason = THERMAL
        out.capacity = m.layers * m.capacity_per_layer_bytes
        if m.wave_quantization:
            out.wave = m.transaction_bytes * m.channels_per_connected_layer
    else:
        out.peak_bandwidth = m.bandwidth_bytes_per_s
        out.usable_bandwidth = m.bandwidth_bytes_per_s
        out.capacity = m.capacity_bytes
        if not np.isnan(m.transaction_bytes):
            out.wave = m.transaction_bytes
    out.seconds_per_cycle = 1.0 / (m.frequency_hz * out.clock_scale)
    out.seconds_per_byte = 1.0 / out.usable_bandwidth
