"""What tools say about sources is true: each line that a fault is planted into is there, and checks of sources can
fail. Plants no fault."""

import pathlib
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_layers  # noqa: E402
import check_thread_safety  # noqa: E402
import check_threads  # noqa: E402
import check_tidy  # noqa: E402
import plant_faults  # noqa: E402
import plant_halo_faults  # noqa: E402
from planting import ROOT, Fault  # noqa: E402


def test_the_lines_that_faults_are_planted_into_exist():
    faults = [*plant_faults.faults(), *(Fault(name, *what) for name, what in plant_halo_faults.FAULTS.items())]
    assert len(faults) > 20
    assert [fault for fault in faults if fault.stands not in (ROOT / fault.file).read_text()] == []


def write(folder, files):
    """Writes files below `folder`, from a mapping of names to the files that they include; returns their paths."""
    for name, included in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("".join(f'#include "damacy/{header}"\n' for header in included))
    return [folder / name for name in files]


def test_units_that_include_each_other_are_found(tmp_path):
    files = {
        "a/open.h": ["a/read.h"],
        "a/read.h": [],
        "a/read.cpp": ["a/read.h", "b/place.h"],
        "b/place.h": ["core/error.h"],
        "b/place.cpp": ["b/place.h", "a/open.h"],
        "b/alone.h": ["a/open.h"],
    }
    graph = check_layers.units(tmp_path, write(tmp_path, files))
    circle = ["damacy/a/open", "damacy/a/read", "damacy/b/place", "damacy/a/open"]
    assert check_layers.circles(graph) == [circle]


def test_a_unit_is_a_header_with_its_source_and_without_its_test(tmp_path):
    files = {
        "a/detail/read.h": [],
        "a/read.cpp": ["a/detail/read.h"],
        "a/open.h": ["a/detail/read.h"],
        "a/read_test.cpp": ["a/open.h"],
    }
    assert check_layers.circles(check_layers.units(tmp_path, write(tmp_path, files))) == []


def test_a_namespace_of_two_layers_is_found(tmp_path):
    texts = {
        "copy/run.h": "namespace damacy::copy {\n",
        "codec/frames.h": "namespace damacy {\nnamespace detail {\n",
        "zarr/frames.h": "namespace damacy::detail {\n",
        "codec/gpu.h": "namespace damacy::gpu {\n",
        "zarr/gpu.h": "namespace damacy::gpu {\n",
        "zarr/place.h": "namespace damacy::copy {\n",
        "array.h": "namespace damacy::zarr {\n",
    }
    paths = write(tmp_path, dict.fromkeys(texts, ()))
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text)
    found = check_layers.shared_namespaces(tmp_path, paths, ["copy", "codec", "zarr"])
    assert found == [
        "namespace copy is used by copy, zarr: it belongs to one layer",
        "namespace gpu is used by codec, zarr: it belongs to one layer",
    ]


def test_each_of_two_circles_is_found(tmp_path):
    files = {"a/x.h": ["a/y.h", "a/z.h"], "a/y.h": ["a/x.h"], "a/z.h": ["a/x.h"]}
    graph = check_layers.units(tmp_path, write(tmp_path, files))
    assert sorted(map(len, check_layers.circles(graph))) == [3, 3]


def test_the_table_of_threads_is_that_of_the_code():
    table = (ROOT / check_threads.PAGE).read_text()
    assert check_threads.offences(table) == []


def test_a_thread_without_a_row_a_row_without_a_thread_and_an_empty_cell_are_found():
    table = (ROOT / check_threads.PAGE).read_text()
    assert check_threads.offences(table.replace("| `damacy-plan` |", "| `damacy-plot` |")) == [
        "docs/reference/threads.md: no row for the thread damacy-plan",
        "docs/reference/threads.md: no thread is called damacy-plot",
    ]
    row = next(line for line in table.splitlines() if line.startswith("| `damacy-free` |"))
    assert len(check_threads.offences(table.replace(row, "| `damacy-free` | `WaveRunner` | | no thread |"))) == 1


@pytest.mark.parametrize("start", ["threading.Thread(\n    target=run{})", "futures.ThreadPoolExecutor(4{}) as pool"])
def test_a_thread_without_a_name_in_python_is_found(start):
    assert check_threads.UNNAMED_IN_PYTHON.search(start.format(""))
    assert not check_threads.UNNAMED_IN_PYTHON.search(start.format(', thread_name_prefix="damacy-walk"'))


@pytest.mark.skipif(shutil.which(check_thread_safety.CLANG) is None, reason="clang 19 is not installed")
def test_use_of_a_guarded_member_without_its_mutex_is_found(tmp_path):
    source = """#include "damacy/core/mutex.h"
        struct Count {{
          void add() {{ {lock} ++value; }}
          damacy::Mutex mutex;
          int value DAMACY_GUARDED_BY(mutex) = 0;
        }};"""
    path = tmp_path / "count.cpp"
    flags = ["-std=c++20", f"-I{ROOT / 'src'}"]
    path.write_text(source.format(lock="const damacy::Lock lock(mutex);"))
    assert check_thread_safety.complaints(path, flags, tmp_path) == ""
    path.write_text(source.format(lock=""))
    assert "requires holding mutex 'mutex'" in check_thread_safety.complaints(path, flags, tmp_path)


@pytest.mark.skipif(shutil.which(check_thread_safety.CLANG) is None, reason="clang 19 is not installed")
def test_use_of_a_guarded_member_while_its_lock_is_released_is_found(tmp_path):
    source = """#include "damacy/core/mutex.h"
        struct Count {{
          void add(damacy::Lock& lock) DAMACY_REQUIRES(mutex) {{
            {{
              const damacy::LockRelease meanwhile(lock, mutex);
              {within}
            }}
            {behind}
          }}
          damacy::Mutex mutex;
          int value DAMACY_GUARDED_BY(mutex) = 0;
        }};"""
    path = tmp_path / "count.cpp"
    flags = ["-std=c++20", f"-I{ROOT / 'src'}"]
    path.write_text(source.format(within="", behind="++value;"))
    assert check_thread_safety.complaints(path, flags, tmp_path) == ""
    path.write_text(source.format(within="++value;", behind=""))
    assert "requires holding mutex 'mutex'" in check_thread_safety.complaints(path, flags, tmp_path)


@pytest.mark.skipif(shutil.which(check_tidy.TIDY) is None, reason="clang-tidy 19 is not installed")
def test_use_of_a_moved_object_is_found(tmp_path):
    source = """#include <string>
        #include <utility>
        std::string twice() {{
          std::string text = "once";
          std::string both = {first};
          both += text;
          return both;
        }}"""
    path = tmp_path / "twice.cpp"
    path.write_text(source.format(first="text"))
    assert check_tidy.findings(path, ["-std=c++20"], tmp_path) == []
    path.write_text(source.format(first="std::move(text)"))
    (found,) = check_tidy.findings(path, ["-std=c++20"], tmp_path)
    assert "'text' used after it was moved" in found


def test_the_picture_of_the_readme_has_its_tables_and_its_plot():
    pytest.importorskip("markdown_it")
    import page_pictures

    page = page_pictures.readme_page((ROOT / "README.md").read_text())
    assert page.count("<table>") == 2
    assert 'src="docs/speed-light.svg"' in page
    assert f'<base href="{ROOT.as_uri()}/">' in page


def test_pictures_without_a_browser_say_what_to_install(monkeypatch):
    pytest.importorskip("markdown_it")
    import page_pictures

    monkeypatch.setattr(sys, "argv", ["page_pictures.py"])
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match="apt-get install chromium"):
        page_pictures.main()
