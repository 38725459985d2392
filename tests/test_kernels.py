"""Single kernels against loops that say the same, and against values worked out by hand."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from reference.moe import closed_form_imbalance as plain_imbalance
from stacksweep.kernels import cycles, decode, experts, memory, rows

# --- rounding and sums -----------------------------------------------------------------------------------------------


@given(st.integers(0, 10**15), st.integers(1, 10**9))
@example(2**53 - 1, 3)
@example(10**15, 10**9)
def test_quotients_round_as_whole_numbers_do(a: int, b: int):
    assert cycles.up(float(a), float(b)) == -(-a // b)
    assert cycles.down(float(a), float(b)) == a // b


@given(st.integers(0, 10**12), st.integers(0, 10**5))
@example(0, 96)
@example(96, 96)
@example(97, 96)
def test_round_up(nbytes: int, wave: int):
    expected = -(-nbytes // wave) * wave if wave else nbytes
    assert decode.round_up(float(nbytes), float(wave)) == expected


def test_a_stream_of_zero_stays_zero():
    assert decode.round_up(0.0, 96.0) == 0.0


def test_a_fraction_of_a_byte_takes_a_whole_wave():
    assert decode.round_up(96.0000001, 96.0) == 192.0
    assert decode.round_up(1e-9, 96.0) == 96.0


@given(st.integers(1, 60), st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
@settings(max_examples=300)
@example(1, 1, 0, 0)
@example(60, 7, 6, 6)
def test_floor_sum(n: int, m: int, a: int, b: int):
    assert decode.floor_sum(n, m, a, b) == sum((a * j + b) // m for j in range(n))


@given(st.integers(1, 3 * 10**8), st.integers(2**20, 2**31), st.data())
def test_floor_sum_of_large_numbers(n: int, m: int, data: st.DataObject):
    # exact by symmetry: floor sums over a whole period of a coprime slope
    a = data.draw(st.integers(1, m - 1))
    assume(math.gcd(a, m) == 1)
    # sum over j = 0 … m-1 of floor(a j / m) = (a-1)(m-1)/2
    assert decode.floor_sum(m, m, a, 0) == (a - 1) * (m - 1) // 2
    # and halves add up
    first = decode.floor_sum(n, m, a, 0)
    rest = decode.floor_sum(5, m, a, (a * n) % m) + 5 * ((a * n) // m)
    assert decode.floor_sum(n + 5, m, a, 0) == first + rest


@given(st.integers(1, 3000), st.integers(0, 400), st.integers(1, 700))
@settings(max_examples=200)
def test_ceil_sum(first: int, more: int, period: int):
    expected = sum(-(-x // period) for x in range(first, first + more + 1))
    assert decode.ceil_sum(float(first), float(first + more), float(period)) == expected


def test_ceil_sum_of_a_long_decode():
    n, period = 10**9, 2048
    treads, rest = divmod(n, period)
    expected = period * treads * (treads + 1) // 2 + rest * (treads + 1)
    assert decode.ceil_sum(1.0, float(n), float(period)) == pytest.approx(expected, rel=1e-15)


def looped_read(elements: int, width: float, wave: int, first: int, last: int) -> float:
    reads = [elements * x * width for x in range(first, last + 1)]
    return math.fsum(math.ceil(read / wave) * wave if wave else read for read in reads)


WIDTHS = [2**-10, 0.3, 0.53125, 1.0, 1.125, 4.0, 1 / 3, 0.1, 0.7, 1024.0]


@given(
    st.integers(1, 5000),
    st.sampled_from(WIDTHS),
    st.one_of(st.just(0), st.integers(1, 5000)),
    st.integers(1, 2000),
    st.integers(0, 200),
)
@settings(max_examples=250)
@example(3, 0.1, 3, 10, 4)
@example(64, 0.3, 96, 1, 200)
def test_sum_of_kv_reads(elements: int, width: float, wave: int, first: int, more: int):
    got = decode.kv_read_sum(float(elements), width, float(wave), float(first), float(first + more))
    assert got == pytest.approx(looped_read(elements, width, wave, first, first + more), rel=1e-13)


@pytest.mark.parametrize("wave", [0, 1, 96, 2**30, 2**44, 2**50])
@pytest.mark.parametrize("elements", [2, 12345, 2**40, 2**49 + 2])
def test_sum_of_kv_reads_at_the_edge_of_64_bits(elements: int, wave: int):
    # whole numbers beyond 2^62 are not left to the floor sum
    for width in (1.0, 1.125, 1024.0):
        first, last = 10**6, 10**6 + 50
        exact = sum(
            -(-int(elements * x * width * 1024) // (wave * 1024)) * wave if wave else elements * x * width
            for x in range(first, last + 1)
        )
        got = decode.kv_read_sum(float(elements), width, float(wave), float(first), float(last))
        assert got == pytest.approx(float(exact), rel=1e-13), width


def test_sum_of_kv_reads_costs_no_steps():
    # a billion steps of an odd number of bytes in closed form
    n, wave = 10**9, 96
    got = decode.kv_read_sum(7.0, 1.0, float(wave), 1.0, float(n))
    # ceil(7x/96) over whole periods of 96 tokens, then the rest
    periods, rest = divmod(n, 96)
    period = sum(-(-7 * x // 96) for x in range(1, 97))
    waves = period * periods + 7 * 96 * periods * (periods - 1) // 2
    waves += sum(7 * periods - (-7 * x // 96) for x in range(1, rest + 1))
    assert got == pytest.approx(waves * wave, rel=1e-15)


# --- steps of a decode -----------------------------------------------------------------------------------------------


def looped_cycles(work: np.void, x: int) -> float:
    attended = min(x, work["kv_cap"])
    total = work["decode_base"] + work["per_mlen"] * math.ceil(attended / work["mlen"])
    total += work["per_blen"] * math.ceil(attended / work["blen"])
    total += work["per_vlen"] * math.ceil(attended / work["vlen"])
    return float(total + work["per_vlen_and_sink"] * math.ceil((attended + 1) / work["vlen"]))


def looped_bytes(work: np.void, wave: int, x: int) -> float:
    read = work["kv_elements"] * min(x, work["kv_cap"]) * work["kv_width"]
    return float(math.ceil(read / wave) * wave if wave else read)


@st.composite
def works(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """Layers whose decode steps are stairs of one to four periods."""
    work = np.zeros(1, rows.WORK)
    blen = draw(st.sampled_from([1, 2, 3, 8, 64]))
    sizes = st.integers(0, 500)
    work["blen"], work["mlen"] = blen, blen * draw(st.integers(1, 9))
    work["vlen"] = blen + draw(st.integers(0, 9))
    work["decode_base"] = draw(st.integers(0, 20000))
    work["per_mlen"] = draw(sizes)
    work["kv_cap"] = np.inf
    if draw(st.booleans()):
        work["per_blen"], work["per_vlen"], work["per_vlen_and_sink"] = draw(st.integers(1, 500)), draw(sizes), 3
        work["kv_cap"] = draw(st.integers(1, 300))
    work["kv_elements"] = draw(st.integers(1, 3000))
    work["kv_width"] = draw(st.sampled_from(WIDTHS))
    return work


RANGE = (st.integers(1, 300), st.integers(0, 250))


@given(works(), *RANGE)
@settings(max_examples=100)
def test_sums_of_cycles_and_reads(work: np.ndarray[Any, Any], first: int, more: int):
    steps = range(first, first + more + 1)
    for x in steps[:3]:
        assert decode.step_cycles(work[0], float(x)) == looped_cycles(work[0], x)
    total = decode.cycles_sum(work[0], float(first), float(first + more))
    assert total == pytest.approx(sum(looped_cycles(work[0], x) for x in steps), rel=1e-14)
    for wave in (0, 96):
        reads = decode.read_sum(work[0], float(wave), float(first), float(first + more))
        assert reads == pytest.approx(math.fsum(looped_bytes(work[0], wave, x) for x in steps), rel=1e-13)


@given(
    works(),
    *RANGE,
    st.one_of(st.just(0), st.integers(1, 2000)),
    st.floats(0, 1),
    st.floats(0, 1),
    st.booleans(),
)
@settings(max_examples=300)
def test_memory_bound_steps(
    work: np.ndarray[Any, Any], first: int, more: int, wave: int, at: float, share: float, parallel: bool
):
    """Counted against a loop, with the tie inside the range, and with bytes that grow about as fast as cycles."""
    row, last = work[0], first + more
    middle = first + int(at * more)
    step = looped_cycles(row, middle)
    assume(step > 0)
    table = np.zeros(1, rows.STEPS)
    steps = table[0]
    decode.enclose(row, steps)
    if parallel:
        # the slopes are the same but for a small part: memory runs along the stairs
        assume(steps["slope"] > 0)
        rate = row["kv_elements"] * row["kv_width"] / steps["slope"] * (1 + (share - 0.5) * 0.01)
        table["fixed"] = max(0.0, rate * step - looped_bytes(row, wave, middle))
    else:
        table["fixed"] = share * 10**5
        rate = (steps["fixed"] + looped_bytes(row, wave, middle)) / step
    rate *= 1.0000001234567
    table["cycles"] = decode.cycles_sum(row, float(first), float(last))
    table["kv_read"] = decode.read_sum(row, float(wave), float(first), float(last))

    bound = [
        x for x in range(first, last + 1) if steps["fixed"] + looped_bytes(row, wave, x) > looped_cycles(row, x) * rate
    ]
    for whole in (True, False):
        count, sum_cycles, sum_bytes = decode.memory_bound(
            row, steps, float(wave), float(first), float(last), rate, whole
        )
        assert count == len(bound)
        assert sum_cycles == pytest.approx(math.fsum(looped_cycles(row, x) for x in bound), rel=1e-13)
        assert sum_bytes == pytest.approx(math.fsum(looped_bytes(row, wave, x) for x in bound), rel=1e-13)


def test_steps_that_tie_exactly_are_not_memory_bound():
    work = np.zeros(1, rows.WORK)
    work["blen"] = work["vlen"] = work["mlen"] = 8.0
    work["per_mlen"], work["kv_elements"], work["kv_width"], work["kv_cap"] = 8.0, 1.0, 1.0, np.inf
    steps = np.zeros(1, rows.STEPS)
    decode.enclose(work[0], steps[0])
    # 8 * ceil(x/8) cycles against x bytes at one byte per cycle: equal at multiples of 8, else compute is longer
    assert decode.memory_bound(work[0], steps[0], 0.0, 1.0, 80.0, 1.0, False) == (0.0, 0.0, 0.0)
    # a hair slower, and only those ten steps are memory-bound
    count, cycles_, nbytes = decode.memory_bound(work[0], steps[0], 0.0, 1.0, 80.0, 1.0 - 1e-12, False)
    assert (count, cycles_, nbytes) == (10.0, sum(range(8, 81, 8)), sum(range(8, 81, 8)))


# --- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("connected", "layers", "expected"),
    [
        (1, 1, 0.6),  # one layer is a fully connected stack
        (1, 2, 1.0),
        (2, 2, 0.6),
        (5, 10, 1.0),
        (6, 10, 0.92),
        (9, 10, 0.68),
        (10, 10, 0.6),
        (2, 3, 1 + (2 - 1.5) / 1.5 * -0.4),
        (1, 3, 1.0),
    ],
)
def test_connectivity_efficiency(connected: int, layers: int, expected: float):
    got = memory.connectivity_efficiency(float(connected), float(layers), 0.6)
    assert got == pytest.approx(expected, rel=1e-15)


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0.01, 1))
def test_connecting_more_layers_costs_efficiency(n: int, c: int, full: float):
    assume(c < n)
    here, there = (memory.connectivity_efficiency(float(k), float(n), full) for k in (c, c + 1))
    assert full <= there <= here <= 1
    if full >= 2 / 3:
        # below, recharges can cost more than a further layer brings
        assert there * (c + 1) >= here * c * (1 - 1e-15)


def thermal_row(**numbers: float) -> np.ndarray[Any, Any]:
    row = np.zeros(1, rows.MACHINE_INPUT)
    values = {
        "layers": 10,
        "resistance_base_c_per_w": 0.42,
        "resistance_per_layer_c_per_w": 0.007,
        "baseline_layers": 3,
        "design_power_w": 73,
        "static_power_w": 8,
        "dynamic_power_exponent": 2.5,
    }
    for name, value in (values | numbers).items():
        row[name] = value
    return row


def test_clock_scale():
    # 73 W * (0.42 + 0.007 * 3) / (0.42 + 0.007 * 10) may be spent, of which 8 W are static
    power = 73 * 0.441 / 0.49
    assert memory.clock_scale(thermal_row()[0]) == pytest.approx(((power - 8) / 65) ** 0.4, rel=1e-14)
    assert memory.clock_scale(thermal_row(layers=3)[0]) == pytest.approx(1, rel=1e-15)
    assert memory.clock_scale(thermal_row(layers=1)[0]) > 1
    assert memory.clock_scale(thermal_row(resistance_per_layer_c_per_w=0, layers=4000)[0]) == 1


def test_clock_scale_without_power_to_spend():
    assert np.isnan(memory.clock_scale(thermal_row(static_power_w=72.9)[0]))
    # what may be spent is exactly the static power
    exact = thermal_row(
        layers=1,
        resistance_base_c_per_w=1,
        resistance_per_layer_c_per_w=1,
        baseline_layers=0,
        design_power_w=64,
        static_power_w=32,
    )
    assert np.isnan(memory.clock_scale(exact[0]))


@given(st.integers(1, 100), st.integers(1, 100))
def test_a_higher_stack_is_never_cooler(low: int, high: int):
    low, high = min(low, high), max(low, high)
    one, other = (memory.clock_scale(thermal_row(layers=n)[0]) for n in (low, high))
    assert np.isnan(other) or other <= one


# --- routed experts --------------------------------------------------------------------------------------------------


@given(
    st.integers(1, 256),
    st.integers(1, 16),
    st.sampled_from([1, 2, 3, 8, 64]),
    st.integers(0, 10**6),
    st.integers(1, 64),
)
@settings(max_examples=300)
@example(8, 8, 4, 5000, 2)  # every token takes every expert: no spread
@example(8, 2, 2, 5000, 1)  # one other rank: no quantile
@example(8, 2, 2, 0, 1)  # no token
@example(8, 2, 3, 5000, 1)  # ln 2 is below 1: a negative quantile
def test_closed_form_imbalance(n: int, top_k: int, ep: int, tokens: int, replicas: int):
    assume(top_k <= n)
    got = experts.closed_form_imbalance(float(n), float(top_k), float(ep), float(tokens), float(replicas))
    assert got == pytest.approx(plain_imbalance(tokens, top_k, n, ep, replicas), rel=1e-14)


def test_counted_loads_by_hand():
    # tokens 0, 1 make the first group of two ranks, token 2 the last, shorter one
    ids = np.array([[0, 1], [0, 2], [3, 2]])
    out = np.zeros((2, 3))
    experts.count_loads(ids, np.array([3, 3]), np.array([1, 1]), 2, 2, 4, 2, out)
    # first group: experts 0, 1 of rank 0 have 2 and 1 tokens (3 pairs), rank 1 has 1; last group: rank 1 has 2
    assert out[0].tolist() == [3.0, 2.0, 2.0]
    assert out[1].tolist() == [3.0, 2.0, 2.0]
    experts.count_loads(ids[2:], np.array([1]), np.array([1]), 1, 2, 4, 1, out[:1])
    assert out[0].tolist() == [2.0, 2.0, 2.0]


def test_first_of_equal_ranks_counts():
    # both ranks have two pairs: the first has them in one expert, the second in two
    ids = np.array([[0, 2], [0, 3]])
    out = np.zeros((1, 3))
    experts.count_loads(ids, np.array([2]), np.array([1]), 1, 2, 4, 1, out)
    assert out[0].tolist() == [2.0, 1.0, 2.0]


def test_keys_of_counted_loads_are_unique():
    numbers = [1, 2, 4095, 8191]
    keys = [
        experts.load_key(group, phase, micro_batch, query)
        for group in (0, 1, 77)
        for phase in (0, 1)
        for micro_batch in numbers
        for query in numbers
    ]
    assert len(set(keys)) == len(keys)
    split = [tuple(int(n) for n in experts.split_keys(np.array(key))) for key in keys]
    assert split[0] == (0, 0, 1, 1)
    assert [experts.load_key(*parts) for parts in split] == keys


# --- cycles ----------------------------------------------------------------------------------------------------------


def chip_row(**changes: float) -> np.ndarray[Any, Any]:
    row = np.ones(1, rows.CHIP)
    for name, value in ({"mlen": 8, "blen": 4, "vlen": 4, "sram": 100, "prefetch": 2} | changes).items():
        row[name] = value
    return row


@pytest.mark.parametrize(("elements", "expected"), [(99, 0), (100, 0), (101, 0), (108, 2), (116, 4), (115, 2)])
def test_spill(elements: int, expected: int):
    # beyond 100 elements, two cycles for every 8 that are whole
    assert cycles.spill(chip_row()[0], float(elements)) == expected


def test_norms_and_residuals_below_one_vector_are_free():
    chip = chip_row(vlen=128, s_basic=3, v_basic=2, v_add_vv=5)[0]
    assert cycles.rms(chip, 127.0, 1000.0) == 30
    assert cycles.residual(chip, 127.0, 1000.0) == 0
    assert cycles.rms(chip, 128.0, 10.0) == 30 + 8 * 10 * 2
    assert cycles.residual(chip, 256.0, 10.0) == 8 * 10 * 2
