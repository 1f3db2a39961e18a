"""Where compiled functions are kept: the user's cache folder, unless the environment says otherwise."""

import os
import pwd
import subprocess
import sys
from types import SimpleNamespace

import pytest

from connections import _cache_folder, _jax

PROGRAM = "import connections, jax; print(jax.config.jax_compilation_cache_dir)"
RUN = """
import jax.numpy as jnp, numpy as np, connections as cn
metric = cn.MatrixMetric(cn.CoordinateFrame(3), lambda q: jnp.diag(2.0 + jnp.sin(q)))
print(float(cn.LeviCivita(metric).curvature(np.ones(3)).sum()))
"""


def test_another_system_is_refused_at_once():
    done = subprocess.run(
        [sys.executable, "-c", "import os; os.name = 'nt'; import connections"],
        capture_output=True,
        text=True,
    )
    assert "ImportError: connections runs on Linux and macOS" in done.stderr


def test_the_warning_of_float32_is_about_the_users_line(tmp_path):
    (tmp_path / "users.py").write_text("import math\nimport connections\n")
    kept = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    words = [sys.executable, "users.py"]
    done = subprocess.run(
        words, cwd=tmp_path, env=kept | {"JAX_ENABLE_X64": "0"}, capture_output=True, text=True
    )
    assert f"{tmp_path}/users.py:2: UserWarning: JAX_ENABLE_X64" in done.stderr


def printed(program, **environment):
    """What a new process prints, with an environment of its own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XDG_"))}
    done = subprocess.run(
        [sys.executable, "-c", program], env=kept | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.further
def test_folders(tmp_path):
    ours, _ = printed(PROGRAM, XDG_CACHE_HOME=str(tmp_path))
    assert ours.startswith(str(tmp_path / "connections" / "jax-"))
    theirs = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "other")}
    assert printed(PROGRAM, XDG_CACHE_HOME=str(tmp_path), **theirs)[0] == str(tmp_path / "other")
    assert printed(PROGRAM, XDG_CACHE_HOME=str(tmp_path), JAX_ENABLE_COMPILATION_CACHE="false")[0] == "None"
    file = tmp_path / "file"
    file.touch()
    assert printed(PROGRAM, XDG_CACHE_HOME=str(file))[0] == "None"
    for variables in ({"XDG_CACHE_HOME": "relative"}, {"XDG_CACHE_HOME": ""}):
        assert printed(PROGRAM, HOME=str(tmp_path), **variables)[0].startswith(
            f"{tmp_path}/.cache/connections/"
        )


@pytest.mark.further
def test_importing_says_what_it_sets_and_leaves_what_the_user_has_set(tmp_path):
    """`jax.numpy` has the type; a logger the words; with float64 off in the environment, a warning."""
    program = "import logging; logging.basicConfig(level='INFO'); import connections; "
    program += "import jax.numpy as jnp; print(jnp.zeros(1).dtype)"
    dtype, said = printed(program, XDG_CACHE_HOME=str(tmp_path))
    assert dtype == "float64" and f"float64; compiled functions are kept in {tmp_path}" in said
    dtype, said = printed(program, JAX_ENABLE_X64="0", JAX_ENABLE_COMPILATION_CACHE="false")
    assert dtype == "float32" and "JAX_ENABLE_X64 is off" in said and "memory only" in said
    assert printed("import connections", XDG_CACHE_HOME=str(tmp_path)) == ("", "")
    started = "import connections; from jax._src import xla_bridge; print(bool(xla_bridge._backends))"
    assert printed(started, XDG_CACHE_HOME=str(tmp_path))[0] == "False"  # a program may still fork, or choose


@pytest.mark.further
def test_two_processes_at_once(tmp_path):
    """Same numbers, and what one has compiled the other reads."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    environment["XDG_CACHE_HOME"] = str(tmp_path)
    environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"  # however fast the machine is
    both = [
        subprocess.Popen([sys.executable, "-c", RUN], env=environment, stdout=-1, stderr=-1) for _ in range(2)
    ]
    results = [process.communicate()[0] for process in both]
    assert all(process.returncode == 0 for process in both) and results[0] == results[1] != b""
    assert any(tmp_path.rglob("*-cache"))
    assert printed(RUN, XDG_CACHE_HOME=str(tmp_path)) == (results[0].decode().strip(), "")


def test_oldest_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(_cache_folder, "MOST_BYTES", 1000)
    for number in range(12):
        path = tmp_path / f"{number:02d}-cache"
        path.write_bytes(b"x" * 100)
        os.utime(path, (number, number))
    _cache_folder.remove_oldest(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{n:02d}-cache" for n in range(7, 12)]
    _cache_folder.remove_oldest(tmp_path)
    assert len(list(tmp_path.iterdir())) == 5
    _cache_folder.remove_oldest(tmp_path / "absent")


def test_no_home(monkeypatch):
    def unknown(number):
        raise KeyError(number)

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert _jax.compiled_folder() is None


@pytest.mark.parametrize("home", ["", "relative", ".", None])
@pytest.mark.parametrize("caches", ["", "relative", "./cache", None])
def test_relative_folders_are_ignored(home, caches, tmp_path, monkeypatch):
    """A relative one would be another folder for each current folder, and that of HOME="" is at the root."""
    theirs = tmp_path / "home"
    theirs.mkdir()
    monkeypatch.chdir(tmp_path)
    for name, path in (("HOME", home), ("XDG_CACHE_HOME", caches)):
        monkeypatch.delenv(name, raising=False) if path is None else monkeypatch.setenv(name, path)
    user = SimpleNamespace(pw_dir=str(theirs))
    monkeypatch.setattr(pwd, "getpwuid", lambda number: user)
    assert _cache_folder.cache_folder("x") == theirs / ".cache" / "connections" / "x"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _cache_folder.cache_folder("x") == tmp_path / ".cache" / "connections" / "x"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".cache", "home"]


@pytest.mark.parametrize("folder", ["/proc", "/dev/null/below"])
def test_folders_that_cannot_be_written(folder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", folder)
    assert _jax.compiled_folder() is None
