"""`damacy.open_many`: what `open` returns, in order, with errors in their places; remote documents together."""

import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

from support.fault_server import FaultServer, silent, status  # noqa: E402


@pytest.fixture
def folder(tmp_path):
    for i in range(12):
        zarr.create_array(tmp_path / f"{i}.zarr", data=np.full((4, 4), i, "u2"), chunks=(4, 4))
    return tmp_path


def test_paths_uris_and_errors_stay_in_order(folder):
    with FaultServer(folder) as server:
        uris = [str(folder / "3.zarr"), f"{server.url}/5.zarr", f"{server.url}/none.zarr", str(folder / "none"), ""]
        found = damacy.open_many(uris)
        assert [array[0, 0] for array in found[:2]] == [3, 5]
    assert [type(each) for each in found[2:]] == [damacy.NotFound, damacy.NotFound, damacy.InvalidArgument]
    assert damacy.open_many([]) == [] and damacy.open_many(iter([])) == []


@pytest.mark.timeout(60)
def test_documents_of_remote_arrays_are_asked_for_together(folder):
    together = threading.Barrier(12)

    def meet(request, answer):
        together.wait(20)

    with FaultServer(folder) as server:
        server.reset(meet)
        found = damacy.open_many(f"{server.url}/{i}.zarr" for i in range(12))
        assert len(server.requests) == 12
        server.reset(lambda request, answer: status("403 No")(request, answer) if "/7." in request.path else None)
        again = damacy.open_many([f"{server.url}/{i}.zarr" for i in range(12)])
    assert [array.shape for array in found] == [(4, 4)] * 12
    assert [i for i, each in enumerate(again) if isinstance(each, damacy.StorageError)] == [7]


@pytest.mark.timeout(60)
def test_an_interrupt_ends_it(folder):
    """The exception comes although no answer does, and nothing more is asked for."""
    with FaultServer(folder) as server:
        server.reset(silent)
        program = textwrap.dedent(
            f"""
            import _thread, signal, threading, damacy
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
            try:
                threading.Timer(0.5, _thread.interrupt_main).start()
                damacy.open_many(f"{server.url}/{{i}}.zarr" for i in range(400))
            except KeyboardInterrupt:
                print("interrupted")
            """
        )
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert ran.stdout == "interrupted\n", ran.stdout + ran.stderr
        assert len(server.requests) < 100


def test_version_2_and_groups_are_asked_for_together(folder):
    """Of the many only the first ones wait for each document in turn."""
    for i in range(40):
        zarr.create_group(folder / f"old-{i}", zarr_format=2).attrs["number"] = i
    together = threading.Barrier(16)

    def meet(request, answer):
        number = int(request.path.split("-")[1].split("/")[0])
        if request.path.endswith(".zattrs") and 16 <= number < 32:
            together.wait(20)

    with FaultServer(folder) as server:
        server.reset(meet)
        found = damacy.open_many(f"{server.url}/old-{i}" for i in range(40))
        assert [group.attrs["number"] for group in found] == list(range(40))
        assert len(server.requests) == 4 * 40


def test_the_store_is_that_of_open(folder):
    store = zarr.storage.MemoryStore()
    zarr.create_array(store, name="a", data=np.arange(4), chunks=(4,))
    assert [array.shape for array in damacy.open_many(["a", "a"], store=store)] == [(4,), (4,)]
