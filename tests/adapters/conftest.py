from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("deepspeed") else ["test_deepspeed_*.py"]
