"""The grader: hundreds of untrusted notebooks, each scored in a process of its own that knows no expected answer.

`minipaged grade FOLDER` is its command; docs/teaching.md tells how a class is run. What crosses to a learner's process
and back is in protocol.py, that process in child.py and server.py, what holds it in sandbox.py and linux.py, who starts
it in keeper.py, its other end in remote.py, a verdict in judging.py, a class in batch.py.
"""
