import hashlib
import json
import shutil
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

import pytest_affine
from pytest_affine.certificate import digests
from pytest_affine.certificate.digests import digest_of, file_digest, suite_digest
from pytest_affine.certificate.provenance import device_names, subject_of
from pytest_affine.certificate.shape import DocumentError

FACTS = {"claims": {}, "version": "1.0", "withholds": False}


@pytest.fixture
def facts(tmp_path, monkeypatch):
    """Facts of a class that is defined in the file `adapter.py` of a folder."""
    path = tmp_path / "adapter.py"
    path.write_text("class Mine: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    return {**FACTS, "file": str(path), "module": "adapter", "distribution": ""}


def install(folder, name, files, *, editable=None):
    """A distribution as pip leaves one: its files, RECORD and METADATA."""
    info = folder / f"{name}-2.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.1\n")
    rows = [f"{name}-2.1.dist-info/RECORD,,", f"{name}-2.1.dist-info/METADATA,sha256=zzz,60"]
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
        rows.append(f"{path},sha256=recorded,{len(text)}")
    (info / "RECORD").write_text("\n".join(rows) + "\n")
    if editable is not None:
        origin = {"url": Path(editable).as_uri(), "dir_info": {"editable": True}}
        (info / "direct_url.json").write_text(json.dumps(origin))


def test_a_digest_is_of_the_value_and_not_of_its_spelling():
    wanted = hashlib.sha256(b'{"a":[1],"b":"\\u00f6"}').hexdigest()
    assert digest_of({"b": "ö", "a": [1]}) == f"sha256:{wanted}"


def test_a_lone_file_is_named_with_its_digest_and_has_no_package(facts):
    subject = subject_of("adapter:Mine", facts)
    assert (subject.name, subject.version, subject.adapter_file) == (
        "adapter:Mine",
        "1.0",
        "adapter.py",
    )
    assert subject.adapter_digest == file_digest(Path(facts["file"]))
    assert subject.distribution is None


def test_a_class_without_a_file_has_no_digest():
    subject = subject_of("m:C", {**FACTS, "file": "", "module": "m", "distribution": ""})
    assert (subject.adapter_file, subject.adapter_digest, subject.distribution) == ("", None, None)


def test_the_package_that_an_installed_adapter_is_in_is_found(facts, tmp_path):
    install(tmp_path, "mine", {"adapter.py": "class Mine: pass\n"})
    behind = subject_of("adapter:Mine", facts).distribution
    assert (behind.name, behind.version) == ("mine", "2.1")


def test_the_package_that_the_class_names_counts_before_the_one_that_it_is_in(facts, tmp_path):
    install(tmp_path, "mine", {"adapter.py": ""})
    install(tmp_path, "theirs", {"theirs.py": ""})
    behind = subject_of("adapter:Mine", {**facts, "distribution": "theirs"}).distribution
    assert behind.name == "theirs"


def test_a_package_that_the_class_names_and_that_is_not_installed_is_refused(facts):
    message = "the implementation's class says distribution = 'nowhere', which is not installed"
    with pytest.raises(DocumentError, match=message):
        subject_of("adapter:Mine", {**facts, "distribution": "nowhere"})


def package_digest(facts):
    return subject_of("adapter:Mine", {**facts, "distribution": "theirs"}).distribution.digest


def test_the_digest_of_a_package_is_of_its_python_files_as_they_are(facts, tmp_path):
    install(tmp_path, "theirs", {"theirs/a.py": "1", "theirs/b.so": "2", "../bin/run": "#!/x"})
    wanted = [
        ("theirs/a.py", file_digest(tmp_path / "theirs/a.py")),
        ("theirs/b.so", "sha256=recorded"),
    ]
    assert package_digest(facts) == digest_of(wanted)
    (tmp_path / "theirs/a.py").write_text("patched")
    assert package_digest(facts) != digest_of(wanted)


def test_a_package_of_which_nothing_is_recorded_has_no_digest(facts, tmp_path):
    install(tmp_path, "theirs", {})
    (tmp_path / "theirs-2.1.dist-info" / "RECORD").unlink()
    assert package_digest(facts) is None


def test_the_digest_of_an_editable_package_is_of_its_source_folder(facts, tmp_path):
    source = tmp_path / "checkout"
    for path in ("theirs/a.py", "theirs/b.txt", ".git/hook.py", "env/lib/c.py"):
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(path)
    (source / "env" / "pyvenv.cfg").touch()
    install(tmp_path, "theirs", {"theirs.pth": "checkout"}, editable=source)
    assert package_digest(facts) == digest_of(
        [("theirs/a.py", file_digest(source / "theirs/a.py"))]
    )


def test_an_editable_package_is_found_by_the_folder_around_its_adapter(facts, tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    install(site, "mine", {"mine.pth": "x"}, editable=tmp_path)
    sys.path.append(str(site))
    try:
        assert subject_of("adapter:Mine", facts).distribution.name == "mine"
    finally:
        sys.path.remove(str(site))


def test_the_digest_of_the_suite_changes_with_what_decides_and_with_nothing_else(
    tmp_path, monkeypatch
):
    package = Path(pytest_affine.__file__).parent
    copy = tmp_path / "pytest_affine"
    for name in (*digests.DECIDING, "reference"):
        # The suite and its cases are links in a checkout.
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree((package / name).resolve(), copy / name, ignore=ignored)
    installed = suite_digest()
    monkeypatch.setattr(digests, "__file__", str(copy / "certificate" / "digests.py"))
    assert suite_digest() == installed
    (copy / "reference" / "planner.py").write_text("")
    (copy / "truth" / "notes.txt").write_text("")
    assert suite_digest() == installed
    (copy / "truth" / "blocks.py").write_text("")
    assert suite_digest() != installed


def test_on_gloo_the_device_is_the_cpu():
    assert device_names("gloo") == ("cpu",)


def test_the_subject_of_the_reference_is_this_package():
    path = Path(pytest_affine.__file__).parent / "adapters" / "reference.py"
    module = "pytest_affine.adapters.reference"
    facts = {**FACTS, "file": str(path), "module": module, "distribution": ""}
    behind = subject_of("reference", facts).distribution
    assert replace(behind, digest=None) == type(behind)(
        "pytest-affine", metadata.version("pytest-affine"), None
    )
    assert behind.digest.startswith("sha256:")
