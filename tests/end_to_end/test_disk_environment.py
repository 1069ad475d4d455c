"""DAMACY_DISK_CACHE: `open`, reads of arrays and `RemoteFile` use a disk cache without a Config. `damacy cache` shows,
checks and clears it. Each program is a process of its own, because the variables are read once."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from damacy import _native

zarr = pytest.importorskip("zarr")

from support.fault_server import FaultServer  # noqa: E402

DATA = np.random.default_rng(0).integers(0, 60000, (32, 80, 80), dtype="u2")  # a chunk has more bytes than a head


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    zarr.create_array(folder / "plain.zarr", data=DATA, chunks=(16, 80, 80))
    zarr.create_array(folder / "sharded.zarr", data=DATA, chunks=(8, 40, 40), shards=(16, 80, 80))
    for name in ("object", "object?id=1"):
        (folder / name).write_bytes(DATA.tobytes())
    return folder


@pytest.fixture
def server(folder):
    with FaultServer(folder) as server:
        yield server


def run(program, *arguments, **variables):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        env=os.environ | {"DAMACY_DISK_CACHE_BYTES": "256MiB", **{key: str(value) for key, value in variables.items()}},
        capture_output=True,
        text=True,
        timeout=60,
    )


READ = """
    import hashlib, sys
    import numpy as np
    import damacy
    root, name = sys.argv[1:]
    damacy.mount(root, damacy.StoreOptions(immutable=True))
    if name.startswith("object"):
        with damacy.RemoteFile.open_url(f"{root}/{name}") as file:
            out = np.zeros(file.nbytes(), "u1")
            assert file.read(out) == out.size
    else:
        out = damacy.open(f"{root}/{name}")[...]
    print(hashlib.sha256(out.tobytes()).hexdigest())
    """


def sha(array):
    import hashlib

    return hashlib.sha256(array.tobytes()).hexdigest()


def cache(directory, *options):
    program = "import sys; from damacy._cli.commands import app; app(['cache', *sys.argv[1:]])"
    return run(program, str(directory), *options)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["plain.zarr", "sharded.zarr", "object"])
def test_a_second_process_asks_for_no_data(server, tmp_path, name):
    for attempt in range(2):
        before = len(server.requests)
        done = run(READ, server.url, name, DAMACY_DISK_CACHE=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == sha(DATA)
        asked = server.requests[before:]
        if attempt == 0:
            assert asked
    assert not asked, [request.target for request in asked]
    found = json.loads(cache(tmp_path, "--json").stdout)
    assert found["entries"] > 0 and found["entry_bytes"] > DATA.nbytes / 2 and found["segments"] == 1


@pytest.mark.timeout(120)
def test_a_url_with_a_query_is_not_kept(server, tmp_path):
    for _ in range(2):
        before = len(server.requests)
        done = run(READ, server.url, "object?id=1", DAMACY_DISK_CACHE=tmp_path)
        assert done.stdout.strip() == sha(DATA), done.stderr
        assert len(server.requests) > before + 1
    assert not (tmp_path / "damacy-1").exists()


@pytest.mark.timeout(120)
def test_without_the_variable_nothing_is_kept(server, tmp_path):
    done = run(READ, server.url, "plain.zarr", DAMACY_DISK_CACHE="")
    assert "needs a directory in DAMACY_DISK_CACHE" in done.stderr
    done = run(READ, server.url, "plain.zarr", DAMACY_DISK_CACHE="", DAMACY_DISK_CACHE_BYTES="")
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"DAMACY_DISK_CACHE_BYTES": ""}, "needs DAMACY_DISK_CACHE_BYTES"),
        ({"DAMACY_DISK_CACHE_BYTES": "forty"}, "DAMACY_DISK_CACHE_BYTES must be a number of bytes"),
        ({"DAMACY_DISK_CACHE_BYTES": "1MiB"}, "DAMACY_DISK_CACHE_BYTES must be at least 268435456"),
        ({"DAMACY_DISK_CACHE": "/proc/none"}, "the directory is from DAMACY_DISK_CACHE"),
    ],
)
@pytest.mark.parametrize("name", ["plain.zarr", "object"])
def test_bad_values_are_errors_that_name_the_variable(server, tmp_path, name, variables, said):
    done = run(READ, server.url, name, **{"DAMACY_DISK_CACHE": tmp_path / "cache", **variables})
    assert done.returncode == 1
    assert said in done.stderr and "damacy." in done.stderr
    assert not server.requests


@pytest.mark.timeout(120)
def test_local_arrays_do_not_look_at_the_variables(folder, tmp_path):
    program = "import sys, damacy; print(damacy.open(sys.argv[1])[0, 0, 0])"
    done = run(program, str(folder / "plain.zarr"), DAMACY_DISK_CACHE=tmp_path / "cache", DAMACY_DISK_CACHE_BYTES="x")
    assert done.stdout.strip() == str(DATA[0, 0, 0]), done.stderr
    assert not (tmp_path / "cache").exists()


@pytest.mark.timeout(120)
def test_the_command_shows_checks_and_clears(server, tmp_path):
    assert run(READ, server.url, "plain.zarr", DAMACY_DISK_CACHE=tmp_path).returncode == 0
    shown = cache(tmp_path)
    assert "entries" in shown.stdout and "damacy-1" in "".join(shown.stdout.split())
    checked = json.loads(cache(tmp_path, "--verify", "--json").stdout)
    assert checked["checked"] == checked["entries"] > 0 and checked["damaged"] == 0
    segment = next((tmp_path / "damacy-1").glob("segment-*"))
    with segment.open("r+b") as file:  # inside the first entry
        file.seek(4096 + 64 + 5)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    damaged = cache(tmp_path, "--verify", "--json")
    assert damaged.returncode == 1 and json.loads(damaged.stdout)["damaged"] == 1
    (tmp_path / "damacy-1" / "of the user").write_text("stays")
    (tmp_path / "mine").write_text("stays")
    cleared = json.loads(cache(tmp_path, "--clear", "--json").stdout)
    assert cleared["segments"] == 1 and cleared["bytes"] > 0
    left = sorted(path.name for path in (tmp_path / "damacy-1").iterdir())
    assert left == ["lock", "of the user"] and (tmp_path / "mine").exists()
    assert json.loads(cache(tmp_path, "--json").stdout)["entries"] == 0
    done = run(READ, server.url, "plain.zarr", DAMACY_DISK_CACHE=tmp_path)
    assert done.stdout.strip() == sha(DATA)


@pytest.mark.timeout(120)
def test_looking_and_clearing_report_progress(server, tmp_path):
    assert run(READ, server.url, "plain.zarr", DAMACY_DISK_CACHE=tmp_path).returncode == 0
    calls = []

    def progress(visited, segments):
        calls.append((visited, segments))

    def interrupt(visited, segments):
        raise KeyboardInterrupt

    found = _native.look_at_disk_cache(str(tmp_path), "", True, progress)
    assert found["checked"] > 0 and calls[-1] == (1, 1)
    with pytest.raises(KeyboardInterrupt):
        _native.look_at_disk_cache(str(tmp_path), "", True, interrupt)
    calls.clear()
    assert _native.clear_disk_cache(str(tmp_path), "", progress)[0] == 1
    assert calls[-1] == (1, 1)


@pytest.mark.timeout(120)
def test_the_command_lists_and_clears_by_uri(server, tmp_path):
    for name in ("plain.zarr", "sharded.zarr", "object"):
        assert run(READ, server.url, name, DAMACY_DISK_CACHE=tmp_path).returncode == 0
    found = json.loads(cache(tmp_path, "--json").stdout)
    stores = {store["uri"]: store for store in found["stores"]}
    assert set(stores) == {f"{server.url}/plain.zarr", f"{server.url}/sharded.zarr", server.url}
    assert sum(store["entries"] for store in stores.values()) == found["entries"] and found["unnamed"] == 0
    assert f"{server.url}/sharded.zarr" in "".join(cache(tmp_path).stdout.split())

    plain = f"{server.url}/plain.zarr"
    below = json.loads(cache(tmp_path, plain, "--verify", "--json").stdout)
    assert below["entries"] == below["checked"] == stores[plain]["entries"]
    assert json.loads(cache(tmp_path, f"{server.url}/plain", "--json").stdout)["entries"] == 0
    cleared = json.loads(cache(tmp_path, "--clear", plain, "--json").stdout)
    assert cleared["entries"] == stores[plain]["entries"] and cleared["bytes"] > DATA.nbytes / 4
    left = json.loads(cache(tmp_path, "--verify", "--json").stdout)
    assert left["entries"] == found["entries"] - cleared["entries"] and left["damaged"] == 0
    for name, is_asked in (("plain.zarr", True), ("sharded.zarr", False)):
        before = len(server.requests)
        assert run(READ, server.url, name, DAMACY_DISK_CACHE=tmp_path).stdout.strip() == sha(DATA)
        assert (len(server.requests) > before) == is_asked
    assert cache(tmp_path, "plain.zarr").returncode == 2


@pytest.mark.timeout(120)
def test_no_secret_of_a_mount_is_kept(server, tmp_path):
    program = """
        import sys, damacy
        root = sys.argv[1] + "/plain.zarr"
        options = damacy.StoreOptions(headers=(("X-Token", "hunter2"),), bearer_token="hunter2", immutable=True)
        assert damacy.open(root, store=options)[0, 0, 0] >= 0
        """
    done = run(program, server.url, DAMACY_DISK_CACHE=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(cache(tmp_path, "--json").stdout)["stores"]
    for path in (tmp_path / "damacy-1").iterdir():
        assert b"hunter2" not in path.read_bytes()


@pytest.mark.timeout(120)
def test_the_command_refuses_what_is_no_cache(tmp_path):
    done = cache(tmp_path / "nothing", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["reason"] == "disk-cache"
    assert cache(tmp_path, "--clear").returncode == 1 and not list(tmp_path.iterdir())
    assert cache(tmp_path, "--clear", "--verify").returncode == 2
