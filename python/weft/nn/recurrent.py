"""Recurrent layers and cells. Parameters, checks and text are those of the C++ layers."""

from weft import _core
from weft.errors import ValueError
from weft.nn.described import _WithTensors, described
from weft.nn.utils.rnn import PackedSequence

__all__ = ["RNNBase", "RNN", "LSTM", "GRU", "RNNCellBase", "RNNCell", "LSTMCell", "GRUCell"]


def _zeros(sizes, like):
    return _core._ops["zeros"](sizes, dtype=like.dtype, device=like.device)


class RNNBase(_WithTensors):
    """What RNN, LSTM and GRU share."""

    def __init__(self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, proj_size=0, device=None, dtype=None):
        made = {"LSTM": LSTM, "GRU": GRU}.get(mode, RNN)
        own = {"proj_size": proj_size} if made is LSTM else {}
        if made is RNN:
            own["nonlinearity"] = mode.removeprefix("RNN_").lower()
        self.description, self.options = made.description, made.options
        made.__init__(self, input_size, hidden_size, num_layers, bias=bias, batch_first=batch_first, dropout=dropout,
                      bidirectional=bidirectional, device=device, dtype=dtype, **own)

    def _set_options(self, **options):
        super()._set_options(**options)
        self.dropout, self.proj_size = float(self.dropout), options.get("proj_size", 0)
        self.mode = f"RNN_{self.nonlinearity.upper()}" if self.description == "RNN" else self.description
        self._flat_names = tuple(self._parameters)

    def flatten_parameters(self):
        """Nothing: parameters need no common memory here."""

    def reset_parameters(self):
        """Draws all anew."""
        fresh = type(self)(**self.get_config())
        self.load_state_dict(fresh.state_dict())

    @property
    def _flat_weights(self):
        names = self.__dict__.get("_flat_names") or tuple(self._parameters)
        return [getattr(self, name) for name in names]

    def _run(self, input, hx, widths):
        """The op of the mode on `input` with the states `hx`, each `widths` wide, or zeros in their places."""
        packed = input if isinstance(input, PackedSequence) else None
        x = packed.data if packed else input
        if not packed and x.ndim not in (2, 3):
            raise ValueError(f"{type(self).__name__}(): input: expected 2 or 3 dimensions, got {x.ndim}")
        groups = self.num_layers * (2 if self.bidirectional else 1)
        if hx is None:
            if packed or x.ndim != 2:
                batch = int(packed.batch_sizes[0]) if packed else x.shape[0 if self.batch_first else 1]
                hx = [_zeros((groups, batch, width), x) for width in widths]
            else:
                hx = [_zeros((groups, width), x) for width in widths]
        elif packed and packed.sorted_indices is not None:
            hx = [state.index_select(1, packed.sorted_indices) for state in hx]
        output, *states = _core._ops[self.mode.lower()](
            x, hx if self.mode == "LSTM" else hx[0], self._flat_weights, self.bias, self.num_layers, self.dropout,
            self.training, self.bidirectional, self.batch_first and not packed,
            batch_sizes=packed.batch_sizes if packed else None)
        if packed:
            output = PackedSequence(output, *packed[1:])
            if packed.unsorted_indices is not None:
                states = [state.index_select(1, packed.unsorted_indices) for state in states]
        return output, states


@described
class RNN(RNNBase):
    """Layers of h = tanh(W x + b + W h + b), or relu of it: (output, h_n) of input [steps, batch, input_size] or a
    PackedSequence."""

    def forward(self, input, hx=None):
        output, (h_n,) = self._run(input, None if hx is None else [hx], [self.hidden_size])
        return output, h_n


@described
class GRU(RNNBase):
    """Layers of gated recurrent units: (output, h_n) of input [steps, batch, input_size] or a PackedSequence."""

    forward = RNN.forward


@described
class LSTM(RNNBase):
    """Layers of long short-term memory: (output, (h_n, c_n)) of input [steps, batch, input_size] or a
    PackedSequence."""

    def forward(self, input, hx=None):
        output, states = self._run(input, hx, [self.proj_size or self.hidden_size, self.hidden_size])
        return output, tuple(states)


class RNNCellBase(_WithTensors):
    """What RNNCell, GRUCell and LSTMCell share: weights of 1, 3 or 4 chunks of hidden_size rows."""

    switches = {"bias": ("bias_ih", "bias_hh")}

    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        made = {1: RNNCell, 3: GRUCell, 4: LSTMCell}.get(num_chunks)
        if made is None:
            raise ValueError(f"RNNCellBase(): argument 'num_chunks': expected 1, 3 or 4, got {num_chunks!r}")
        self.description, self.options = made.description, made.options
        made.__init__(self, input_size, hidden_size, bias, device=device, dtype=dtype)

    def _step(self, op, input, hx):
        return _core._ops[op](input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)

    def _first(self, input):
        return _zeros((*input.shape[:-1], self.hidden_size), input)


@described
class RNNCell(RNNCellBase):
    """One step of RNN: the new state of input [batch, input_size] and the old one."""

    def forward(self, input, hx=None):
        return self._step(f"rnn_{self.nonlinearity}_cell", input, self._first(input) if hx is None else hx)


@described
class GRUCell(RNNCellBase):
    """One step of GRU: the new state of input [batch, input_size] and the old one."""

    def forward(self, input, hx=None):
        return self._step("gru_cell", input, self._first(input) if hx is None else hx)


@described
class LSTMCell(RNNCellBase):
    """One step of LSTM: (h, c) of input [batch, input_size] and the old ones."""

    def forward(self, input, hx=None):
        if hx is None:
            hx = (self._first(input), self._first(input))
        return tuple(self._step("lstm_cell", input, list(hx)))
