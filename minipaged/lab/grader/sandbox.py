"""What this operating system gives to hold a learner's code: tried layer by layer, and said in every result.

`prepare` runs as the grader's user and makes the namespaces and the small root folder; after the fork `restrict`
gives everything up for good. Each layer that works is added to a list of names; `summary` turns that list into
one line a guarantee. A layer that is refused is left out and so makes its line weaker: nothing is silent.
"""
from __future__ import annotations

import os
import sys

BOX = "/box"                   # the only folder that can be written, inside the small root
BOX_OPTIONS = "size=64m,nr_inodes=4096,mode=755"
FIRST_UID = 1_000_000_000      # a user that owns nothing and is nobody else's
OTHER_MEMORY = 768 * 1024 * 1024
OWN_TASKS = 48                 # processes and threads of an answer that runs as a user of its own
SPARE_TASKS = 256              # of one that runs as the person who grades, beyond those that this person has
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")

#: guarantee -> the layers that give it; one of them is enough
GUARANTEES = {
    "files": ("small root", "landlock"),
    "network": ("network namespace", "system call filter"),
    "processes": ("process namespace", "system call filter"),
    "user": ("own user", "user namespace"),
    "limits": ("limits",),
}


def summary(layers: list[str]) -> dict[str, str]:
    """Guarantee -> "kept by ..." or "not kept"; the key "level" is "full" or "weaker: ..."."""
    kept = {name: [layer for layer in needed if layer in layers] for name, needed in GUARANTEES.items()}
    missing = [name for name, by in kept.items() if not by]
    return {"level": f"weaker: nothing here guards {', '.join(missing)}" if missing else "full",
            **{name: f"kept by {' and '.join(by)}" if by else "not kept" for name, by in kept.items()}}


def visible(roots: list[str], hidden: list[str]) -> list[str]:
    """The roots, with those that contain a hidden path replaced by their other entries."""
    found = []
    for root in roots:
        root = os.path.realpath(root)
        if root in hidden:
            continue
        if os.path.isdir(root) and any(path.startswith(root.rstrip("/") + "/") for path in hidden):
            found += visible([os.path.join(root, name) for name in sorted(os.listdir(root))
                              if not os.path.islink(os.path.join(root, name))], hidden)
        else:
            found.append(root)
    return found


def prepare(roots: list[str], hidden: list[str], root_folder: str, namespaces: bool) -> list[str]:
    """Make what namespaces this system gives and build the small root in `root_folder`. The layers that work."""
    layers: list[str] = []
    if not sys.platform.startswith("linux"):
        return layers
    from linux import (
        CLONE_NEWIPC,
        CLONE_NEWNET,
        CLONE_NEWNS,
        CLONE_NEWPID,
        CLONE_NEWUSER,
        become_subreaper,
        unshare,
    )

    become_subreaper()
    if not namespaces:
        return layers
    uid, gid = os.getuid(), os.getgid()
    if uid != 0:
        try:
            unshare(CLONE_NEWUSER)
            for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
                with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                    file.write(text)
            layers.append("user namespace")
        except OSError:
            return layers
    for name, flag in (("mounts", CLONE_NEWNS), ("process namespace", CLONE_NEWPID), ("ipc", CLONE_NEWIPC),
                       ("network namespace", CLONE_NEWNET)):
        try:
            unshare(flag)
            layers.append(name)
        except OSError:
            continue
    if "mounts" in layers:
        layers.remove("mounts")
        try:
            _small_root(root_folder, roots, hidden)
            layers.append("small root")
        except OSError:
            pass  # the list says it
    return [layer for layer in layers if layer != "ipc"]


def _small_root(folder: str, roots: list[str], hidden: list[str]) -> None:
    """A root of its own in memory: the roots read-only at their places, four devices and an empty box."""
    from linux import MS_NODEV, MS_NOSUID, MS_PRIVATE, MS_REC, bind_read_only, mount

    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("tmpfs", folder, "tmpfs", MS_NOSUID, BOX_OPTIONS)
    for path in [*roots, *DEVICES]:
        target = folder + path
        if os.path.isdir(path):
            os.makedirs(target, exist_ok=True)
            bind_read_only(path, target)
        elif os.path.exists(path):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            open(target, "w", encoding="ascii").close()
            bind_read_only(path, target)
    for path in hidden:
        if os.path.isdir(folder + path):
            mount("tmpfs", folder + path, "tmpfs", MS_NOSUID | MS_NODEV, "size=4k,mode=755")
        elif os.path.exists(folder + path):
            bind_read_only("/dev/null", folder + path)
    os.mkdir(folder + BOX, 0o755)


def restrict(layers: list[str], roots: list[str], hidden: list[str], root_folder: str, limits: dict) -> list[str]:
    """In the process that will run a learner's code, just before it does: give up every right. All layers kept."""
    layers = list(layers)
    linux = sys.platform.startswith("linux")
    user = FIRST_UID + int(limits["slot"]) if os.name == "posix" and os.getuid() == 0 else None
    tasks = OWN_TASKS if user is not None else _tasks() + SPARE_TASKS
    if "small root" in layers:
        if user is not None:
            os.chown(root_folder + BOX, user, user)
        os.chroot(root_folder)
        os.chdir(BOX)
    elif os.name == "posix":
        os.chdir(root_folder)
    if _set_limits(limits, tasks):
        layers.append("limits")
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        layers.append("own user")
    if not linux:
        return layers
    import linux as calls

    if user is None and "user namespace" in layers:
        calls.drop_capabilities()
    calls.no_new_privileges()
    writable = ["/dev/null", *([BOX] if "small root" in layers else [root_folder] if limits["processes"] else [])]
    readable = [*visible(roots, hidden), *DEVICES, *([] if "small root" in layers else [root_folder])]
    for layer, give_up in (("landlock", lambda: calls.landlock(readable, writable)),
                           ("system call filter", lambda: calls.seccomp(limits["processes"]))):
        try:
            give_up()
            layers.append(layer)
        except OSError:
            continue
    return layers


def _tasks() -> int:
    """Threads that this user has now, as Linux counts them against the limit: those of every process."""
    count, mark = 0, f"\nUid:\t{os.getuid() if os.name == 'posix' else 0}\t"
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        try:
            with open(f"/proc/{name}/status", encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue  # no process, or one that has just ended
        if mark in text:
            count += int(text.partition("\nThreads:\t")[2].partition("\n")[0] or 0)
    return count


def _set_limits(limits: dict, tasks: int) -> bool:
    """CPU seconds, memory, file size, processes, open files, no core file. False where there is no such thing."""
    try:
        import resource
    except ImportError:
        return False
    wanted = {"RLIMIT_CPU": limits["cpu"], "RLIMIT_AS": _memory_now() + OTHER_MEMORY, "RLIMIT_CORE": 0,
              "RLIMIT_FSIZE": 16 * 1024 * 1024, "RLIMIT_NOFILE": 64, "RLIMIT_NPROC": tasks, "RLIMIT_MSGQUEUE": 0}
    if limits["processes"]:
        wanted.pop("RLIMIT_AS")  # the race checker of g++ reserves terabytes; the nurse looks at what is really used
    if not sys.platform.startswith("linux"):
        wanted.pop("RLIMIT_NPROC")  # it counts all of the person who grades, and who knows how many these are
    every = True
    for name, value in wanted.items():
        if hasattr(resource, name):
            _, hard = resource.getrlimit(getattr(resource, name))
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            try:
                resource.setrlimit(getattr(resource, name), (value, value))
            except (OSError, ValueError):
                every = False
    return every


def _memory_now() -> int:
    """Bytes of address space that this process has before the learner's code comes."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 1024 ** 3


def close_all_but(kept: set[int]) -> None:
    """Close every open file of this process but the first three and these."""
    edges = [2, *sorted(kept), 1 << 16]
    for before, after in zip(edges, edges[1:]):
        os.closerange(before + 1, after)
