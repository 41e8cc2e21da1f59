"""What the Linux kernel offers for watching another process, called directly: ptrace, seccomp filters, /proc.

Knows nothing of homes, events or faults.
"""

import ctypes
import os
import platform
import signal
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

CALLS: Mapping[str, Mapping[str, int]] = {
    "x86_64": {
        **{"write": 1, "open": 2, "mmap": 9, "pwrite64": 18, "writev": 20, "sendfile": 40, "socket": 41, "accept": 43},
        **{"fsync": 74, "fdatasync": 75, "truncate": 76, "ftruncate": 77, "rename": 82, "mkdir": 83, "rmdir": 84},
        **{"creat": 85, "link": 86, "unlink": 87, "symlink": 88, "openat": 257, "mkdirat": 258, "unlinkat": 263},
        **{"renameat": 264, "linkat": 265, "symlinkat": 266, "fallocate": 285, "accept4": 288, "pwritev": 296},
        **{"syncfs": 306, "renameat2": 316, "copy_file_range": 326, "pwritev2": 328, "openat2": 437},
    },
    "aarch64": {
        **{"mkdirat": 34, "unlinkat": 35, "symlinkat": 36, "linkat": 37, "renameat": 38, "truncate": 45},
        **{"ftruncate": 46, "fallocate": 47, "openat": 56, "write": 64, "writev": 66, "pwrite64": 68, "pwritev": 70},
        **{"sendfile": 71, "fsync": 82, "fdatasync": 83, "socket": 198, "accept": 202, "mmap": 222, "accept4": 242},
        **{"syncfs": 267, "renameat2": 276, "copy_file_range": 285, "pwritev2": 287, "openat2": 437},
    },
}
"""The numbers of the calls that write, by machine; asm/unistd.h."""

MACHINE = platform.machine()
NAMES = {number: name for name, number in CALLS.get(MACHINE, {}).items()}
AT_FDCWD = -100
EVERY_CHILD = 0x40000000  # __WALL: threads and processes alike

_AUDITED = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SEIZE, _CONT, _SYSCALL, _LISTEN, _GETREGSET, _SETREGSET, _INFO = 0x4206, 7, 24, 0x4208, 0x4204, 0x4205, 0x420E
_FOLLOW = 1 | 2 | 4 | 8 | 0x80 | 0x100000  # TRACESYSGOOD, FORK, VFORK, CLONE, SECCOMP, EXITKILL
_NO_NEW_PRIVS, _SECCOMP, _FILTER = 38, 22, 2
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_TRACE, _ALLOW = 0x7FF00000, 0x7FFF0000
_INFO_SIZE, _ARGUMENTS_AT, _ENTERS, _LEAVES = 88, 24, 3, 2

NEW_CHILD, AT_CALL, GROUP = (1, 2, 3), 7, 128
"""What a stop is about: PTRACE_EVENT_FORK, _VFORK, _CLONE; _SECCOMP; _STOP."""

Test = tuple[int, int, bool]
"""The number of an argument, a mask, and whether one of these bits must be set, or none."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 4]


@dataclass(frozen=True, slots=True)
class Stop:
    """A thread stands still: on its way into a call, out of it, for a signal, or for something else."""

    thread: int
    why: int
    signal: int

    @property
    def leaves_a_call(self) -> bool:
        return self.signal == signal.SIGTRAP | 0x80


def missing() -> str:
    """Why no process can be watched on this machine, as far as can be seen without trying; empty if it can."""
    if sys.platform != "linux":
        return "only Linux lets a process be watched this way"
    return "" if MACHINE in CALLS else f"the numbers of the system calls of {MACHINE} are not known"


def start(command: Sequence[str], watched: Mapping[str, Sequence[Test]]) -> int:
    """Starts a process that stops at each watched call, and so do its threads and children. It dies with this one.

    `watched` has the tests that a call's arguments must pass to be watched. Gives the process id; raises OSError.
    """
    instructions = _program(watched)
    buffer = ctypes.create_string_buffer(instructions)
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(instructions) // 8, ctypes.addressof(buffer)))
    wait, go = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(go)
            if os.read(wait, 1):
                _check(_libc.prctl(_NO_NEW_PRIVS, 1, None, None, None))
                _check(_libc.prctl(_SECCOMP, _FILTER, ctypes.addressof(program), None, None))
                os.execvp(command[0], list(command))
        except OSError as error:
            print(f"{command[0]} was not started: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(127)
    os.close(wait)
    try:
        _ptrace(_SEIZE, child, 0, _FOLLOW)
        os.write(go, b"!")
    except OSError:
        os.close(go)
        os.waitpid(child, 0)
        raise
    os.close(go)
    return child


def _program(watched: Mapping[str, Sequence[Test]]) -> bytes:
    """The filter, in the kernel's small language; what is not watched costs nothing but this."""
    found = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, _AUDITED[MACHINE]), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, 0)]
    for name, tests in watched.items():
        if (number := CALLS[MACHINE].get(name)) is None:
            continue
        found.append((_EQUAL, 0, 2 * len(tests) + 2, number))
        for left, (argument, mask, wanted) in zip(range(len(tests), 0, -1), tests, strict=True):
            fails = 2 * left - 1
            found.append((_LOAD, 0, 0, 16 + 8 * argument))
            found.append((_ANY_BIT, 0, fails, mask) if wanted else (_ANY_BIT, fails, 0, mask))
        found += [(_RETURN, 0, 0, _TRACE), (_RETURN, 0, 0, _ALLOW)]
    found.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in found)


def next_stop() -> Stop | tuple[int, int]:
    """Waits until a thread stops, or ends: then its id and its exit code, below 0 for a signal.

    Raises ChildProcessError when none is left.
    """
    thread, status = os.waitpid(-1, EVERY_CHILD)
    if os.WIFSTOPPED(status):
        return Stop(thread, status >> 16, os.WSTOPSIG(status))
    return thread, os.waitstatus_to_exitcode(status)


def go_on(thread: int, deliver: int = 0) -> None:
    """Until the next watched call."""
    _ptrace(_CONT, thread, 0, deliver)


def go_through(thread: int) -> None:
    """From a call's entry until it is made."""
    _ptrace(_SYSCALL, thread, 0, 0)


def stay(thread: int) -> None:
    """Stopped by a signal, until the next one."""
    _ptrace(_LISTEN, thread, 0, 0)


def call_of(thread: int) -> tuple[str, list[int]]:
    """The call it is about to make."""
    kind, number, *arguments = struct.unpack_from(f"=B{_ARGUMENTS_AT - 1}x7Q", _info(thread))
    assert kind == _ENTERS, kind
    return NAMES[number], arguments


def result_of(thread: int) -> int:
    """What the call gave that it has just made: minus an errno for an error."""
    kind, result = struct.unpack_from(f"=B{_ARGUMENTS_AT - 1}xq", _info(thread))
    assert kind == _LEAVES, kind
    return int(result)


def refuse(thread: int, errno: int) -> None:
    """The call it is about to make is not made, and fails with `errno`."""
    registers = (ctypes.c_int64 * 34)()
    vector = _Vector(ctypes.addressof(registers), ctypes.sizeof(registers))
    _ptrace(_GETREGSET, thread, 1, ctypes.addressof(vector))
    if MACHINE == "x86_64":
        registers[15], registers[10] = -1, -errno
    else:
        number = ctypes.c_int(-1)
        of_the_call = _Vector(ctypes.addressof(number), ctypes.sizeof(number))
        _ptrace(_SETREGSET, thread, 0x404, ctypes.addressof(of_the_call))
        registers[0] = -errno
    _ptrace(_SETREGSET, thread, 1, ctypes.addressof(vector))


def process_of(thread: int) -> int:
    """The id of the process that a thread belongs to."""
    with open(f"/proc/{thread}/status", encoding="utf-8", errors="replace") as file:
        return next(int(line[5:]) for line in file if line.startswith("Tgid:"))


def memory(thread: int, address: int, size: int) -> bytes:
    """What stands there."""
    file = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = b""
        while len(found) < size and (more := os.pread(file, size - len(found), address + len(found))):
            found += more
        return found
    finally:
        os.close(file)


def text(thread: int, address: int) -> str:
    """The string that stands there, up to its NUL."""
    found = b""
    while b"\0" not in found:
        at = address + len(found)
        found += memory(thread, at, 4096 - at % 4096)
    return os.fsdecode(found.partition(b"\0")[0])


def gathered(thread: int, address: int, count: int) -> bytes:
    """What `count` parts in an array of struct iovec hold together."""
    parts: Iterable[tuple[int, int]] = struct.iter_unpack("QQ", memory(thread, address, 16 * count))
    return b"".join(memory(thread, at, size) for at, size in parts)


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _info(thread: int) -> bytes:
    buffer = ctypes.create_string_buffer(_INFO_SIZE)
    _ptrace(_INFO, thread, _INFO_SIZE, ctypes.addressof(buffer))
    return buffer.raw


def _ptrace(request: int, thread: int, address: int, data: int) -> None:
    _check(_libc.ptrace(request, thread, address, data))


def _check(result: int) -> None:
    if result == -1:
        errno = ctypes.get_errno()
        raise OSError(errno, os.strerror(errno))
