"""No name that only some systems have is used without its guard."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "penstock"
FILES = sorted(SOURCE.rglob("*.py"))

# What Linux has and macOS (with some Python that we support) has not, and the name that a guard may ask for.
WAITING = "waitid P_PID P_PGID WEXITED WNOWAIT CLD_EXITED CLD_KILLED".split()
RARE = {
    **{("os", name): "waitid" for name in WAITING},  # on macOS since Python 3.13
    **{
        (module, name): name
        for module, names in {
            "os": """pidfd_open pipe2 sched_getaffinity sched_setaffinity memfd_create eventfd splice O_PATH
                O_TMPFILE O_DIRECT posix_fadvise posix_fallocate copy_file_range getrandom unshare setns
                getresuid sendfile preadv pwritev""",
            "fcntl": "F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS F_NOTIFY F_OFD_SETLK",
            "select": "epoll kqueue EPOLLIN EPOLLOUT",
            "signal": "SIGPWR SIGRTMIN SIGRTMAX SIGSTKFLT SIGPOLL sigwaitinfo sigtimedwait",
            "socket": """SO_PEERCRED SO_BINDTODEVICE SO_REUSEPORT TCP_USER_TIMEOUT TCP_QUICKACK TCP_CORK
                TCP_DEFER_ACCEPT TCP_FASTOPEN TCP_KEEPIDLE SOCK_NONBLOCK SOCK_CLOEXEC AF_NETLINK""",
            "resource": "prlimit RLIMIT_MSGQUEUE",
        }.items()
        for name in names.split()
    },
}
# Modules that are loaded only where a name is there; who may load them asks for it first.
BEHIND_GUARDS = {"net/poll_loop.py": "net/loop.py"}
RARE_TEXTS = ("/proc/", "/sys/", "libc.so")

# What Windows has not. Only what is loaded after platforms.refuse_unfit_system may use these freely.
POSIX_MODULES = set("fcntl termios pwd grp resource pty tty syslog".split())
POSIX = {
    (module, name)
    for module, names in {
        "os": """killpg setsid setpgid getpgid fork set_blocking writev readv getuid geteuid getppid
            O_NONBLOCK O_CLOEXEC mkfifo chown fchmod uname register_at_fork""",
        "signal": "SIGHUP SIGKILL SIGUSR1 SIGUSR2 SIGCHLD SIGALRM SIGPIPE alarm",
        "select": "poll PIPE_BUF",
        "socket": "AF_UNIX",
    }.items()
    for name in names.split()
}
POSIX_METHODS = {"add_signal_handler", "add_reader", "add_writer"}
POSIX_OPTIONS = {"process_group", "start_new_session", "preexec_fn", "pass_fds"}
POSIX_TEXTS = ("/bin/sh", "/dev/")


def _guarded(
    tree: ast.AST, inherited: frozenset[str] = frozenset()
) -> Iterator[tuple[ast.AST, frozenset[str]]]:
    """Every node, with the names that guards around it have asked for; `linux` where the system was asked."""
    for field, value in ast.iter_fields(tree):
        guards = inherited
        if isinstance(tree, ast.If) and field == "body":
            guards |= _asked(tree.test)
        if isinstance(tree, ast.Try) and field == "body" and _catches_missing_names(tree):
            guards |= {"any"}
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST):
                yield node, guards
                yield from _guarded(node, guards)


def _asked(test: ast.expr) -> frozenset[str]:
    names = set()
    for part in [
        test,
        *(test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else []),
    ]:
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "hasattr":
            name = part.args[1]
            assert isinstance(name, ast.Constant)
            names.add(str(name.value))
        if isinstance(part, ast.Compare) and ast.unparse(part) == "sys.platform == 'linux'":
            names.add("linux")
    return frozenset(names)


def _catches_missing_names(tree: ast.Try) -> bool:
    return any(
        handler.type is not None and "AttributeError" in ast.unparse(handler.type)
        for handler in tree.handlers
    )


def _faults(source: str, is_before_refusal: bool) -> list[str]:
    faults = []
    for node, guards in _guarded(ast.parse(source)):
        for name, guard in _rare_names(node):
            if not guards & {guard, "linux", "any"}:
                faults.append(f"{name} without a guard")
        if is_before_refusal:
            faults += [name for name, guard in _posix_names(node) if not guards & {guard, "linux", "any"}]
    return faults


def _rare_names(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        guard = RARE.get((node.value.id, node.attr))
        if guard is not None:
            yield f"{node.value.id}.{node.attr}", guard
    if isinstance(node, ast.ImportFrom):
        for alias in node.names:
            if (node.module, alias.name) in RARE:
                yield f"{node.module}.{alias.name}", ""
    if isinstance(node, ast.Import) and any(alias.name == "ctypes" for alias in node.names):
        yield "ctypes", ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(RARE_TEXTS):
        yield node.value, "linux"


def _posix_names(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and (node.value.id, node.attr) in POSIX:
            yield f"{node.value.id}.{node.attr}", node.attr
        if node.attr in POSIX_METHODS:
            yield node.attr, node.attr
    if isinstance(node, ast.Import):
        yield from ((alias.name, "") for alias in node.names if alias.name in POSIX_MODULES)
    if isinstance(node, ast.ImportFrom) and node.module in POSIX_MODULES:
        yield node.module, ""
    if isinstance(node, ast.keyword) and node.arg in POSIX_OPTIONS:
        yield node.arg, ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(POSIX_TEXTS):
        yield node.value, ""


def _loaded_before_refusal() -> set[Path]:
    """The files behind `penstock --help`, `check` and `rules`, and all of the way to the refusal."""
    found: set[Path] = set()
    waiting = [SOURCE / "cli.py", SOURCE / "commands" / "check.py", SOURCE / "commands" / "rules.py"]
    while waiting:
        path = waiting.pop()
        if path in found or not path.exists():
            continue
        found.add(path)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("penstock"):
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                # The one door that stands behind the refusal.
                waiting += [_path(name) for name in names if (path.name, name) != ("cli.py", "penstock.app")]
    return found


def _path(module: str) -> Path:
    return SOURCE.parent.joinpath(*module.split(".")).with_suffix(".py")


EARLY = _loaded_before_refusal()


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(SOURCE)) for path in FILES])
def test_names_of_some_systems_have_their_guards(path: Path) -> None:
    if str(path.relative_to(SOURCE)) not in BEHIND_GUARDS:
        assert _faults(path.read_text(), path in EARLY) == []


@pytest.mark.parametrize(("guarded", "loader"), BEHIND_GUARDS.items())
def test_what_is_behind_a_guard_is_loaded_by_nobody_else(guarded: str, loader: str) -> None:
    module = "penstock." + guarded.removesuffix(".py").replace("/", ".")
    loading = [str(path.relative_to(SOURCE)) for path in FILES if f"from {module} import" in path.read_text()]
    # For a type checker anybody may name it.
    assert [name for name in loading if name != "net/socket_transport.py"] == [loader]
    assert 'hasattr(select, "epoll")' in (SOURCE / loader).read_text()


def test_the_parts_that_need_no_system_are_known() -> None:
    names = {str(path.relative_to(SOURCE)) for path in EARLY}
    assert {"cli.py", "logs.py", "commands/check.py", "commands/rules.py", "policy/rules/rules.py"} <= names
    assert not {name for name in names if name.startswith(("net/", "upstream/", "downstream/"))}


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.pidfd_open(1)",
        "import os\nif not hasattr(os, 'pidfd_open'):\n    os.pidfd_open(1)",
        "import os\nif hasattr(os, 'pidfd_open'):\n    pass\nelse:\n    os.pidfd_open(1)",
        "import os\nif x or hasattr(os, 'pidfd_open'):\n    os.pidfd_open(1)",
        "import os\ntry:\n    os.pidfd_open(1)\nexcept OSError:\n    pass",
        "import fcntl\nfcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 2)",
        "import os\nos.waitid(os.P_PID, 1, 2)",
        "from os import pidfd_open",
        "open('/proc/self/fd/1')",
        "open(f'/proc/self/fd/{x}')",
        "import ctypes",
    ],
)
def test_a_rare_name_without_its_guard_is_seen(source: str) -> None:
    assert _faults(source, False)


@pytest.mark.parametrize(
    "source",
    [
        "import os\nif hasattr(os, 'pidfd_open'):\n    os.pidfd_open(1)",
        "import os\nif x and hasattr(os, 'waitid'):\n    os.waitid(os.P_PID, 1, os.WEXITED)",
        "import fcntl\ntry:\n    fcntl.F_SETPIPE_SZ\nexcept (AttributeError, OSError):\n    pass",
        "import sys\nif sys.platform == 'linux':\n    open('/proc/self/fd/1')",
        "import os, fcntl\nos.killpg(1, 2)",
    ],
)
def test_a_guard_is_a_guard(source: str) -> None:
    assert _faults(source, False) == []


@pytest.mark.parametrize(
    "source",
    [
        "import fcntl",
        "import os\nos.killpg(1, 2)",
        "import signal\nsignal.SIGHUP",
        "loop.add_reader(1, x)",
        "Popen([], process_group=0)",
        "Popen(['/bin/sh'])",
        "import select\nselect.poll()",
    ],
)
def test_a_posix_name_before_the_refusal_is_seen(source: str) -> None:
    assert _faults(source, True)
