"""Transforms of images [channels, height, width] and of batches [n, channels, height, width], with torchvision's names.
Random ones take `generator`, a weft.Generator, when called, and draw separately for each image of a batch."""

from numbers import Integral, Real

from weft import _core

__all__ = ["CenterCrop", "ColorJitter", "Compose", "CropFlipNormalize", "Normalize", "RandomCrop", "RandomErasing",
           "RandomHorizontalFlip", "RandomResizedCrop", "RandomVerticalFlip", "Resize", "ToFloat", "crop",
           "center_crop", "flip_horizontal", "flip_vertical", "normalize", "resize", "to_float"]


def _sizes(size):
    return [size] if isinstance(size, Integral) else list(size)


def _numbers(values):
    return [values] if isinstance(values, Real) else list(values)


def to_float(image):
    """Converts uint8 and uint16 to float32 in [0, 1]; floating images are unchanged."""
    return _core._to_float(image)


def normalize(image, mean, std):
    """(image - mean) / std for each channel."""
    return _core._normalize(image, _numbers(mean), _numbers(std))


def crop(image, top, left, height, width):
    """A view of a rectangle of the image."""
    return _core._crop(image, top, left, height, width)


def center_crop(image, size):
    """A view of the centre; size is (height, width) or one number for both."""
    return _core._center_crop(image, _sizes(size))


def flip_horizontal(image):
    """Mirrors left and right."""
    return _core._flip_horizontal(image)


def flip_vertical(image):
    """Mirrors top and bottom."""
    return _core._flip_vertical(image)


def resize(image, size, antialias=True, mode="bilinear"):
    """Resizes to (height, width), or the shorter side to one number; mode is "bilinear" or "bicubic"."""
    if mode not in ("bilinear", "bicubic"):
        raise ValueError(f"resize(): argument 'mode': expected 'bilinear' or 'bicubic', got {mode!r}")
    return _core._resize(image, _sizes(size), antialias, mode == "bicubic")


class _Transform:
    _options: tuple[str, ...] = ()

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._options)})"


class ToFloat(_Transform):
    """to_float."""

    def __call__(self, image):
        return to_float(image)


class Normalize(_Transform):
    """normalize."""

    _options = ("mean", "std")

    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def __call__(self, image):
        return normalize(image, self.mean, self.std)


class CenterCrop(_Transform):
    """center_crop."""

    _options = ("size",)

    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        return center_crop(image, self.size)


class Resize(_Transform):
    """resize."""

    _options = ("size", "antialias", "mode")

    def __init__(self, size, antialias=True, mode="bilinear"):
        self.size, self.antialias, self.mode = size, antialias, mode

    def __call__(self, image):
        return resize(image, self.size, self.antialias, self.mode)


class RandomCrop(_Transform):
    """A crop at a random position of the image, padded with `padding` rows and columns of `fill` on each side."""

    _options = ("size", "padding", "fill")

    def __init__(self, size, padding=0, fill=0):
        self.size, self.padding, self.fill = size, padding, fill

    def __call__(self, image, generator=None):
        return _core._random_crop(image, _sizes(self.size), self.padding, self.fill, generator)


class RandomHorizontalFlip(_Transform):
    """flip_horizontal with probability p."""

    _options = ("p",)
    _vertical = False

    def __init__(self, p=0.5):
        self.p = p

    def __call__(self, image, generator=None):
        return _core._random_flip(image, self.p, self._vertical, generator)


class RandomVerticalFlip(RandomHorizontalFlip):
    """flip_vertical with probability p."""

    _vertical = True


class RandomResizedCrop(_Transform):
    """A crop with a random fraction of the area and a random aspect ratio (width / height), resized."""

    _options = ("size", "scale", "ratio", "antialias", "mode")

    def __init__(self, size, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3), antialias=True, mode="bilinear"):
        self.size, self.scale, self.ratio, self.antialias, self.mode = size, scale, ratio, antialias, mode

    def __call__(self, image, generator=None):
        return _core._random_resized_crop(image, _sizes(self.size), list(self.scale), list(self.ratio), self.antialias,
                                          self.mode == "bicubic", generator)


class ColorJitter(_Transform):
    """Scales brightness, contrast and saturation by random factors in [1 - s, 1 + s]."""

    _options = ("brightness", "contrast", "saturation")

    def __init__(self, brightness=0, contrast=0, saturation=0):
        self.brightness, self.contrast, self.saturation = brightness, contrast, saturation

    def __call__(self, image, generator=None):
        return _core._color_jitter(image, self.brightness, self.contrast, self.saturation, generator)


class RandomErasing(_Transform):
    """With probability p, sets a random rectangle to `value`."""

    _options = ("p", "scale", "ratio", "value")

    def __init__(self, p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0):
        self.p, self.scale, self.ratio, self.value = p, scale, ratio, value

    def __call__(self, image, generator=None):
        return _core._random_erasing(image, self.p, list(self.scale), list(self.ratio), self.value, generator)


class CropFlipNormalize(_Transform):
    """RandomCrop, RandomHorizontalFlip, ToFloat and Normalize of uint8 images in one pass, with the same random
    numbers."""

    _options = ("size", "padding", "p", "mean", "std")

    def __init__(self, size, padding=0, p=0.5, mean=0.0, std=1.0):
        self.size, self.padding, self.p, self.mean, self.std = size, padding, p, mean, std

    def __call__(self, image, generator=None):
        return _core._crop_flip_normalize(image, _sizes(self.size), self.padding, self.p, _numbers(self.mean),
                                          _numbers(self.std), generator)


def _is_random(step):
    code = getattr(step, "__code__", None) or getattr(type(step).__call__, "__code__", None)
    return code is not None and "generator" in code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]


class Compose(_Transform):
    """Applies transforms one after the other; those with an argument `generator` get that of the call."""

    _options = ("transforms",)

    def __init__(self, transforms):
        self.transforms = list(transforms)

    def __call__(self, image, generator=None):
        for step in self.transforms:
            image = step(image, generator=generator) if _is_random(step) else step(image)
        return image
