"""Byte-level byte-pair encoding."""

import os

from weft import _core


class Tokenizer:
    """Converts text to token ids and back by byte-level byte-pair encoding, as in GPT-2, Llama 3, Qwen, DeepSeek and
    SmolLM.

    tokenizer = weft.data.Tokenizer.load("tokenizer.json")
    tokenizer.decode(tokenizer.encode("any text"))
    """

    def __init__(self, _held):
        self._held = _held

    @classmethod
    def load(cls, path):
        """Loads a tokenizer.json. Raises NotImplementedError, with its name, for any unsupported feature that would
        change ids."""
        return cls(_core._Tokenizer.load(os.fspath(path)))

    @classmethod
    def from_json(cls, text):
        """Parses the text of a tokenizer.json."""
        return cls(_core._Tokenizer.from_json(text))

    @classmethod
    def load_gpt2(cls, vocab_json, merges_txt):
        """Loads GPT-2's two files."""
        return cls(_core._Tokenizer.load_gpt2(os.fspath(vocab_json), os.fspath(merges_txt)))

    @classmethod
    def train(cls, texts, vocab_size=30000, min_frequency=0, special_tokens=(), pattern="gpt2", add_prefix_space=False,
              progress=None):
        """Learns merges from texts: repeatedly turns the most frequent pair of tokens in all words into a new token;
        among equally frequent pairs, the one with the lowest ids.

        special_tokens get the first ids, followed by the 256 bytes. pattern: "gpt2", "gpt4", "qwen2" or "none".
        progress is called from time to time with the number of tokens and vocab_size.
        """
        return cls(_core._Tokenizer.train(list(texts), vocab_size, min_frequency, list(special_tokens), pattern,
                                          add_prefix_space, progress))

    def save(self, path):
        """Writes a tokenizer.json."""
        self._held.save(os.fspath(path))

    def to_json(self):
        """The text that save writes."""
        return self._held.to_json()

    def encode(self, text, special="allow", add_special_tokens=True):
        """The ids of a text, or of bytes. Special tokens in it are encoded as tokens ("allow"), as ordinary text
        ("plain"), or raise ValueError ("forbid"); add_special_tokens adds those of the file's template around it."""
        encode = self._held.encode_bytes if isinstance(text, (bytes, bytearray)) else self._held.encode
        return encode(bytes(text) if isinstance(text, bytearray) else text, special, add_special_tokens)

    def encode_with_offsets(self, text, special="allow", add_special_tokens=True):
        """(ids, [(begin, end), …]): the byte range of the UTF-8 text for each token."""
        return self._held.encode_with_offsets(text, special, add_special_tokens)

    def encode_batch(self, texts, special="allow", add_special_tokens=True):
        """encode for each text, on several threads."""
        return self._held.encode_batch(list(texts), special, add_special_tokens)

    def decode(self, ids, skip_special_tokens=False):
        """The text of ids, a list or a tensor; bytes that are not valid UTF-8 become U+FFFD."""
        return self._held.decode(_ids(ids), skip_special_tokens)

    def decode_bytes(self, ids, skip_special_tokens=False):
        """The bytes of ids."""
        return self._held.decode_bytes(_ids(ids), skip_special_tokens)

    def token(self, id):
        """The token as written in files: "Ġthe" for " the"."""
        return self._held.token(id)

    def id(self, token):
        """The id of a token; None if there is no such token."""
        return self._held.id(token)

    def is_special(self, id):
        return self._held.is_special(id)

    def merges(self):
        """Pairs of tokens in order of their ranks."""
        return self._held.merges()

    def __len__(self):
        """One more than the highest id."""
        return self._held.vocab_size()

    vocab_size = property(__len__)


def _ids(ids):
    return ids.tolist() if hasattr(ids, "tolist") else list(ids)
