"""Workers that are processes: copies of this one, which make batches in Python at the same time. Tensors come back in
shared memory, all else as pickles."""

import os
import pickle
import struct
import sys
import traceback
import weakref

from weft import _core
from weft.data._collate import _each


class _Shared:
    """A tensor on its way between processes."""

    def __init__(self, handle):
        self.handle = handle


def _send(fd, message):
    data = struct.pack("q", len(message)) + message
    while data:
        data = data[os.write(fd, data):]


def _receive(fd):
    """None where the other side is gone."""
    head = _read(fd, 8)
    return None if head is None else _read(fd, struct.unpack("q", head)[0])


def _read(fd, count):
    parts = []
    while count > 0:
        part = os.read(fd, min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _outgoing(batch, kept):
    def share(tensor):
        kept.append(_core._share_memory(tensor))
        return _Shared(_core._share(kept[-1]))

    return _each(batch, share)


def _incoming(batch):
    return _each(batch, lambda t: t, of_other=lambda x: _core._open_shared(x.handle) if isinstance(x, _Shared) else x)


def _portable(error):
    """The error, or where it cannot be sent its text, with where it came from as a note."""
    error.add_note("in the worker:\n" + "".join(traceback.format_tb(error.__traceback__)).rstrip())
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        plain = RuntimeError(f"{type(error).__name__}: {error}")
        plain.__notes__ = error.__notes__
        return plain


_living: weakref.WeakSet = weakref.WeakSet()


class Processes:
    """A process for each worker of a loader. Each is spoken with by one thread."""

    def __init__(self, count, make, start):
        self._pipes, self._ids, self._made = [], [], os.getpid()
        sys.stdout.flush(), sys.stderr.flush()
        _living.add(self)
        for worker in range(count):
            mine_in, theirs_out = os.pipe()
            theirs_in, mine_out = os.pipe()
            child = os.fork()
            if child == 0:
                self._serve(worker, theirs_in, theirs_out, (mine_in, mine_out), make, start)
            os.close(theirs_in), os.close(theirs_out)
            self._pipes.append((mine_in, mine_out))
            self._ids.append(child)

    def _serve(self, worker, requests, answers, others, make, start):
        """The life of a worker."""
        code = 1
        try:
            for pipe in (others, *(pipe for processes in _living for pipe in processes._pipes)):
                os.close(pipe[0]), os.close(pipe[1])  # so that the end of the parent is seen
            start(worker)
            kept = []
            while request := _receive(requests):  # an empty one, or none where the parent is gone, is the end
                kept.clear()  # the parent has opened what the last answer told of
                try:
                    answer = pickle.dumps((True, _outgoing(make(*pickle.loads(request)), kept)))
                except BaseException as error:
                    answer = pickle.dumps((False, _portable(error)))
                _send(answers, answer)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(code)

    def make(self, worker, *job):
        """The batch of a job, from a worker."""
        if os.getpid() != self._made:
            raise RuntimeError("the worker processes belong to the process that forked this one")
        answers, requests = self._pipes[worker]
        try:
            _send(requests, pickle.dumps(job))
            answer = _receive(answers)
        except BrokenPipeError:
            answer = None
        if answer is None:
            raise RuntimeError(f"worker process {self._ids[worker]} has died")
        good, batch = pickle.loads(answer)
        if not good:
            raise batch
        return _incoming(batch)

    def close(self):
        pipes, self._pipes = self._pipes, []
        for answers, requests in pipes:
            if os.getpid() == self._made:
                try:
                    _send(requests, b"")  # another process may have a copy of this end, so that closing it tells nothing
                except BrokenPipeError:
                    pass
            os.close(answers), os.close(requests)
        if os.getpid() == self._made:
            for child in self._ids:
                try:
                    os.waitpid(child, 0)
                except ChildProcessError:
                    pass  # someone else has waited for it
