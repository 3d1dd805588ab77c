"""Tests on several ranks, for everybody: the fixture and the marker `affine_ranks`."""
