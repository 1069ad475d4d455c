"""The program of the page "Train on many machines", on loopback: two machines of two ranks, each machine with a disk
cache of its own, and arrays in a bucket."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

zarr = pytest.importorskip("zarr")

from support.s3_server import S3Server  # noqa: E402

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
KEY, SECRET = "AKIDEXAMPLE", "secret"
LENGTH = 64
RANK = """
import json, sys
sys.path.insert(0, sys.argv[1])
import train_on_many_machines as program
loader = program.loader_of(sys.argv[3:], {length}, 4, disk_cache=sys.argv[2], endpoint={url!r})
with loader:
    epochs = program.train(loader, 2)
    print(json.dumps([epochs, loader.stats().disk_hits]))
"""


@pytest.mark.timeout(280)
def test_four_ranks_on_two_machines_read_every_sample_once_and_later_epochs_from_the_disk(tmp_path):
    bucket = tmp_path / "served" / "scans"
    bucket.mkdir(parents=True)
    random = np.random.default_rng(0)
    uris = []
    for number in range(2):
        data = random.integers(0, 60000, (32, 96, 96), dtype="u2")
        zarr.create_array(
            bucket / f"cell-{number}.zarr", data=data, chunks=(8, 24, 24)
        )  # larger ones would stay decoded
        uris.append(f"s3://scans/cell-{number}.zarr")
    with S3Server(tmp_path / "served", keys={KEY: SECRET}) as server:
        ranks = []
        for rank in range(4):
            launched = {"RANK": rank, "WORLD_SIZE": 4, "LOCAL_RANK": rank % 2, "LOCAL_WORLD_SIZE": 2}
            environment = os.environ | {name: str(value) for name, value in launched.items()}
            environment |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
            disk = tmp_path / f"machine-{rank // 2}"
            program = RANK.format(length=LENGTH, url=server.url)
            command = [sys.executable, "-c", program, str(EXAMPLES), str(disk), *uris]
            ranks.append(subprocess.Popen(command, env=environment, stdout=-1, stderr=-1, text=True))
        ended = [process.communicate(timeout=250) for process in ranks]
    assert [process.returncode for process in ranks] == [0] * 4, ended
    said = [json.loads(out.splitlines()[-1]) for out, _ in ended]
    for epoch in range(2):
        read = [epochs[epoch] for epochs, _ in said]
        assert [len(numbers) for numbers in read] == [LENGTH // 4] * 4  # equal steps
        assert sorted(sum(read, [])) == list(range(LENGTH))
    assert all(hits > 0 for _, hits in said)
    last_epoch = [line for out, _ in ended for line in out.splitlines() if "epoch 1" in line]
    assert [f"rank {rank} of 4, epoch 1: 4 steps, 16 samples" in line for rank, line in enumerate(last_epoch)] == [
        True
    ] * 4
