"""Writes tokenizer_parts.jsonl: the parts of byte-level tokenizers that files of well-known models have, around the
vocabulary of gpt4.json, and the ids that the library `tokenizers` gives to random texts with them.

python3 -m venv v && v/bin/pip install tokenizers==0.23.3 && v/bin/python make_parts.py [texts of each] [seed] [file]
"""
import json
import pathlib
import random
import sys
import unicodedata

from tokenizers import Tokenizer

here = pathlib.Path(__file__).parent
count, seed = int((sys.argv[1:] or [15])[0]), int((sys.argv[2:] or [17])[0])
rng = random.Random(seed)
base = json.loads((here / "gpt4.json").read_text())

bytes_and_words = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
bytes_alone = {**bytes_and_words, "use_regex": False}
NFC = {"type": "NFC"}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def steps(*all):
    return {"type": "Sequence", "pretokenizers": list(all)}


def normalizers(*all):
    return {"type": "Sequence", "normalizers": list(all)}


def digits(each):
    return {"type": "Digits", "individual_digits": each}


def template(*single):
    special = {name: {"id": name, "ids": [id], "tokens": [name]} for name, id in (("<|end|>", 0), ("<pad>", 1))}
    items = [{"Sequence": {"id": "A", "type_id": 0}} if name == "A" else {"SpecialToken": {"id": name, "type_id": 0}}
             for name in single]
    return {"type": "TemplateProcessing", "single": items, "pair": items, "special_tokens": special}


def parts(pre_tokenizer, normalizer=None, post_processor=None, added=()):
    tokens = list(base["added_tokens"])
    first = tokens[-1]["id"] + 1 - len(tokens)
    for content, flags in added:
        tokens.append({"id": first + len(tokens), "content": content, "single_word": False,
                       "lstrip": False, "rstrip": False, "normalized": True, "special": False} | flags)
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer, "post_processor": post_processor, "decoder": bytes_and_words}


CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
END = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + END
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN3_5 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + END
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
GPT_4O = (rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]*[{LOWER}]+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]+[{LOWER}]*"
          rf"{CONTRACTIONS}?|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*" + END)
DEEPSEEK = ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
            "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+")
spaces = [(" " * n, {}) for n in range(2, 9)]
flags = [("<x>", {}), ("Ångström", {}), ("word", {"single_word": True}), ("éa", {}), ("MiXed", {}),
         ("<l>", {"lstrip": True, "special": True, "normalized": False}),
         ("<r>", {"rstrip": True, "special": True, "normalized": False})]

files = {
    "gpt2": parts(bytes_and_words, added=[("<|endoftext|>", {"special": True})]),
    "gpt_neox": parts(bytes_and_words, NFC, added=spaces),
    "phi": parts(bytes_and_words, added=spaces),
    "llama3": parts(steps(split(LLAMA3), bytes_alone),
                    post_processor={"type": "Sequence", "processors": [bytes_and_words, template("<|end|>", "A")]}),
    "qwen2": parts(steps(split(QWEN2), bytes_alone), NFC, bytes_alone, flags),
    "qwen3_5": parts(steps(split(QWEN3_5), bytes_alone), NFC),
    "gpt_4o": parts(steps(split(GPT_4O), bytes_alone)),
    "deepseek_v3": parts(steps(split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK), bytes_alone),
                         normalizers(), added=flags),
    "deepseek_coder": parts(steps(split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"),
                                  split("[一-龥ࠀ-一가-퟿]+"), digits(True), bytes_alone), normalizers()),
    "smollm": parts(steps(digits(True), bytes_and_words)),
    "command_r": parts(steps(digits(True), bytes_and_words), NFC, template("<|end|>", "A", "<pad>"), flags),
    "falcon": parts(steps({"type": "Punctuation", "behavior": "Contiguous"}, bytes_and_words, digits(False),
                          split("[0-9][0-9][0-9]"))),
    "bloom": parts(steps(split(r" ?[^(\s|[.,!?…。，、।۔،])]+"), bytes_alone)),
    "roberta": parts({**bytes_and_words, "add_prefix_space": True},
                     post_processor={"type": "RobertaProcessing", "sep": ["<pad>", 1], "cls": ["<|end|>", 0],
                                     "trim_offsets": True, "add_prefix_space": True}),
    "digits_and_prefix": parts(steps(digits(False), {**bytes_and_words, "add_prefix_space": True})),
    "whitespace": parts(steps({"type": "Whitespace"}, bytes_alone)),
    "whitespace_split": parts(steps({"type": "WhitespaceSplit"}, bytes_alone)),
    "delimiter": parts(steps({"type": "CharDelimiterSplit", "delimiter": "e"}, bytes_alone)),
    "lowercase": parts(bytes_and_words, normalizers(NFC, {"type": "Lowercase"}), added=flags),
    "accents": parts(bytes_and_words, normalizers({"type": "NFD"}, {"type": "StripAccents"}), added=flags),
    "strip": parts(bytes_and_words, {"type": "Strip", "strip_left": True, "strip_right": True}, added=flags),
    "strip_left": parts(bytes_and_words, {"type": "Strip", "strip_left": True, "strip_right": False}, added=flags),
    "prepend": parts(bytes_alone, normalizers({"type": "Prepend", "prepend": "_"},
                                              {"type": "Replace", "pattern": {"String": " "}, "content": "_"}), added=flags),
    "replace": parts(bytes_and_words, {"type": "Replace", "pattern": {"Regex": r"\s+|[aeiou]"}, "content": "<>"},
                     added=flags),
}
for form in ("NFD", "NFKC", "NFKD"):
    files[form] = parts(bytes_and_words, {"type": form}, added=flags)
for behavior in ("Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"):
    files["split_" + behavior] = parts(steps(split("[a-e]", behavior), bytes_alone))
    files["inverted_" + behavior] = parts(steps(split(r"\s|t", behavior, True), bytes_alone))
    files["text_" + behavior] = parts(steps(split("e", behavior, kind="String"), bytes_and_words))
    files["punctuation_" + behavior] = parts(steps({"type": "Punctuation", "behavior": behavior}, bytes_and_words))

# Characters that the tables of both libraries have.
letters = [c for c in range(0x80, 0x20000) if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs", "Co")]
marks = [c for c in letters if unicodedata.category(chr(c))[0] == "M"]
words = ["'ſ", "<|end|>", "  ", "\r\n", "'LL", "the ", " <mask> ", "<b>", "<x>", "<l>", "<r>", "word", "words", "Ångström",
         "A\u030angstro\u0308m", "é", "e\u0301", "mixed", "MiXed", "İ", "ΑΣ", "ﬁ", "Å", "㎏", "  <r>   ", "東京都", "がぎ",
         "か\u3099"]
pools = [
    lambda: chr(rng.randrange(32, 127)), lambda: rng.choice("'sStTmMdDrReEvVlL"),
    lambda: rng.choice(" \t\n\r\u00a0\u3000\x85\x0b\x1c"), lambda: chr(rng.choice(letters)),
    lambda: rng.choice("eaouAO") + chr(rng.choice(marks)), lambda: chr(rng.randrange(0xAC00, 0xD7A3)),
    lambda: chr(rng.randrange(0x1100, 0x1200)), lambda: rng.choice("0123456789½²٣"), lambda: rng.choice(words),
    lambda: rng.choice(words)]


def random_text():
    out = ""
    for _ in range(rng.randrange(0, 14)):
        pool = rng.choice(pools)
        out += "".join(pool() for _ in range(rng.randrange(1, 5)))
    return out


with open(sys.argv[3] if len(sys.argv) > 3 else here / "tokenizer_parts.jsonl", "w", encoding="utf-8") as out:
    for name, file in files.items():
        tokenizer = Tokenizer.from_str(json.dumps({**file, "model": base["model"]}))
        texts = []
        while len(texts) < count:
            text = random_text()
            ids = tokenizer.encode(text).ids
            texts.append([text, ids, tokenizer.encode(text, add_special_tokens=False).ids, tokenizer.decode(ids, False)])
        out.write(json.dumps({"name": name, "parts": file, "texts": texts}, ensure_ascii=False) + "\n")
