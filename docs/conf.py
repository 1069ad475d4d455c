"""How Sphinx builds this site. Knows where the sources are; what is generated from the code is in _ext/."""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE / "_ext"), str(ROOT / "python")]

project = "damacy"
version = release = re.search(r"project\(damacy VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
project_copyright = "the damacy authors"

extensions = [
    "from_code",
    "breathe",
    "cpp_reference",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "_ext", "_generated", "requirements.txt"]
html_theme = "furo"
html_title = f"damacy {version}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]
smartquotes = False  # `--` of a command must not become a dash

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

# The native library is not needed: what loads it on import gets a stand-in.
autodoc_mock_imports = ["cupy", "damacy._native", "jax", "lightning", "mpi4py", "torch", "zarr"]
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autoclass_content = "both"
default_role = "code"  # docstrings write `name`
suppress_warnings = ["duplicate_declaration.cpp"]  # each header opens the namespace again
nitpick_ignore_regex = [
    ("py:.*", ".*"),
    ("cpp:.*", ".*"),
    ("c:.*", ".*"),
]  # names in type hints; links between pages are checked
