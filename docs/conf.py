"""Sphinx's configuration of the site. Before Sphinx reads, `hooks` lays out the pages in its source folder."""

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
myst_heading_anchors = 6  # links to headings, by GitHub's anchors
suppress_warnings = [
    "misc.highlighting_failure",  # of Python with `...`
    "ref.python",  # of a type's name in a signature, where two types have it
    "myst.header",  # the parts of a reference page begin at any depth
]
language = "en"
smartquotes = False  # a text in a signature is typed as it stands
pygments_style, pygments_dark_style = "default", "monokai"
html_theme = "furo"
html_title = "dynagate"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_search_summary = False  # it fetches pages, which a browser does not do from files
html_permalinks_icon = "#"
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 80


def setup(app: Sphinx) -> None:
    hooks.lay_out(Path(app.srcdir))
