"""The package as a whole: its exports, the cost of importing it, and that its documents are correct."""

import builtins
import dataclasses
import doctest
import importlib
import inspect
import os
import pathlib
import pickle
import pkgutil
import re
import subprocess
import sys
import textwrap
import warnings

import pytest

import damacy

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Modules that need an optional package.
NEEDED = {
    "cli": "typer",
    "demo": "typer",
    "torch": "torch",
    "lightning": "lightning",
    "jax": "jax",
    "synthetic": "zarr",
}
EXPORTS = """Pipeline Config Array Image Group Plate ArraySpec Sample Take Batch BatchArray NamedBatch BatchInfo
BatchRows Metric Stats Dtype Status DamacyError TryAgain PopTimeout
InvalidArgument NotFound DtypeMismatch RankMismatch StorageError DecodeError UnsupportedFormat NativeCudaError
OutOfMemory SharedCache ShutdownError Secret StoreOptions ReferenceStore RemoteFile RemoteEndpointType mount mounts
open_array open_image open_group open_many set_log_level set_read_cache unmount
MAX_CHUNK_UNCOMPRESSED_BYTES __version__""".split()


def run(program, **environment):
    """Output of a program in a fresh interpreter that finds the package."""
    path = os.pathsep.join([str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])])
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=os.environ | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout


def test_it_exports_these_names_and_hides_no_builtin():
    assert sorted(damacy.__all__) == sorted(EXPORTS)
    assert not set(damacy.__all__) & set(dir(builtins)) - {"__version__"}
    star = {}
    exec("from damacy import *", star)
    assert set(EXPORTS) <= set(star)


def test_further_names_can_be_imported():
    assert [getattr(damacy, f"LOG_{n}") for n in "TRACE DEBUG INFO WARN ERROR FATAL".split()] == [0, 1, 2, 3, 4, 5]
    assert callable(damacy.open)
    assert callable(damacy.set_log_quiet)
    assert dataclasses.is_dataclass(damacy.ArrayInfo)
    assert damacy.MAX_CHUNK_UNCOMPRESSED_BYTES == 1 << 30
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        damacy.nothing_of_the_kind  # noqa: B018


def test_all_files_have_the_same_version():
    in_cmake = re.search(r"project\(damacy VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
    assert damacy.__version__ == damacy._native.__version__ == in_cmake
    assert f"version: {in_cmake}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_importing_it_loads_little_and_starts_nothing():
    loaded = run("""
        import os, sys, threading
        before = os.listdir("/proc/self/task")  # an emulator has threads of its own
        import damacy
        assert threading.active_count() == 1
        assert os.listdir("/proc/self/task") == before
        slow = ("numpy", "torch", "jax", "lightning", "typer", "rich", "html", "json", "fractions", "logging")
        absent = (*slow, "damacy._native", "damacy._open")
        print(*(m for m in absent if m in sys.modules))
        assert {"Array", "open", "open_array"} <= set(dir(damacy)) and "damacy._open" not in sys.modules
        from damacy import *
        assert open_array is damacy.open_array and "damacy._open" in sys.modules
    """)
    assert loaded.split() == []


def test_the_commands_load_without_the_native_library():
    loaded = run("""
        import sys
        import damacy._cli.commands
        print(*(m for m in ("damacy._native",) if m in sys.modules))
    """)
    assert loaded.split() == []


def test_a_free_threaded_python_is_refused_at_import():
    program = """
    import sys
    sys.abiflags = "t"
    try:
        import damacy
    except ImportError as error:
        print(error)
    """
    assert "needs a Python with the GIL" in (message := run(program)) and sys.executable in message


def test_importing_it_loads_few_modules():
    loaded = run("""
        import sys
        before = set(sys.modules)
        import damacy
        print(*(set(sys.modules) - before))
    """).split()
    own = [name for name in loaded if name.split(".")[0] == "damacy"]
    assert len(own) <= 25, sorted(own)  # 20 today; each costs about 1 ms
    assert len(loaded) - len(own) <= 60, sorted(set(loaded) - set(own))  # 45 today, of the standard library


def test_every_ignored_type_error_has_its_code_and_a_reason():
    lines = [
        (path, line)
        for path in sorted((ROOT / "python" / "damacy").rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if "type: ignore" in line
    ]
    assert lines
    assert [it for it in lines if not re.search(r"# type: ignore\[[a-z-]+\]  # \S", it[1])] == []


def test_the_native_library_needs_no_cuda_library():
    assert run("import damacy; print(damacy._native.cuda_init_primary())").strip() in ("True", "False")
    needed = subprocess.run(["ldd", damacy._native.__file__], capture_output=True, text=True).stdout
    assert "not found" not in needed
    assert not re.search(r"libcuda\.|libcudart", needed)


@pytest.mark.parametrize("module", [m.name for m in pkgutil.iter_modules(damacy.__path__) if m.name[0] != "_"] + [""])
def test_every_module_explains_itself(module):
    if module in NEEDED:
        pytest.importorskip(NEEDED[module])
    assert importlib.import_module(f"damacy.{module}".rstrip(".")).__doc__


def test_the_examples_in_docstrings_run():
    tried = doctest.testmod(damacy, extraglobs={"dataclasses": dataclasses})
    assert (tried.failed, tried.attempted >= 12) == (0, True)


def test_the_examples_of_the_interface_run():
    examples = """
        >>> base = Config(batch_size=8, host_buffer_bytes=1 << 30, device_buffer_bytes=1 << 30)
        >>> base.dtype is Dtype.F32, dataclasses.replace(base, batch_size=64).batch_size
        (True, 64)
        >>> Dtype.coerce("BFloat16") is Dtype.BF16
        True
        >>> Config(batch_size=0, host_buffer_bytes=1, device_buffer_bytes=1)
        Traceback (most recent call last):
        ValueError: batch_size must be >= 1 (got 0)
        >>> Sample(uri="cell.zarr", aabb=[64, 256, 256])
        Traceback (most recent call last):
        TypeError: aabb axis 0: expected slice or (start, stop) tuple; got int
    """
    names = {"dataclasses": dataclasses}
    exec("from damacy import *", names)
    runner = doctest.DocTestRunner()
    runner.run(doctest.DocTestParser().get_doctest(textwrap.dedent(examples), names, "interface", None, 0))
    assert runner.summarize(verbose=False) == (0, 5)


def test_public_classes_have_typed_signatures():
    assert (pathlib.Path(damacy.__file__).parent / "py.typed").is_file()
    for cls in (damacy.Pipeline, damacy.Batch):
        for name, member in vars(cls).items():
            if name.startswith("_"):
                continue
            function = member.fget if isinstance(member, property) else member
            signature = inspect.signature(function)
            assert signature.return_annotation is not signature.empty, f"{cls.__name__}.{name}"


def test_the_stubs_are_those_of_the_native_library(tmp_path):
    """If not, run `make stubs`."""
    pytest.importorskip("nanobind")
    fresh = tmp_path / "_native.pyi"
    run(f"""
        import nanobind.stubgen
        nanobind.stubgen.main(["--quiet", "--module", "damacy._native", "--output-file", {str(fresh)!r}])
    """)
    settings = ["--config", str(ROOT / "pyproject.toml")]
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", *settings, str(fresh)], check=True)
    assert fresh.read_text(encoding="utf-8") == (ROOT / "python/damacy/_native.pyi").read_text(encoding="utf-8")


def config():
    return damacy.Config(batch_size=1, host_buffer_bytes=1 << 20, device_buffer_bytes=1 << 20, device="cpu")


def test_a_pipeline_takes_only_a_config_and_cannot_be_pickled():
    for wrong in (None, {"batch_size": 1}, damacy.Config):
        with pytest.raises(TypeError, match="config"):
            damacy.Pipeline(wrong)
    with damacy.Pipeline(config()) as pipeline:
        with pytest.raises(TypeError, match="Pipeline cannot be pickled"):
            pickle.dumps(pipeline)
        with pytest.raises(TypeError, match="come from"):
            damacy.Batch(None)
        assert repr(pipeline) == "<damacy.Pipeline batch_size=1 f32 on cpu>"
        assert pipeline.device == "cpu"
        assert pipeline.config == config()
    assert "closed" in repr(pipeline)
    assert pipeline.config == config()


def test_batches_counts_pops_and_survives_errors():
    with damacy.Pipeline(config()) as pipeline:
        with pytest.raises(TypeError):
            pipeline.batches(1.5)
        assert list(pipeline.batches(0)) == list(pipeline.batches(-3)) == []
        batches = pipeline.batches(2)
        for _ in range(3):
            with pytest.raises(damacy.TryAgain):
                next(batches)


def test_log_settings_are_checked():
    for level in range(6):
        damacy.set_log_level(level)
    damacy.set_log_level(damacy.LOG_FATAL)
    for level in (-1, 6):
        with pytest.raises(ValueError, match="level"):
            damacy.set_log_level(level)
    for level in (True, "INFO", 1.0, None):
        with pytest.raises(TypeError, match="level"):
            damacy.set_log_level(level)


def test_the_logger_has_a_handler_from_the_first_record_on():
    assert (
        run("""
        import sys, damacy
        assert "logging" not in sys.modules
        from damacy._core.log import logger
        import logging
        assert logger() is logger() is logging.getLogger("damacy")
        logger().warning("this is not printed")
        print([type(handler).__name__ for handler in logger().handlers])
    """)
        == "['NullHandler']\n"
    )


def test_native_records_reach_the_python_logger(monkeypatch, caplog):
    records = [(level, f"record {level}") for level in range(6)]
    monkeypatch.setattr(damacy._native, "drain_log_records", lambda: [records.pop(0)] if records else [])
    with caplog.at_level(1, logger="damacy"):
        for _ in range(7):
            damacy._core.log.drain()
    assert [r.levelno for r in caplog.records] == [5, 10, 20, 30, 40, 50]
    assert caplog.messages == [f"record {level}" for level in range(6)]


class Handle:
    def __init__(self, **attributes):
        vars(self).update(attributes)


def test_streams_and_events_of_other_libraries_are_understood():
    from damacy._core.streams import ALL_WORK, stream_handle

    class Protocol:
        def __cuda_stream__(self):
            return 0, 77

    assert [stream_handle(x) for x in (None, 0, 1, 2, 4711, -1)] == [None, 0, 1, 2, 4711, ALL_WORK]
    assert stream_handle(Protocol()) == 77
    assert stream_handle(Handle(cuda_stream=5)) == 5
    assert stream_handle(Handle(cuda_event=5)) == ALL_WORK
    for wrong in ("0", 1.0, True, -2, object(), [1]):
        with pytest.raises(TypeError):
            stream_handle(wrong)


@pytest.mark.parametrize("document", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "STYLE.md"])
def test_links_in_documents_have_a_target(document):
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", (ROOT / document).read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_layers_in_the_architecture_are_those_of_the_tree():
    layers = (ROOT / "src/damacy/LAYERS").read_text(encoding="utf-8").strip()
    assert f"```\n{layers}\n```" in (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


class OnDevice:
    """The attributes of a pipeline that the warning uses."""

    def __init__(self, chosen, bound):
        self.config = damacy.Config(batch_size=1, device=chosen)
        self.device = bound
        self.closed = False

    def close(self):
        self.closed = True


@pytest.mark.parametrize(
    ("rank", "chosen", "bound", "warned"),
    [("1", None, 0, True), ("0", None, 0, False), ("x", None, 0, False), ("1", 0, 0, False), ("1", None, "cpu", False)],
)
def test_a_local_rank_other_than_the_device_warns_once(monkeypatch, rank, chosen, bound, warned):
    from damacy._pipeline import pipeline as pipeline_module

    monkeypatch.setattr(pipeline_module, "_warned_ranks", set())
    monkeypatch.setenv("LOCAL_RANK", rank)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            pipeline_module._warn_of_other_rank(OnDevice(chosen, bound))
    assert [w.category for w in seen] == [UserWarning] * warned


def test_a_warning_that_is_an_error_leaves_no_pipeline_open(monkeypatch):
    from damacy._pipeline import pipeline as pipeline_module

    monkeypatch.setattr(pipeline_module, "_warned_ranks", set())
    monkeypatch.setenv("LOCAL_RANK", "3")
    pipeline = OnDevice(None, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="LOCAL_RANK is 3"):
            pipeline_module._warn_of_other_rank(pipeline)
    assert pipeline.closed
