"""Exchanges between ranks of one process on a GPU, each rank on streams of its own. Needs torch."""

from __future__ import annotations

import threading

import pytest

from damacy import _native, halo

torch = pytest.importorskip("torch", reason="the arrays are torch's")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(120),
    pytest.mark.skipif(
        not _native.backend_info()["cuda"], reason="no usable GPU: " + _native.backend_info()["cuda_reason"]
    ),
]
CELLS = 1 << 22  # a message of 32 MiB: its copies take long enough to be overtaken
DELAY = 20_000_000  # cycles by which a stream is delayed, about 10 ms
ROUNDS = 6


def exchangers(like, depth=2):
    field = halo.Field.like(like, ("i", "k"), (1, 0), (2, CELLS))
    grid = halo.Cartesian((2,), True, dims=("i",))
    local = halo.Local(2)
    return [halo.Exchanger(halo.compile([field], grid, rank, 1), local, depth=depth) for rank in range(2)]


def new_array():
    return torch.zeros((4, CELLS), dtype=torch.float64, device="cuda")


def value(rank, n):
    return 100.0 * rank + n + 1


def expect_halos(seen):
    torch.cuda.synchronize()
    for (rank, n), (first, last) in sorted(seen.items()):
        for edge in (first, last):
            assert bool((edge == value(1 - rank, n)).all()), (rank, n, edge.min().item(), edge.max().item())
    assert len(seen) == 2 * ROUNDS


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("by_argument", [False, True])
def test_each_rank_may_use_its_own_stream(late, by_argument):
    """One thread, as in the documentation, starts all ranks, then finishes them. One rank's stream is delayed."""
    streams = [torch.cuda.Stream() for _ in range(2)]
    arrays = [new_array() for _ in range(2)]
    made, seen = exchangers(arrays[0]), {}
    torch.cuda.synchronize()
    for n in range(ROUNDS):
        tokens = []
        for rank in range(2):
            with torch.cuda.stream(streams[rank]):
                if rank == late:
                    torch.cuda._sleep(DELAY)
                arrays[rank].fill_(value(rank, n))
                if not by_argument:
                    tokens.append(made[rank].start([arrays[rank]]))
            if by_argument:
                tokens.append(made[rank].start([arrays[rank]], stream=streams[rank]))
        for rank in range(2):
            with torch.cuda.stream(streams[rank]):
                if by_argument:
                    with torch.cuda.stream(torch.cuda.default_stream()):
                        made[rank].finish(tokens[rank], stream=streams[rank])
                else:
                    made[rank].finish(tokens[rank])
                seen[rank, n] = arrays[rank][0].clone(), arrays[rank][3].clone()
    expect_halos(seen)


def test_each_rank_may_use_its_own_thread_and_stream():
    arrays = [new_array() for _ in range(2)]
    made, seen, failures = exchangers(arrays[0]), {}, []
    torch.cuda.synchronize()

    def work(rank):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for n in range(ROUNDS):
                    if rank == n % 2:
                        torch.cuda._sleep(DELAY)
                    arrays[rank].fill_(value(rank, n))
                    made[rank].exchange([arrays[rank]])
                    seen[rank, n] = arrays[rank][0].clone(), arrays[rank][3].clone()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    expect_halos(seen)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_rank_may_change_its_stream_within_an_exchange(depth):
    """Buffers are reused on other streams: receives must come after the unpacking of the previous exchange."""
    streams = [torch.cuda.Stream() for _ in range(4)]
    arrays = [[new_array() for _ in range(ROUNDS)] for _ in range(2)]
    made, seen = exchangers(arrays[0][0], depth), {}
    torch.cuda.synchronize()
    for n in range(ROUNDS):
        tokens = []
        for rank in range(2):
            with torch.cuda.stream(streams[(n + 2 * rank) % 4]):
                arrays[rank][n].fill_(value(rank, n))
                tokens.append(made[rank].start([arrays[rank][n]]))
        for rank in range(2):
            with torch.cuda.stream(streams[(n + 2 * rank + 1) % 4]):
                torch.cuda._sleep(DELAY * (n % 2))
                made[rank].finish(tokens[rank])
                seen[rank, n] = arrays[rank][n][0].clone(), arrays[rank][n][3].clone()
    expect_halos(seen)


def test_the_host_does_not_wait_for_messages():
    stream = torch.cuda.Stream()
    arrays = [new_array() for _ in range(2)]
    made = exchangers(arrays[0], depth=1)

    def exchange():
        tokens = [made[rank].start([arrays[rank]]) for rank in range(2)]
        for rank in range(2):
            made[rank].finish(tokens[rank])

    with torch.cuda.stream(stream):
        exchange()  # allocates memory and uploads plans, which may wait
        torch.cuda.synchronize()
        torch.cuda._sleep(2_000_000_000)
        late = stream.record_event()
        exchange()
        assert not late.query()
    torch.cuda.synchronize()
