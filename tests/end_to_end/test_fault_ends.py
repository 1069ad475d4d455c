"""Servers that hang, drop connections or refuse many requests at once, names and addresses: what ends, and when."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

from support.fault_server import FaultServer, silent, status  # noqa: E402

SHAPE = (64, 64, 64)
DATA = np.random.default_rng(0).integers(0, 60000, SHAPE, dtype="u2")
MEMORY = {"host_buffer_bytes": 64 << 20, "device_buffer_bytes": 64 << 20}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    zarr.create_array(folder / "plain.zarr", data=DATA, chunks=(8, 8, 16))  # 256 chunks
    return folder


@pytest.fixture
def server(folder):
    with FaultServer(folder) as server:
        yield server


def of_chunks(fault):
    return lambda request, answer: fault(request, answer) if "/c/" in request.path else None


def pipeline_of(uri):
    pipeline = damacy.Pipeline(damacy.Config(batch_size=1, device="cpu", dtype="u16", **MEMORY))
    pipeline.push([damacy.Sample(uri, [(0, extent) for extent in SHAPE])])
    return pipeline


def check(uri):
    with pipeline_of(uri) as pipeline, pipeline.pop() as batch:
        np.testing.assert_array_equal(batch.numpy()[0], DATA)
    return pipeline.stats()


def wait_for(condition, what):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("where", ["this thread", "another thread"])
def test_close_does_not_wait_for_requests_that_hang(server, where):
    server.reset(of_chunks(silent))
    uri = f"{server.url}/plain.zarr"
    pipeline = pipeline_of(uri)
    wait_for(lambda: len(server.requests) >= 30, "requests are under way")
    errors = []

    def pop():
        try:
            pipeline.pop()
        except damacy.ShutdownError as error:
            errors.append(error)

    popping = threading.Thread(target=pop)
    if where == "another thread":
        popping.start()
    pipeline.close()
    if where == "another thread":
        popping.join()
        assert len(errors) == 1
    # A pipeline waits 2 s for storage that cannot be cancelled, and leaves it behind then.
    assert pipeline.stats().requests_in_flight == 0
    server.reset()
    check(uri)


@pytest.mark.timeout(60)
def test_a_server_that_does_not_take_connections_is_given_up_in_time(folder):
    """Its queue of connections is full, so that the system drops what would open more."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    held = []
    for _ in range(3):
        connection = socket.socket()
        connection.setblocking(False)
        connection.connect_ex(listener.getsockname())
        held.append(connection)
    uri = f"http://127.0.0.1:{listener.getsockname()[1]}/plain.zarr"
    begin = time.monotonic()
    with pytest.raises(damacy.StorageError) as caught:
        damacy.open(uri, store=damacy.StoreOptions(connect_timeout_s=0.3, attempts=2, deadline_s=5))
    assert caught.value.reason in ("deadline", "connect") and time.monotonic() - begin < 20
    for each in (*held, listener):
        each.close()


@pytest.mark.timeout(120)
def test_a_server_that_refuses_for_a_while_gets_few_repeats_and_then_all_requests(server):
    """While it refuses, 100 repeats at most are sent to it, and what comes after is right."""
    refused = []
    allowed = threading.Event()

    def refuse(request, answer):
        if "/c/" in request.path and not allowed.is_set():
            refused.append(request.path)
            status("503 Slow Down", Retry_After="0")(request, answer)

    uri = f"{server.url}/plain.zarr"
    server.reset(refuse)
    with pipeline_of(uri) as pipeline:
        with pytest.raises(damacy.StorageError) as caught:
            pipeline.pop()
        stats = pipeline.stats()
    assert caught.value.reason == "throttled"
    assert len(refused) - len(set(refused)) <= 100  # the budget of an origin
    assert stats.requests_repeated <= 100 and stats.requests_throttled > 0
    allowed.set()
    after = check(uri)
    assert after.requests_throttled == 0 and after.requests_in_flight == 0


@pytest.mark.timeout(120)
def test_a_burst_of_refusals_is_repeated_and_then_over(server):
    """The first 40 requests for chunks are refused, all others answered."""
    lock, refused = threading.Lock(), []

    def refuse_first(request, answer):
        with lock:
            is_refused = len(refused) < 40
            if is_refused:
                refused.append(request.path)
        if is_refused:
            status("503 Slow Down", Retry_After="0")(request, answer)

    server.reset(of_chunks(refuse_first))
    with pipeline_of(f"{server.url}/plain.zarr") as pipeline:
        with pipeline.pop() as batch:
            np.testing.assert_array_equal(batch.numpy()[0], DATA)
        stats = pipeline.stats()
    assert stats.requests_throttled == stats.requests_repeated == 40
    assert stats.requests == len(server.requests) and stats.requests_in_flight == 0
    after = check(f"{server.url}/plain.zarr")
    assert (after.requests_throttled, after.requests_repeated) == (0, 0)


INTERRUPTED = {
    "pop": """
pipeline = damacy.Pipeline(damacy.Config(batch_size=1, device="cpu", dtype="u16", host_buffer_bytes=64 << 20))
pipeline.push([damacy.Sample(uri, [(0, 64)] * 3)])
wait = pipeline.pop
""",
    "open": """
wait = lambda: damacy.open(uri.replace("plain", "hung"))
""",
    "open_many": """
wait = lambda: damacy.open_many([uri, *(uri.replace("plain", f"hung{k}") for k in range(200))])
""",
    "read": """
array = damacy.open_array(uri)
wait = lambda: array[:]
""",
    "file": """
file = damacy.remote_file.RemoteFile.open_url(uri + "/c/0/0/0", nbytes=100)
wait = lambda: file.read(bytearray(100))
""",
}
# The first interrupt is sent by the test, when the server has been asked; later ones by the program itself.
CHILD = """
import os, signal, sys, threading, time, damacy, damacy.remote_file
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it by default
uri, attempts, soon = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
hour = dict.fromkeys(("connect_timeout_s", "first_byte_timeout_s", "stall_timeout_s", "deadline_s"), 3600)
damacy.mount(uri.rsplit("/", 1)[0] + "/", damacy.StoreOptions(**hour))
{begin}
sent = []
def interrupt():
    time.sleep(0.1)  # the call waits by now
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
late = []
while len(late) <= attempts and min(late[1:], default=soon) >= soon:
    try:
        if late:
            threading.Thread(target=interrupt).start()
        else:
            print("waits", flush=True)
        wait()
        sys.exit("the call ended")
    except KeyboardInterrupt:
        late.append(time.monotonic() - sent[-1] if late else 0)
print(min(late[1:]), flush=True)
"""
SOON_S = 0.05  # signals are looked for so often; the best of many attempts, because the machine may be busy


@pytest.mark.timeout(120)
@pytest.mark.parametrize("call", INTERRUPTED)
def test_ctrl_c_ends_a_call_that_waits_for_a_server(server, call):
    """The answers never come, no timeout is near, and the program ends at once, with its threads."""
    asked = threading.Event()

    def hang(request, answer):
        if "/c/" in request.path or "hung" in request.path:
            asked.set()
            answer.silent = True

    server.reset(hang)
    program = CHILD.format(begin=INTERRUPTED[call])
    run = [sys.executable, "-c", program, f"{server.url}/plain.zarr", "40", str(SOON_S)]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline() == "waits\n"
            assert asked.wait(30)
            time.sleep(0.2)  # the call waits by now, or is about to
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=40)  # less than the 60 s of one operation
        finally:
            child.kill()
    assert child.returncode == 0, err
    assert float(out) < SOON_S


@pytest.mark.timeout(120)
def test_a_read_that_was_interrupted_holds_no_reader(server):
    """All readers wait for a server without answers. After the interrupt they read from it again."""
    asked = threading.Event()
    is_silent = True

    def hang(request, answer):
        if "/c/" in request.path and is_silent:
            asked.set()
            answer.silent = True

    server.reset(hang)
    begin = INTERRUPTED["read"] + "attempts = 0"
    program = CHILD.format(begin=begin).replace("print(min(late[1:]), flush=True)", AGAIN)
    run = [sys.executable, "-c", program, f"{server.url}/plain.zarr", "0", str(SOON_S)]
    with subprocess.Popen(
        run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout.readline() == "waits\n"
            assert asked.wait(30)
            time.sleep(0.2)
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "interrupted\n"
            is_silent = False
            out, err = child.communicate("\n", timeout=40)  # less than the 60 s after which readers are replaced
        finally:
            child.kill()
    assert (out, child.returncode) == (f"{DATA.sum()}\n", 0), err


AGAIN = """
print("interrupted", flush=True)
sys.stdin.readline()
print(array[:].sum())
"""


SLOW_NAMES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

int getaddrinfo(const char* name, const char* service, const struct addrinfo* hints, struct addrinfo** found) {
  static int (*usual)(const char*, const char*, const struct addrinfo*, struct addrinfo**);
  static atomic_int failed;
  if (!usual) usual = dlsym(RTLD_NEXT, "getaddrinfo");
  if (name && strcmp(name, "failing.example") == 0) {
    if (atomic_fetch_add(&failed, 1) < 2) return EAI_AGAIN;
    name = "127.0.0.1";
  }
  if (name && strstr(name, ".two.example")) {
    int error = usual("127.0.0.2", service, hints, found);
    if (error) return error;
    struct addrinfo* last = *found;
    while (last->ai_next) last = last->ai_next;
    return usual("127.0.0.1", service, hints, &last->ai_next);
  }
  if (name && strcmp(name, "slow.example") == 0) sleep(3600);
  if (name && strcmp(name, "late.example") == 0) {
    usleep(500000);
    name = "127.0.0.1";
  }
  return usual(name, service, hints, found);
}
"""


@pytest.fixture(scope="module")
def slow_names(tmp_path_factory):
    """The environment of programs for which names are slow, or fail twice, or have two addresses."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("names")
    (folder / "names.c").write_text(SLOW_NAMES)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "names.so", folder / "names.c", "-ldl"], check=True)
    return os.environ | {"LD_PRELOAD": str(folder / "names.so")}


@pytest.mark.timeout(120)
def test_a_name_whose_lookup_does_not_end_holds_nothing(server, slow_names):
    """The call ends in time, another server is read meanwhile, and the program ends while the lookup goes on."""
    program = """
import sys, damacy
slow = damacy.StoreOptions(connect_timeout_s=0.5, attempts=1, deadline_s=2)
try:
    damacy.open("http://slow.example:1/a.zarr", store=slow)
except damacy.StorageError as error:
    print(error.reason, flush=True)
print(int(damacy.open_array(sys.argv[1])[0, 0, 0]), flush=True)
"""
    run = [sys.executable, "-c", program, f"{server.url}/plain.zarr"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, env=slow_names)
    reason, first = done.stdout.split()
    assert reason in ("dns", "connect", "deadline") and int(first) == DATA[0, 0, 0], done.stderr
    assert done.returncode == 0


@pytest.mark.timeout(120)
def test_a_lookup_that_fails_twice_is_repeated(server, slow_names):
    program = "import sys, damacy; print(int(damacy.open_array(sys.argv[1])[0, 0, 0]))"
    run = [sys.executable, "-c", program, server.url.replace("127.0.0.1", "failing.example") + "/plain.zarr"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, env=slow_names)
    assert done.stdout == f"{DATA[0, 0, 0]}\n", done.stderr


@pytest.mark.timeout(120)
def test_of_two_addresses_the_one_that_answers_is_used(server, slow_names):
    """The other one refuses connections. Their order is random, so that many names are read."""
    port = int(server.url.rpartition(":")[2])
    program = """
import sys, damacy
for number in range(8):
    uri = f"http://{number}.two.example:{sys.argv[1]}/plain.zarr"
    array = damacy.open(uri, store=damacy.StoreOptions(connect_timeout_s=20, attempts=1))
    assert int(array[0, 0, 0]) == int(sys.argv[2])
"""
    run = [sys.executable, "-c", program, str(port), str(DATA[0, 0, 0])]
    with socket.socket() as held:
        held.bind(("127.0.0.2", port))
        done = subprocess.run(run, capture_output=True, text=True, timeout=60, env=slow_names)
    assert done.returncode == 0, done.stderr


@pytest.mark.timeout(120)
def test_a_lookup_during_which_the_process_is_forked_is_not_watched_afterwards(server, slow_names):
    """The forked child keeps a copy of the descriptors. If epoll still watched them, the network thread would spin."""
    program = """
import os, sys, threading, time, damacy
def text_of(path):
    try: return open(path).read()
    except FileNotFoundError: return ""  # closed since it was listed
def watched():  # only epoll has this
    return sum(text_of(each.path).count("tfd:") for each in os.scandir("/proc/self/fdinfo"))
def wait_until(holds):
    end = time.monotonic() + 20
    while not holds():
        if time.monotonic() > end: sys.exit(f"{watched()} files are watched")
        time.sleep(0.005)
opening = threading.Thread(target=lambda: damacy.open_array(sys.argv[1]))
opening.start()
wait_until(lambda: watched() == 2)  # what wakes the network thread, and the lookup
child = os.fork()
if child == 0:
    time.sleep(25)
    os._exit(0)
opening.join()
wait_until(lambda: watched() == 1)
os.kill(child, 9)
os.waitpid(child, 0)
"""
    run = [sys.executable, "-c", program, server.url.replace("127.0.0.1", "late.example") + "/plain.zarr"]
    environment = slow_names | {"DAMACY_NET_THREADS": "1"}
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(60)
def test_a_mount_that_changes_leaves_what_was_opened_alone(server, folder):
    """The mount is changed, then removed, while the requests of a batch are held back."""
    go = threading.Event()

    def hold(request, answer):
        go.wait(30)

    uri = f"{server.url}/plain.zarr"
    damacy.mount(f"{server.url}/", damacy.StoreOptions(headers={"X-One": "1"}))
    pipeline = damacy.Pipeline(damacy.Config(batch_size=1, device="cpu", dtype="u16", **MEMORY))
    pipeline.push([damacy.Sample(uri, [(0, extent) for extent in SHAPE])])
    server.faults = of_chunks(hold)
    damacy.mount(f"{server.url}/", damacy.StoreOptions(headers={"X-One": "2"}))
    damacy.unmount(f"{server.url}/")
    go.set()
    with pipeline, pipeline.pop() as batch:
        np.testing.assert_array_equal(batch.numpy()[0], DATA)
    assert {request.headers.get("x-one") for request in server.requests} == {"1"}
    check(uri)
