"""What a training run reads: files of tables, lines and pictures, transforms of images, tokenizers."""

from weft.data.files import (  # noqa: F401
    Table, decode_image, encode_jpeg, encode_png, image_folder, load_cifar10, load_cifar100, load_image, load_mnist,
    read_cifar10, read_cifar100, read_csv, read_json_lines, read_json_table, read_lines, save_jpeg, save_png, write_csv)
from weft.data import transforms  # noqa: F401
from weft.data.tokenizer import Tokenizer  # noqa: F401
