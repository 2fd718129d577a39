"""The few Linux calls that Python's standard library has no name for: namespaces, mounts, Landlock, seccomp.

Each function either does what it says or raises OSError; what to use when is decided in sandbox.py. Numbers and
structures are those of the kernel's user headers (linux/landlock.h, linux/seccomp.h, linux/filter.h).
"""
from __future__ import annotations

import ctypes
import os
import platform
import struct

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = (
    0x00020000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
_PR_SET_NO_NEW_PRIVS, _PR_SET_CHILD_SUBREAPER, _PR_SET_SECCOMP = 38, 36, 22

# Landlock: rights to files by version of the interface, then the right names of sandbox.py
_FS_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1, 2, 4, 8, 1 << 14
_O_PATH = 0o10000000

_libc = None


def _call(name: str, *arguments) -> int:
    global _libc
    if _libc is None:
        _libc = ctypes.CDLL(None, use_errno=True)
    converted = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = getattr(_libc, name)(*converted)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    _call("unshare", flags)


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    _call("mount", source.encode(), os.fsencode(target), kind and kind.encode(), flags, options and options.encode())


def bind_read_only(source: str, target: str) -> None:
    """Show `source` at `target`, without a right to change it."""
    mount(source, target, None, MS_BIND | MS_REC)
    mount("none", target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID)


def become_subreaper() -> None:
    """Orphans of this process's descendants become its children, whatever session they are in."""
    _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def no_new_privileges() -> None:
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def drop_capabilities() -> None:
    header = ctypes.create_string_buffer(struct.pack("<Ii", 0x20080522, 0))
    _call("capset", header, ctypes.create_string_buffer(24))


def landlock(readable: list[str], writable: list[str]) -> int:
    """Allow reading `readable`, and writing too in `writable`: no other file opens. The interface's version.

    From version 4 TCP is closed as well, from version 6 signals and abstract sockets of other processes.
    """
    syscall = _call
    version = syscall("syscall", 444, None, 0, 1)
    rights = _FS_RIGHTS[min(version, 5)]
    ruleset = struct.pack("<QQQ", rights, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    ruleset = ruleset[:8 if version < 4 else 16 if version < 6 else 24]
    handle = syscall("syscall", 444, ctypes.create_string_buffer(ruleset, len(ruleset)), len(ruleset), 0)
    try:
        for paths, allowed in ((readable, _EXECUTE | _READ_FILE | _READ_DIR), (writable, rights)):
            for path in paths:
                _allow(handle, path, allowed & rights)
        syscall("syscall", 446, handle, 0)
    finally:
        os.close(handle)
    return version


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        handle = os.open(path, _O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not here needs no right
    try:
        if not os.path.isdir(path):
            rights &= _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
        rule = struct.pack("<Qi", rights, handle)
        _call("syscall", 445, ruleset, 1, ctypes.create_string_buffer(rule, len(rule)), 0)
    finally:
        os.close(handle)


# seccomp: the numbers of the calls that a learner's code never needs, for the two machines that we know.
_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_DENIED = {
    "x86_64": {"socket": 41, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
               "pidfd_open": 434, "pidfd_getfd": 438, "pidfd_send_signal": 424, "unshare": 272, "setns": 308,
               "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "bpf": 321, "perf_event_open": 298,
               "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426, "keyctl": 250, "add_key": 248,
               "request_key": 249, "name_to_handle_at": 303, "open_by_handle_at": 304, "rt_sigqueueinfo": 129,
               "rt_tgsigqueueinfo": 297, "tkill": 200, "mq_open": 240, "shmget": 29,
               "semget": 64, "msgget": 68, "fanotify_init": 300, "setsid": 112, "memfd_create": 319,
               "memfd_secret": 447},
    "aarch64": {"socket": 198, "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
                "pidfd_open": 434, "pidfd_getfd": 438, "pidfd_send_signal": 424, "unshare": 97, "setns": 268,
                "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "bpf": 280, "perf_event_open": 241,
                "userfaultfd": 282, "io_uring_setup": 425, "io_uring_enter": 426, "keyctl": 219, "add_key": 217,
                "request_key": 218, "name_to_handle_at": 264, "open_by_handle_at": 265, "rt_sigqueueinfo": 138,
                "rt_tgsigqueueinfo": 240, "tkill": 130, "mq_open": 180, "shmget": 194,
                "semget": 190, "msgget": 186, "fanotify_init": 262, "setsid": 157, "memfd_create": 279,
                "memfd_secret": 447},
}
_KILL = {"x86_64": (62, 234), "aarch64": (129, 131)}  # kill, tgkill: at this process only
_CLONE = {"x86_64": 56, "aarch64": 220}               # threads only
_START = {"x86_64": (57, 58, 59, 322, 135), "aarch64": (221, 281, 92)}  # fork, vfork, execve, execveat, personality
# modes, owners, times and attributes of files: Landlock leaves them to the user's rights
_MODES = {"x86_64": (90, 91, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 260, 261, 268, 280, 452),
          "aarch64": (5, 6, 7, 14, 15, 16, 52, 53, 54, 55, 88, 452)}
_CLONE3, _CLONE_THREAD = 435, 0x00010000
_EPERM, _ENOSYS = 1, 38
_RET_ERRNO, _RET_ALLOW, _RET_KILL = 0x00050000, 0x7FFF0000, 0x80000000


def seccomp(allow_processes: bool) -> None:
    """Refuse sockets, tracing, mounts, signals to others; unless processes are allowed (a compiler needs them and
    changes modes), also new ones and changes of modes and owners. Cannot be undone."""
    machine = platform.machine()
    if machine not in _ARCH:
        raise OSError(_ENOSYS, f"no system call filter for {machine}")
    load, jump_equal, jump_set, jump_above, give_back = 0x20, 0x15, 0x45, 0x35, 0x06
    program = [(load, 0, 0, 4), (jump_equal, 1, 0, _ARCH[machine]), (give_back, 0, 0, _RET_KILL), (load, 0, 0, 0)]
    if machine == "x86_64":  # the same calls under their x32 numbers
        program += [(jump_above, 0, 1, 0x40000000), (give_back, 0, 0, _RET_ERRNO | _ENOSYS)]
    denied = sorted(_DENIED[machine].values()) + ([] if allow_processes else [*_START[machine], *_MODES[machine]])
    for number in denied:
        program += [(jump_equal, 0, 1, number), (give_back, 0, 0, _RET_ERRNO | _EPERM)]
    for number in _KILL[machine]:
        program += [(jump_equal, 0, 4, number), (load, 0, 0, 16), (jump_equal, 1, 0, os.getpid()),
                    (give_back, 0, 0, _RET_ERRNO | _EPERM), (give_back, 0, 0, _RET_ALLOW)]
    if not allow_processes:
        program += [(jump_equal, 0, 1, _CLONE3), (give_back, 0, 0, _RET_ERRNO | _ENOSYS),
                    (jump_equal, 0, 3, _CLONE[machine]), (load, 0, 0, 16), (jump_set, 1, 0, _CLONE_THREAD),
                    (give_back, 0, 0, _RET_ERRNO | _EPERM)]
    program.append((give_back, 0, 0, _RET_ALLOW))
    code = b"".join(struct.pack("<HBBI", *line) for line in program)
    held = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(struct.pack("@HxxxxxxP", len(program), ctypes.addressof(held)))
    _call("prctl", _PR_SET_SECCOMP, 2, header, 0, 0)
