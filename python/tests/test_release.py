"""What belongs to a release besides its packages: the commit is tagged with the version, and files are listed."""

import hashlib
import importlib.util
import pathlib
import re
import subprocess
import tarfile
import tomllib
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def release():
    spec = importlib.util.spec_from_file_location("release", ROOT / "tools" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def git(folder, *words):
    user = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"]
    subprocess.run(["git", *user, "-C", folder, *words], check=True, capture_output=True, timeout=30)


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "checkout"
    for name, text in {
        "CMakeLists.txt": "project(damacy VERSION 1.2.3 LANGUAGES CXX)\n",
        "CITATION.cff": "version: 1.2.3\n",
        "packaging/conda/recipe.yaml": 'context:\n  version: "1.2.3"\n',
        "CHANGELOG.md": "# Changes\n\n## 1.2.3 (2030-01-02)\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "all")
    return folder


def test_a_commit_with_the_tag_of_its_version_may_be_published(release, checkout):
    git(checkout, "tag", "v1.2.3")
    assert release.faults(checkout) == []


def test_a_commit_without_the_tag_of_its_version_may_not(release, checkout):
    git(checkout, "tag", "v1.2.2")
    assert release.faults(checkout) == ["the version is 1.2.3, so the commit needs the tag v1.2.3 (it has: v1.2.2)"]


@pytest.mark.parametrize(
    "name, text, fault",
    [
        ("CITATION.cff", "version: 1.2.2\n", "CITATION.cff has the version 1.2.2, not 1.2.3"),
        ("CHANGELOG.md", "## 1.2.3 (unreleased)\n", "CHANGELOG.md has no title `## 1.2.3 (YYYY-MM-DD)`"),
        ("more.txt", "", "files differ from the commit: ?? more.txt"),
    ],
)
def test_what_does_not_fit_is_named(release, checkout, name, text, fault):
    git(checkout, "tag", "v1.2.3")
    (checkout / name).write_text(text)
    assert fault in release.faults(checkout)


def test_the_version_of_this_checkout_is_the_same_in_all_files(release):
    assert [fault for fault in release.faults(ROOT) if " has the version " in fault] == []


def packages(tmp_path):
    dist, docs = tmp_path / "dist", tmp_path / "docs"
    (docs / "how-to").mkdir(parents=True)
    dist.mkdir()
    (docs / "how-to" / "page.html").write_text("text")
    with zipfile.ZipFile(dist / "damacy-1.2.3-cp312-abi3-manylinux_2_34_x86_64.whl", "w") as wheel:
        wheel.writestr("damacy-1.2.3.dist-info/sboms/damacy.cdx.json", '{"components": []}')
    (dist / "damacy-1.2.3.tar.gz").write_bytes(b"source")
    return dist, docs


def test_documentation_components_and_checksums_are_added(release, tmp_path):
    dist, docs = packages(tmp_path)
    names = release.collect(dist, docs, "1.2.3", seconds=1_000_000_000)
    assert names == [
        "damacy-1.2.3-cp312-abi3-manylinux_2_34_x86_64.cdx.json",
        "damacy-1.2.3-cp312-abi3-manylinux_2_34_x86_64.whl",
        "damacy-1.2.3-docs.tar.gz",
        "damacy-1.2.3.tar.gz",
        "SHA256SUMS",
    ]
    with tarfile.open(dist / "damacy-1.2.3-docs.tar.gz") as archive:
        assert archive.getnames() == ["damacy-1.2.3-docs/how-to/page.html"]
    sums = dict(reversed(line.split("  ")) for line in (dist / "SHA256SUMS").read_text().splitlines())
    assert sorted(sums) == names[:-1]
    assert sums["damacy-1.2.3.tar.gz"] == hashlib.sha256(b"source").hexdigest()


def test_the_archive_of_the_documentation_is_the_same_whenever_it_is_made(release, tmp_path):
    dist, docs = packages(tmp_path)
    made = []
    for _ in range(2):
        release.collect(dist, docs, "1.2.3", seconds=1_000_000_000)
        made.append((dist / "damacy-1.2.3-docs.tar.gz").read_bytes())
        (dist / "damacy-1.2.3-docs.tar.gz").unlink()
        (docs / "how-to" / "page.html").touch()
    assert made[0] == made[1]


@pytest.mark.parametrize("name", ["damacy-1.2.2.tar.gz", "damacy-1.2.30.tar.gz", "other-1.2.3.tar.gz"])
def test_packages_of_another_version_are_refused(release, tmp_path, name):
    dist, docs = packages(tmp_path)
    (dist / name).write_bytes(b"")
    with pytest.raises(ValueError, match="expected packages of damacy 1.2.3"):
        release.collect(dist, docs, "1.2.3", seconds=0)


def test_the_conda_recipe_names_the_requirements_of_the_package_and_of_cmake():
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8"))["requirements"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    python = {name.replace(">=", " >=") for name in project["project"]["dependencies"]}
    assert set(recipe["run"]) == {"python"} | python
    cmake = (ROOT / "cmake" / "packages.cmake").read_text(encoding="utf-8")
    libraries = set(re.findall(r"^damacy_wants\(.* (\S+)\)$", cmake, re.M))
    assert len(libraries) == 7
    assert libraries <= set(recipe["host"])
    assert {name.replace(">=", " >=") for name in project["build-system"]["requires"]} <= set(recipe["host"])
