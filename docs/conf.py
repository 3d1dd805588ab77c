"""Sphinx configuration."""

project = "pytest-affine"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
autodoc_typehints = "description"
autodoc_member_order = "bysource"
nitpicky = False
myst_heading_anchors = 3
