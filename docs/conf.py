"""Settings of Sphinx, which makes the site."""

import stacksweep

project = "stacksweep"
author = "The stacksweep developers"
copyright = author
version = release = stacksweep.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "examples"]

# links to headings by GitHub's rule, so that a page reads the same there
myst_heading_anchors = 4

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_preprocess_types = True
default_role = "py:obj"
python_maximum_signature_line_length = 88

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_title = f"stacksweep {release}"
html_show_sourcelink = False
html_copy_source = False
