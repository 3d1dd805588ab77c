"""Tests of a user against faulty variants of the function that they test."""

import pytest

pytestmark = pytest.mark.long

PLANNER = """
    from pytest_affine.reference.planner import plan_transfer as plan

    def plan_transfer(source, target):
        return plan(source, target)

    PLANNERS = {"the one": plan_transfer}
"""

WEAK = """
    from planner import plan_transfer
    from pytest_affine.builders import contiguous_split_map, replicated_map

    def test_there_is_a_plan():
        source = contiguous_split_map((4,), [2, 2], 0)
        assert plan_transfer(source, replicated_map((4,), 1)).segments
"""

STRICT = """
    from planner import plan_transfer
    from pytest_affine.builders import contiguous_split_map, replicated_map
    from pytest_affine.truth import assert_exact_tiling

    def test_the_plan_is_exact():
        source, target = contiguous_split_map((4,), [2, 2], 0), replicated_map((4,), 1)
        assert_exact_tiling(plan_transfer(source, target), source, target)
"""

MUTANTS = """
    from dataclasses import replace
    from pytest_affine import Implementation
    from pytest_affine.mutants import Mutant

    class Drops(Implementation):
        def plan_transfer(self, source, target, **options):
            plan = super().plan_transfer(source, target, **options)
            return replace(plan, segments=plan.segments[:-1])

    class Copies(Implementation):
        def plan_transfer(self, source, target, **options):
            return replace(super().plan_transfer(source, target, **options), statistics=None)

    class Elsewhere(Implementation):
        def plan_digest(self, *args, **options):
            return ""

    MUTANTS = [
        Mutant(id=name, requirement="PLAN-TILE", sentence=f"It is {name}.", fault=f"faulty:{name}")
        for name in ("Drops", "Copies", "Elsewhere")
    ]
"""


@pytest.fixture
def folder(pytester, monkeypatch):
    """A user's folder, in which three mutants are all that there are."""
    pytester.makepyfile(planner=PLANNER, faulty=MUTANTS)
    pytester.makepyfile(
        few="""
            import pytest_affine.mutants.catalogue as catalogue
            from faulty import MUTANTS

            catalogue.CATALOGUE = tuple(MUTANTS)
        """
    )
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    return pytester


def run(folder, *arguments):
    return folder.runpytest_subprocess(
        "-p", "few", "--affine-mutate=planner:plan_transfer", *arguments
    )


def test_faults_that_no_test_notices_are_printed_and_fail_the_session(folder):
    folder.makepyfile(test_weak=WEAK)
    result = run(folder)
    result.stdout.fnmatch_lines(
        [
            "affine: 2 mutants of planner:plan_transfer, which does what plan_transfer does",
            "affine: Drops never noticed",
            "affine: Copies never noticed",
            "mutant * would violate * own tests * seconds",
            "Drops * PLAN-TILE * never noticed *",
            "of 2 faults the tests never notice 2",
            "  Drops: It is Drops.",
            "  Copies: It is Copies.",
        ]
    )
    assert result.ret == 1


@pytest.mark.parametrize("workers", [[], ["-n", "1"]])
def test_a_fault_that_a_test_notices_is_told_from_one_that_none_does(folder, workers):
    folder.makepyfile(test_strict=STRICT)
    result = run(folder, *workers)
    result.stdout.fnmatch_lines(
        ["affine: Drops noticed", "affine: Copies never noticed", "of 2 faults * notice 1"]
    )
    assert result.ret == 1


def test_a_session_whose_tests_notice_everything_passes(folder):
    folder.makepyfile(test_strict=STRICT)
    folder.makepyfile(
        few="""
        import pytest_affine.mutants.catalogue as catalogue
        from faulty import MUTANTS

        catalogue.CATALOGUE = tuple(MUTANTS[:1])
    """
    )
    result = run(folder, "--junit-xml=report.xml")
    result.stdout.fnmatch_lines(["of 1 faults the tests never notice 0"])
    assert result.ret == 0
    assert 'failures="0"' in (folder.path / "report.xml").read_text()


def test_only_the_mutants_that_are_asked_for_are_tried(folder):
    folder.makepyfile(test_weak=WEAK)
    result = run(folder, "--affine-mutant=Copies")
    result.stdout.fnmatch_lines(["of 1 faults the tests never notice 1", "  Copies: *"])
    result = run(folder, "--affine-mutant=Elsewhere")
    result.stderr.fnmatch_lines(
        ["ERROR: --affine-mutate: of these mutants none changes plan_transfer alone"]
    )


def test_the_fault_is_wherever_the_function_was_kept(folder):
    strict = STRICT.replace("import plan_transfer", "import PLANNERS")
    folder.makepyfile(test_kept=strict.replace("plan_transfer(", 'PLANNERS["the one"]('))
    run(folder, "--affine-mutant=Drops").stdout.fnmatch_lines(["affine: Drops noticed"])


def test_a_decorated_function_is_replaced_where_a_module_has_it(folder):
    decorator = "    import torch\n\n    @torch.no_grad()\n"
    decorated = PLANNER.replace("    def plan_transfer", f"{decorator}    def plan_transfer")
    folder.makepyfile(planner=decorated, test_strict=STRICT)
    run(folder, "--affine-mutant=Drops").stdout.fnmatch_lines(["affine: Drops noticed"])


def test_the_fault_is_in_ranks_too(folder):
    folder.makepyfile(
        test_ranks="""
            import pytest
            from planner import plan_transfer
            from pytest_affine.builders import replicated_map

            @pytest.mark.affine_ranks(1)
            def test_a_rank_plans():
                whole = replicated_map((4,), 1)
                assert plan_transfer(whole, whole).segments
        """
    )
    result = run(folder)
    result.stdout.fnmatch_lines(["affine: Drops noticed", "affine: Copies never noticed"])


def test_tests_that_fail_without_a_mutant_are_not_run_with_any(folder):
    folder.makepyfile("def test_fails(): assert 0")
    result = run(folder)
    result.stdout.fnmatch_lines(["no mutant is tried: without one, the tests must run and pass"])
    result.stdout.no_fnmatch_line("affine: Drops *")
    assert result.ret == 1


def test_where_no_test_runs_no_mutant_is_tried(folder):
    result = run(folder)
    result.stdout.fnmatch_lines(["no mutant is tried: without one, the tests must run and pass"])
    assert result.ret != 0


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("planner", "'planner' must be module:function or module:function=method"),
        (
            "planner:plan",
            "'planner:plan': the contract has no method 'plan'; a function that does what one of "
            "its methods does is given as planner:plan=METHOD, with one of build_map, *",
        ),
        ("nowhere:plan_transfer", "nowhere:plan_transfer cannot be imported: ModuleNotFoundError*"),
        ("faulty:MUTANTS=plan_transfer", "faulty:MUTANTS must be a function, got [[]*"),
        ("planner:plan_transfer=plan_to_dict", "no mutant changes plan_to_dict alone"),
    ],
)
def test_a_function_that_cannot_be_mutated_is_refused(folder, target, text):
    result = folder.runpytest_subprocess("-p", "few", f"--affine-mutate={target}")
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"ERROR: --affine-mutate: {text}"])
