"""What all tests have in common."""

from hypothesis import settings

pytest_plugins = ["pytester"]

# The same examples in every run, however loaded the machine is.
settings.register_profile("tests", deadline=None, database=None, derandomize=True)
settings.load_profile("tests")
