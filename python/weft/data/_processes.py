"""Worker processes: forks of this process, which make batches in parallel Python interpreters. They return tensors in
shared memory, and other values pickled."""

import collections
import hashlib
import itertools
import os
import pickle
import select
import struct
import sys
import traceback
import weakref

from weft import _core
from weft.data._collate import _each
from weft.data._workers import WorkerInfo, here


class _Shared:
    """A tensor sent between processes."""

    def __init__(self, handle):
        self.handle = handle


def _send(fd, message):
    data = struct.pack("q", len(message)) + message
    while data:
        data = data[os.write(fd, data):]


def _receive(fd):
    """The next message; None if the other side has exited."""
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
    """The error, or its text if it cannot be pickled, with the traceback as a note."""
    trace = traceback.format_tb(error.__traceback__)
    if isinstance(error, StopIteration):  # it would silently end the loop
        error = RuntimeError("a DataLoader's function raised StopIteration")
    error.add_note("in the worker:\n" + "".join(trace).rstrip())
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        plain = RuntimeError(f"{type(error).__name__}: {error}")
        plain.__notes__ = error.__notes__
        return plain


_end = object()
_living: weakref.WeakSet = weakref.WeakSet()


class _Forked:
    """Forks of this process, each with a pipe for requests and one for answers, used by one thread at a time."""

    def __init__(self, count):
        self._pipes, self._ids, self._made = [], [], os.getpid()
        sys.stdout.flush(), sys.stderr.flush()
        _living.add(self)
        for worker in range(count):
            mine_in, theirs_out = os.pipe()
            theirs_in, mine_out = os.pipe()
            child = os.fork()
            if child == 0:
                self._live(worker, theirs_in, theirs_out, (mine_in, mine_out))
            os.close(theirs_in), os.close(theirs_out)
            self._pipes.append((mine_in, mine_out))
            self._ids.append(child)

    def _live(self, worker, requests, answers, others):
        """Main function of a worker."""
        code = 1
        try:
            copies = [others]
            for processes in _living:
                copies += processes._pipes
                processes._pipes = []  # who drops them in this process must not close files that have the numbers then
            for pipe in copies:
                os.close(pipe[0]), os.close(pipe[1])  # so that the end of the parent is seen
            self._serve(worker, requests, answers)
            code = 0
        except BrokenPipeError:
            code = 0  # nobody wants the answer any more
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(code)

    def _check_owner(self):
        if os.getpid() != self._made:
            raise RuntimeError("the worker processes belong to the process that forked this one")

    def _ask(self, worker, request):
        """Sends a request. Returns False if the worker has exited."""
        try:
            _send(self._pipes[worker][1], pickle.dumps(request))
        except BrokenPipeError:
            return False
        return True

    def _answer(self, worker):
        answer = _receive(self._pipes[worker][0])
        if answer is None:
            self._raise_dead(worker)
        return pickle.loads(answer)

    def _raise_dead(self, worker):
        raise RuntimeError(f"worker process {self._ids[worker]} has died")

    def _open(self, worker, batch):
        """The batch of an answer; the worker still holds its tensors."""
        try:
            return _incoming(batch)
        except Exception:
            if os.waitid(os.P_PID, self._ids[worker], os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                self._raise_dead(worker)
            raise

    def close(self):
        pipes, self._pipes = self._pipes, []
        for answers, requests in pipes:
            os.close(answers)  # ends a worker that is writing an answer
            if os.getpid() == self._made:
                try:
                    _send(requests, b"")  # other processes may have a copy of this end, so that closing it signals nothing
                except BrokenPipeError:
                    pass
            os.close(requests)
        if os.getpid() == self._made:
            for child in self._ids:
                try:
                    os.waitpid(child, 0)
                except ChildProcessError:
                    pass  # someone else has waited for it


class Processes(_Forked):
    """One process for each worker of a loader, which makes the requested batches."""

    def __init__(self, count, make, start):
        self._make, self._start = make, start
        super().__init__(count)

    def _serve(self, worker, requests, answers):
        self._start(worker)
        kept = []
        while request := _receive(requests):  # empty: quit; None: the parent has exited
            kept.clear()  # the parent has opened the tensors of the last answer
            try:
                answer = pickle.dumps((True, _outgoing(self._make(*pickle.loads(request)), kept)))
            except BaseException as error:
                answer = pickle.dumps((False, _portable(error)))
            _send(answers, answer)

    def make(self, worker, *job):
        """The batch of a job, from a worker."""
        self._check_owner()
        self._ask(worker, job)
        good, batch = self._answer(worker)
        if not good:
            raise batch
        return self._open(worker, batch)


class _Rest:
    """Samples left at the end of a worker's iterator: an incomplete batch, and an incomplete group of `world` samples.
    """

    def __init__(self, samples, group):
        self.samples, self.group = samples, group


class StreamBatches:
    """The batches of one worker's iterator over an iterable dataset. Samples left at the ends of all workers are
    combined, so that drop_last and world leave out no more than with one iterator."""

    def __init__(self, dataset, batch_size, drop_last, collate, share):
        self.dataset, self._size, self._drop_last, self._collate = dataset, batch_size or 1, drop_last, collate
        self._rank, self._world = share

    def _own(self, samples, rest):
        """This rank's sample of each group of `world`."""
        while len(group := list(itertools.islice(samples, self._world))) == self._world:
            yield group[self._rank]
        rest.group = group

    def __call__(self):
        rest = _Rest([], [])
        samples = self._own(iter(self.dataset), rest)
        while batch := list(itertools.islice(samples, self._size)):
            if len(batch) == self._size or not self._drop_last:
                yield self._collate(batch)
            else:
                rest.samples = batch
        if rest.samples or rest.group:
            yield rest

    def of_rests(self, rests):
        """The batches of all workers' left-over samples."""
        grouped = self._own(iter([sample for rest in rests for sample in rest.group]), _Rest([], []))
        samples = iter([sample for rest in rests for sample in rest.samples] + list(grouped))
        while batch := list(itertools.islice(samples, self._size)):
            if len(batch) == self._size or not self._drop_last:
                yield self._collate(batch)


class StreamProcesses(_Forked):
    """One process for each worker of a loader, which reads a copy of an iterable dataset and makes up to `ahead`
    batches in advance. The loop takes one from each in turn, skipping those that have ended."""

    def __init__(self, count, batches, start, ahead):
        self._batches, self._start, self._ahead, self._runs, self._count = batches, start, ahead, 0, count
        super().__init__(count)

    def _begin(self, worker, epoch, seed):
        digest = hashlib.blake2b(f"{seed} {epoch}".encode(), digest_size=8).digest()
        own = (int.from_bytes(digest, "little") + worker) % 2**64
        here.info = WorkerInfo(worker, self._count, own, self._batches.dataset)
        _core.manual_seed(own)
        return self._batches()

    def _serve(self, worker, requests, answers):
        self._start(worker)
        kept = collections.deque(maxlen=self._ahead)  # tensors that the parent may not have opened yet
        run, batches, credit = None, None, 0
        while True:
            while batches is None or credit == 0 or select.select([requests], [], [], 0)[0]:
                request = _receive(requests)
                if not request:
                    return
                number, epoch, seed = pickle.loads(request)
                if number != run:
                    run, batches, credit = number, self._begin(worker, epoch, seed), self._ahead
                else:
                    credit += 1  # one more batch was taken
            credit -= 1
            kept.append([])
            try:
                batch = _core._call_alone(lambda: next(batches, _end))
                parts = _Rest(*_outgoing([batch.samples, batch.group], kept[-1])) if isinstance(batch, _Rest) else (
                    None if batch is _end else (_outgoing(batch, kept[-1]),))
                answer = (run, True, parts)
            except BaseException as error:
                error.add_note(f"weft.data.DataLoader: worker {worker} of epoch {epoch}")
                batch, answer = _end, (run, False, _portable(error))
            if batch is _end:
                batches = None  # until the next run
            _send(answers, pickle.dumps(answer))

    def batches(self, epoch, seed):
        """The batches of an epoch, alternating between workers."""
        self._check_owner()
        self._runs += 1
        run, left, rests = self._runs, collections.deque(range(len(self._pipes))), {}
        for worker in left:
            self._ask(worker, (run, epoch, seed))
        while left:
            worker = left.popleft()
            number = None
            while number != run:  # skips answers to an earlier loop
                self._check_owner()
                number, good, batch = self._answer(worker)
            if not good:
                raise batch
            if batch is None:
                continue
            if isinstance(batch, _Rest):
                rests[worker] = _Rest(*self._open(worker, [batch.samples, batch.group]))
                self._ask(worker, (run, epoch, seed))
                left.appendleft(worker)
                continue
            batch = self._open(worker, batch[0])
            self._ask(worker, (run, epoch, seed))
            left.append(worker)
            yield batch
        yield from self._batches.of_rests([rests[worker] for worker in sorted(rests)])
