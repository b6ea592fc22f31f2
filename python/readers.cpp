// Files of tables, lines and pictures, transforms and tokenizers for Python (weft.data).
#include <nanobind/stl/array.h>
#include <nanobind/stl/string_view.h>

#include <mutex>

#include "../data/cifar.hpp"
#include "../data/csv.hpp"
#include "../data/image.hpp"
#include "../data/json_lines.hpp"
#include "../data/lines.hpp"
#include "../data/mnist.hpp"
#include "../data/tokenizer.hpp"
#include "../data/transforms.hpp"

#include "caster.hpp"
#include "generator.hpp"

namespace weft::python {

namespace {

using data::ColumnType;

/// The choice that a text names; ValueError for another one.
template <class T>
T choice(const std::string& text, const char* argument, std::initializer_list<std::pair<const char*, T>> choices) {
  std::string all;
  for (const auto& [name, value] : choices) {
    if (text == name) return value;
    all += (all.empty() ? "'" : ", '") + std::string(name) + "'";
  }
  throw_error(PyExc_ValueError,
              "argument '" + std::string(argument) + "': expected one of " + all + ", got '" + text + "'");
}

// ---- tables ---------------------------------------------------------------------------------------------------------

ColumnType column_type(const std::string& text) {
  return choice<ColumnType>(text, "dtype",
                            {{"infer", ColumnType::infer},
                             {"float32", ColumnType::f32},
                             {"float64", ColumnType::f64},
                             {"int64", ColumnType::i64},
                             {"bool", ColumnType::boolean},
                             {"str", ColumnType::text},
                             {"category", ColumnType::category},
                             {"skip", ColumnType::skip}});
}

std::optional<char> one_character(const std::string& text, const char* argument) {
  if (text.empty()) return {};
  if (text.size() == 1) return text[0];
  throw_error(PyExc_ValueError,
              "argument '" + std::string(argument) + "': expected one ASCII character, got '" + text + "'");
}

/// (name, tensor or list of texts, categories) for each column.
nb::list columns_of(const data::Table& table) {
  nb::list out;
  for (const data::Column& column : table.columns()) {
    const nb::object values = column.is_text() ? nb::cast(column.texts) : nb::cast(column.values);
    out.append(nb::make_tuple(column.name, values, column.categories));
  }
  return out;
}

data::CsvOptions csv_options(const std::string& delimiter, bool header, const std::string& comment,
                             const std::vector<std::string>& names,
                             const std::vector<std::pair<std::string, std::string>>& types, const std::string& type,
                             const std::vector<std::string>& missing, bool wide, int64_t skip_lines, int64_t max_rows) {
  data::CsvOptions options = {.header = header,
                              .comment = one_character(comment, "comment"),
                              .names = names,
                              .type = column_type(type),
                              .missing = missing,
                              .floating = wide ? DType::f64 : DType::f32,
                              .skip_lines = skip_lines,
                              .max_rows = max_rows};
  options.delimiter = one_character(delimiter, "delimiter").value_or(',');
  for (const auto& [name, wished] : types) options.types.emplace_back(name, column_type(wished));
  return options;
}

nb::list read_csv(const std::string& source, bool is_path, const data::CsvOptions& options) {
  const Location where = here();
  data::Table table;
  {
    const WithoutGil others;
    table = is_path ? data::read_csv(source, options, where) : data::parse_csv(source, options, where);
  }
  return columns_of(table);
}

void write_csv(const nb::list& columns, const std::string& path, const std::string& delimiter) {
  const Location where = here();
  data::Table table;
  for (const nb::handle item : columns) {
    data::Column column{.name = nb::cast<std::string>(item[0])};
    if (is_tensor(nb::object(item[1]).ptr())) column.values = nb::cast<Tensor>(item[1]);
    else column.texts = nb::cast<std::vector<std::string>>(item[1]);
    column.categories = nb::cast<std::vector<std::string>>(item[2]);
    table.add(std::move(column), where);
  }
  data::write_csv(table, path, one_character(delimiter, "delimiter").value_or(','), where);
}

/// A JSON value as Python's own.
nb::object object_of(const data::Json& json) {
  switch (json.kind()) {
    case data::Json::Kind::null:
      return nb::none();
    case data::Json::Kind::boolean:
      return nb::bool_(json.boolean());
    case data::Json::Kind::integer:
      return nb::int_(json.integer());
    case data::Json::Kind::number:
      return nb::float_(json.number());
    case data::Json::Kind::text:
      return nb::cast(json.text());
    case data::Json::Kind::list: {
      nb::list out;
      for (int64_t i = 0; i < json.size(); ++i) out.append(object_of(json[i]));
      return out;
    }
    default: {
      nb::dict out;
      int64_t i = 0;
      for (const std::string& name : json.names()) out[nb::cast(name)] = object_of(json[i++]);
      return out;
    }
  }
}

/// Python's iterator over the values of a file.
struct JsonIterator {
  explicit JsonIterator(const std::string& path, Location where) : lines(data::read_json_lines(path, where)) {}
  data::JsonLines lines;
  std::optional<data::JsonLines::Iterator> at;
};

/// Slices of a file; thread-safe.
struct CsvParts {
  CsvParts(const std::string& path, int64_t rows, const data::CsvOptions& options, Location where)
      : chunks(path, rows, options, where) {}
  template <class F>
  auto with(F&& f) {
    const WithoutGil others;
    const std::lock_guard lock(mutex);
    return f(chunks);
  }
  data::CsvChunks chunks;
  std::mutex mutex;
};

void bind_csv_parts(nb::module_& m) {
  nb::class_<data::CsvOptions>(m, "_CsvOptions");
  m.def("_csv_options", csv_options);
  nb::class_<CsvParts>(m, "_CsvParts")
      .def(nb::new_([](const std::string& path, int64_t rows, const data::CsvOptions& options) {
        return new CsvParts(path, rows, options, here());
      }))
      .def("next",
           [](CsvParts& self) -> nb::object {
             const Location where = here();
             const std::optional<data::Table> part = self.with([&](data::CsvChunks& all) { return all.next(where); });
             return part ? nb::object(columns_of(*part)) : nb::none();
           })
      .def("state",
           [](CsvParts& self) {
             const Location where = here();
             return self.with([&](data::CsvChunks& all) { return all.state(where); });
           })
      .def("restore", [](CsvParts& self, const std::string& state) {
        const Location where = here();
        self.with([&](data::CsvChunks& all) { all.restore(state, where); });
      });
}

void bind_tables(nb::module_& m) {
  bind_csv_parts(m);
  m.def("_read_csv", read_csv);
  m.def("_write_csv", write_csv);
  m.def("_read_lines", [](const std::string& path) { return data::read_lines(path, here()); });
  m.def("_read_json_table", [](const std::string& path, const std::vector<std::string>& fields) {
    const Location where = here();
    data::Table table;
    {
      const WithoutGil others;
      table = data::read_json_table(path, fields, where);
    }
    return columns_of(table);
  });
  nb::class_<JsonIterator>(m, "_JsonLines")
      .def(nb::new_([](const std::string& path) { return new JsonIterator(path, here()); }))
      .def("__iter__", [](nb::object self) { return self; })
      .def("__next__", [](JsonIterator& self) {
        if (!self.at) self.at = self.lines.begin();
        else ++*self.at;
        if (*self.at == self.lines.end()) throw nb::stop_iteration();
        return object_of(**self.at);
      });
}

// ---- pictures -------------------------------------------------------------------------------------------------------

data::ImageOptions image_options(int64_t channels, bool keep_16_bits, bool upright, int64_t max_pixels) {
  return {
      .channels = channels, .keep_16_bits = keep_16_bits, .apply_exif_orientation = upright, .max_pixels = max_pixels};
}

nb::bytes bytes_of(const std::string& text) { return nb::bytes(text.data(), text.size()); }

std::vector<io::Path> paths_of(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

void bind_images(nb::module_& m) {
  m.def("_load_image", [](const std::string& path, int64_t channels, bool wide, bool upright, int64_t max_pixels) {
    const Location where = here();
    const WithoutGil others;
    return data::load_image(path, image_options(channels, wide, upright, max_pixels), where);
  });
  m.def("_decode_image", [](const nb::bytes& bytes, int64_t channels, bool wide, bool upright, int64_t max_pixels) {
    const Location where = here();
    const std::span<const std::byte> span(reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size());
    const WithoutGil others;
    return data::decode_image(span, image_options(channels, wide, upright, max_pixels), where);
  });
  m.def("_encode_png", [](const Tensor& image) { return bytes_of(data::encode_png(image, here())); });
  m.def("_encode_jpeg", [](const Tensor& image, int quality) {
    return bytes_of(data::encode_jpeg(image, {.quality = quality}, here()));
  });
  m.def("_save_png", [](const Tensor& image, const std::string& path) { data::save_png(image, path, here()); });
  m.def("_save_jpeg", [](const Tensor& image, const std::string& path, int quality) {
    data::save_jpeg(image, path, {.quality = quality}, here());
  });
  m.def("_image_folder", [](const std::string& path, const std::vector<std::string>& extensions) {
    const data::ImageFolder folder = data::image_folder(path, extensions, here());
    std::vector<std::string> files;
    for (const io::Path& file : folder.files) files.push_back(file.string());
    return nb::make_tuple(files, folder.labels, folder.classes);
  });
  m.def("_load_mnist", [](const std::string& folder, bool train) {
    const auto read = data::load_mnist(folder, train, here());
    return std::pair(read.images, read.labels);
  });
  m.def("_read_cifar10", [](const std::vector<std::string>& files) {
    const auto read = data::read_cifar10(paths_of(files), here());
    return std::pair(read.images, read.labels);
  });
  m.def("_load_cifar10", [](const std::string& folder, bool train) {
    const auto read = data::load_cifar10(folder, train, here());
    return std::pair(read.images, read.labels);
  });
  const auto three = [](const data::Cifar100& read) {
    return nb::make_tuple(read.images, read.labels, read.coarse_labels);
  };
  m.def("_read_cifar100",
        [three](const std::vector<std::string>& files) { return three(data::read_cifar100(paths_of(files), here())); });
  m.def("_load_cifar100",
        [three](const std::string& folder, bool train) { return three(data::load_cifar100(folder, train, here())); });
}

// ---- transforms -----------------------------------------------------------------------------------------------------

using Numbers = std::vector<double>;
using Sizes = std::vector<int64_t>;
using Bounds = std::array<double, 2>;

Dims dims_of(const Sizes& sizes) { return Dims(std::span<const int64_t>(sizes)); }

/// Calls a transform with a weft.Generator, or with the default one for None.
template <class T>
Tensor transformed(const T& transform, const Tensor& image, nb::handle generator) {
  const Location where = here();
  Generator* own = generator.is_none() ? &default_generator() : to_generator(generator.ptr());
  if (own == nullptr)
    throw_type_error("argument 'generator': expected a weft.Generator or None, got " + type_name(generator.ptr()));
  const WithoutGil others;
  return transform(image, *own, where);
}

void bind_transforms(nb::module_& m) {
  m.def("_to_float", [](const Tensor& x) { return data::to_float(x, here()); });
  m.def("_normalize", [](const Tensor& x, const Numbers& mean, const Numbers& deviation) {
    return data::normalize(x, mean, deviation, here());
  });
  m.def("_crop", [](const Tensor& x, int64_t top, int64_t left, int64_t height, int64_t width) {
    return data::crop(x, top, left, height, width, here());
  });
  m.def("_center_crop", [](const Tensor& x, const Sizes& size) { return data::center_crop(x, dims_of(size), here()); });
  m.def("_flip_horizontal", [](const Tensor& x) { return data::flip_horizontal(x, here()); });
  m.def("_flip_vertical", [](const Tensor& x) { return data::flip_vertical(x, here()); });
  m.def("_resize", [](const Tensor& x, const Sizes& size, bool antialias, bool bicubic) {
    const Location where = here();
    const WithoutGil others;
    return data::resize(x, dims_of(size), {antialias, bicubic}, where);
  });
  m.def(
      "_random_crop",
      [](const Tensor& x, const Sizes& size, int64_t padding, double fill, nb::handle generator) {
        return transformed(data::RandomCrop{dims_of(size), padding, fill}, x, generator);
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  m.def(
      "_random_flip",
      [](const Tensor& x, double p, bool vertical, nb::handle generator) {
        return vertical ? transformed(data::RandomVerticalFlip{p}, x, generator)
                        : transformed(data::RandomHorizontalFlip{p}, x, generator);
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  m.def(
      "_random_resized_crop",
      [](const Tensor& x, const Sizes& size, Bounds scale, Bounds ratio, bool antialias, bool bicubic,
         nb::handle generator) {
        return transformed(data::RandomResizedCrop{dims_of(size), scale, ratio, {antialias, bicubic}}, x, generator);
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  m.def(
      "_color_jitter",
      [](const Tensor& x, double brightness, double contrast, double saturation, nb::handle generator) {
        return transformed(data::ColorJitter{brightness, contrast, saturation}, x, generator);
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  m.def(
      "_random_erasing",
      [](const Tensor& x, double p, Bounds scale, Bounds ratio, double value, nb::handle generator) {
        return transformed(data::RandomErasing{p, scale, ratio, value}, x, generator);
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  m.def(
      "_crop_flip_normalize",
      [](const Tensor& x, const Sizes& size, int64_t padding, double p, const Numbers& mean, const Numbers& deviation,
         nb::handle generator) {
        return transformed(data::CropFlipNormalize{dims_of(size), padding, p, mean, deviation}, x, generator);
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
}

// ---- tokenizers -----------------------------------------------------------------------------------------------------

data::WordPattern word_pattern(const std::string& text) {
  using data::WordPattern;
  return choice<WordPattern>(text, "pattern",
                             {{"none", WordPattern::none},
                              {"gpt2", WordPattern::gpt2},
                              {"gpt4", WordPattern::gpt4},
                              {"qwen2", WordPattern::qwen2}});
}

data::EncodeOptions encode_options(const std::string& special, bool add_special_tokens) {
  using data::SpecialTokens;
  const auto chosen = choice<SpecialTokens>(
      special, "special",
      {{"allow", SpecialTokens::allow}, {"plain", SpecialTokens::plain}, {"forbid", SpecialTokens::forbid}});
  return {chosen, add_special_tokens};
}

data::Tokenizer train(const std::vector<std::string>& texts, int64_t vocab_size, int64_t min_frequency,
                      const std::vector<std::string>& special_tokens, const std::string& pattern, bool add_prefix_space,
                      nb::object progress) {
  const Location where = here();
  data::TrainTokenizerOptions options = {.vocab_size = vocab_size,
                                         .min_frequency = min_frequency,
                                         .special_tokens = special_tokens,
                                         .pattern = word_pattern(pattern),
                                         .add_prefix_space = add_prefix_space};
  if (!progress.is_none()) {
    options.progress = [call = Callback(progress)](int64_t tokens, int64_t wished) {
      const WithGil gil;
      const nb::object done = nb::steal(
          PyObject_CallFunction(call.get(), "LL", static_cast<long long>(tokens), static_cast<long long>(wished)));
      if (!done.is_valid()) carry_error();
    };
  }
  const WithoutGil others;
  return data::Tokenizer::train(texts, options, where);
}

void bind_tokenizers(nb::module_& m) {
  using data::Tokenizer;
  using Ids = std::vector<int64_t>;
  nb::class_<Tokenizer>(m, "_Tokenizer")
      .def_static("load",
                  [](const std::string& path) {
                    const Location where = here();
                    const WithoutGil others;
                    return Tokenizer::load(path, where);
                  })
      .def_static("from_json", [](const std::string& text) { return Tokenizer::from_json(text, here()); })
      .def_static("load_gpt2", [](const std::string& vocab,
                                  const std::string& merges) { return Tokenizer::load_gpt2(vocab, merges, here()); })
      .def_static("train", train, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none())
      .def("save", [](const Tokenizer& t, const std::string& path) { t.save(path, here()); })
      .def("to_json", [](const Tokenizer& t) { return t.to_json(here()); })
      .def("encode", [](const Tokenizer& t, std::string_view text, const std::string& special,
                        bool template_) { return t.encode(text, encode_options(special, template_), here()); })
      .def("encode_bytes",
           [](const Tokenizer& t, const nb::bytes& text, const std::string& special, bool template_) {
             return t.encode({text.c_str(), text.size()}, encode_options(special, template_), here());
           })
      .def("encode_with_offsets",
           [](const Tokenizer& t, std::string_view text, const std::string& special, bool template_) {
             const data::Encoding out = t.encode_with_offsets(text, encode_options(special, template_), here());
             return std::pair(out.ids, out.offsets);
           })
      .def("encode_batch",
           [](const Tokenizer& t, const std::vector<std::string>& texts, const std::string& special, bool template_) {
             const Location where = here();
             const data::EncodeOptions options = encode_options(special, template_);
             const WithoutGil others;
             return t.encode_batch(texts, options, where);
           })
      .def("decode", [](const Tokenizer& t, const Ids& ids, bool skip) { return t.decode(ids, {skip}, here()); })
      .def("decode_bytes",
           [](const Tokenizer& t, const Ids& ids, bool skip) { return bytes_of(t.decode_bytes(ids, {skip}, here())); })
      .def("vocab_size", &Tokenizer::vocab_size)
      .def("token", [](const Tokenizer& t, int64_t id) { return t.token(id, here()); })
      .def("id", [](const Tokenizer& t, std::string_view token) { return t.id(token); })
      .def("is_special", &Tokenizer::is_special)
      .def("merges", &Tokenizer::merges);
}

}  // namespace

void bind_readers(nb::module_& m) {
  bind_tables(m);
  bind_images(m);
  bind_transforms(m);
  bind_tokenizers(m);
}

}  // namespace weft::python
