"""Judging one case again without pytest, and a script of its calls that needs no pytest-affine."""
