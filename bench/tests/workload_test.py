"""The recipe: digests of the content, first draws of the crop stream, how scenarios shrink."""

import hashlib
import itertools
import math

import pytest

from bench import content, workload

# Published with the recipe: seed 1234, 16 arrays of 512 cubed, crops of 128 cubed.
FIRST_WORDS = [0xBC5614C61020390E, 0x4DDA77751FFCD35F, 0x692EE90E3EF071FE]
FIRST_CROPS = [(14, (25, 332, 228)), (9, (8, 337, 329)), (0, (68, 32, 165))]


def test_e50_has_the_published_digest():
    key = ("e50", 42, (64, 1024, 1024))
    assert hashlib.sha256(content.make(*key)).hexdigest() == content.KNOWN_DIGESTS[key]


def test_climate_keeps_nine_bits_of_mantissa():
    values = content.climate(7000, (4, 19, 36))
    assert not (values.view("u4") & 0x3FFF).any()
    assert 200 < values.min() < values.max() < 330


def test_xorshift_draws_follow_from_the_seed():
    # By hand for state 1: 1 >> 12 is 0; 1 ^ 1 << 25 is 0x2000001; shifted by 27 nothing is left.
    assert next(workload.random_words(1)) == 0x2000001 * 2685821657736338717 % 2**64
    assert list(itertools.islice(workload.random_words(), 3)) == FIRST_WORDS


def test_crop_stream_starts_with_known_crops():
    assert list(itertools.islice(workload.crop_stream(16, (512,) * 3, (128,) * 3), 3)) == FIRST_CROPS


def test_throughput_touches_as_many_chunks_as_published():
    scenario = workload.scenario("throughput")
    counts = workload.count_chunks(scenario, scenario.batches)
    assert (round(counts["touches"] / 100), round(counts["distinct"] / 100)) == (5653, 4461)


def test_an_aligned_round_shares_nothing():
    scenario = workload.scenario("aligned", "small")
    crops = list(itertools.islice(scenario.crops(), 2 * 4**3))
    cells = [(array, *cell) for array, box in crops for cell in workload.cells_of(box, scenario.chunk)]
    assert len(set(cells)) == len(cells) == scenario.n_arrays * math.prod(scenario.shape) // math.prod(scenario.chunk)


@pytest.mark.parametrize("size", workload.SIZES)
@pytest.mark.parametrize("name", workload.SCENARIOS)
def test_every_size_divides_evenly_into_shards_and_chunks(name, size):
    scenario = workload.scenario(name, size)
    outer = scenario.shard or scenario.chunk
    assert all(n % s == 0 for n, s in zip(scenario.shape, outer))
    assert all(s % c == 0 for s, c in zip(outer, scenario.chunk))
    assert all(crop <= n for crop, n in zip(scenario.crop, scenario.shape))


def test_scenarios_with_the_same_arrays_share_their_files():
    throughput = [a.path for a in workload.scenario("throughput").arrays]
    assert [a.path for a in workload.scenario("default").arrays] == throughput[:8]
