"""Sphinx configuration of the site. Before Sphinx reads pages, `hooks` copies them to its source folder."""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))
import hooks

project = "dynagate"
copyright = "the dynagate authors"
root_doc = "index"
extensions = ["myst_parser"]
myst_heading_anchors = 6  # Headings get anchors as on GitHub, so links to them work on the site too.
suppress_warnings = [
    "misc.highlighting_failure",  # Python examples that contain `...`
    "ref.python",  # a type in a signature whose name two types share
    "myst.header",  # sections of a reference page begin at any depth
]
language = "en"
smartquotes = False  # signatures keep straight quotes
pygments_style, pygments_dark_style = "default", "monokai"
html_theme = "furo"
html_title = "dynagate"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_search_summary = False  # summaries fetch pages, which browsers do not allow for local files
html_permalinks_icon = "#"
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 80


def setup(app: Sphinx) -> None:
    hooks.lay_out(Path(app.srcdir))
