// Converts files of models and tensors: `./weft convert`. The output is read back and compared.
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <weft/io/file.hpp>
#include <weft/io/model.hpp>
#include <weft/io/npz.hpp>
#include <weft/io/pt.hpp>
#include <weft/io/tensor_json.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>

using weft::DType, weft::Tensor, weft::ValueError;
namespace fs = std::filesystem;
namespace io = weft::io;
using Json = nlohmann::ordered_json;

namespace {

struct Options {
  std::string from, to, entry, max_shard_size = "5GB";
  std::string dtype, mapping;
  bool force = false;
};

/// The contents of a file: a module tree as JSON text, or tensors.
struct Contents {
  std::string tree = {};
  io::TensorMap tensors = {};
  io::Metadata metadata = {};
  bool is_tree() const { return !tree.empty(); }
};

constexpr const char* command = "weft convert";

[[noreturn]] void fail(const std::string& problem, const std::string& remedy = {}) {
  weft::raise<ValueError>({.op = command, .problem = problem, .remedy = remedy}, weft::Location::none());
}

std::string extension_of(const std::string& path) {
  if (path.ends_with('/') || fs::is_directory(path)) return "/";
  return fs::path(path).extension();
}

std::string bytes_of(const std::string& path) { return io::read_file(path, command, weft::Location::none()); }

void write_bytes(const std::string& path, const std::string& bytes) {
  io::write_file(path, bytes, command, weft::Location::none());
}

// ---- reading ----

Contents from_json_text(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_object() && json.contains("model")) return {.tree = io::to_json(io::read_model(text))};
  io::JsonTensors read = io::tensors_from_json(text);
  return {.tensors = std::move(read.tensors), .metadata = std::move(read.metadata)};
}

Contents from_cbor(const std::string& path) {
  const Json json = Json::from_cbor(bytes_of(path), true, false);
  if (json.is_discarded()) fail(path + " is no CBOR");
  return from_json_text(json.dump());
}

Contents read(const std::string& path, const std::string& entry) {
  const std::string kind = extension_of(path);
  if (!entry.empty() && kind != ".pt" && kind != ".pth" && kind != ".bin") fail("--entry is for files of torch.save");
  if (kind == "/") return {.tensors = io::load_sharded(path)};
  if (kind == ".safetensors") return {.tensors = io::load_file(path), .metadata = io::SafeFile::open(path).metadata()};
  if (kind == ".npz") return {.tensors = io::load_npz(path)};
  if (kind == ".pt" || kind == ".pth" || kind == ".bin") return {.tensors = io::load_pt_state_dict(path, entry)};
  if (kind == ".json") return from_json_text(bytes_of(path));
  if (kind == ".cbor") return from_cbor(path);
  fail(fmt::format("{} is of no kind that is read", path),
       "FROM is a folder, or a .safetensors, .npz, .pt, .pth, .bin, .json or .cbor file");
}

// ---- writing ----

std::string cbor_of(const std::string& json) {
  const std::vector<uint8_t> bytes = Json::to_cbor(Json::parse(json));
  return {bytes.begin(), bytes.end()};
}

void write_tree(const std::string& tree, const std::string& path) {
  const std::string kind = extension_of(path);
  if (kind == ".json") return write_bytes(path, tree);
  if (kind == ".cbor") return write_bytes(path, cbor_of(tree));
  fail(fmt::format("a model's tree has no weights for {}", path), "write it to a .json or .cbor file");
}

void write_tensors(const Contents& contents, const Options& options) {
  const std::string& path = options.to;
  const std::string kind = extension_of(path);
  if (kind == ".safetensors") {
    io::save_file(contents.tensors, path, contents.metadata, {.tie = io::Tie::alias});
  } else if (kind == "/") {
    io::save_sharded(contents.tensors, path, {.max_shard_size = options.max_shard_size, .tie = io::Tie::alias});
  } else if (kind == ".npz") {
    io::save_npz(contents.tensors, path);
  } else if (kind == ".json") {
    write_bytes(path, io::tensors_to_json(contents.tensors, contents.metadata));
  } else if (kind == ".cbor") {
    write_bytes(path, cbor_of(io::tensors_to_json(contents.tensors, contents.metadata)));
  } else {
    fail(fmt::format("{} is of no kind that is written", path),
         "TO is a folder/, or a .safetensors, .npz, .json or .cbor file");
  }
}

// ---- verification ----

bool same_values(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  const Tensor left = a.contiguous(), right = b.contiguous();
  const size_t bytes = static_cast<size_t>(a.numel()) * weft::itemsize(a.dtype());
  if (bytes == 0 || std::memcmp(left.data_ptr(), right.data_ptr(), bytes) == 0) return true;
  if (!is_floating(a.dtype())) return false;
  // JSON stores NaN without its bits.
  const DType wide = a.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor x = left.to(wide), y = right.to(wide);
  return all(logical_or(eq(x, y), logical_and(isnan(x), isnan(y)))).item<bool>();
}

void check(const Contents& wanted, const std::string& path) {
  const Contents written = read(path, {});
  if (written.tree != wanted.tree) fail(path + " holds another tree than was written");
  if (written.tensors.size() != wanted.tensors.size()) fail(path + " holds other tensors than were written");
  for (const auto& [name, tensor] : wanted.tensors) {
    const auto found = written.tensors.find(name);
    if (found == written.tensors.end() || !same_values(tensor, found->second)) {
      fail(fmt::format("{} holds another \"{}\" than was written", path, name));
    }
  }
}

void convert(const Options& options) {
  Contents contents = read(options.from, options.entry);
  if (!options.force && fs::exists(options.to)) fail(options.to + " is there", "--force replaces it");
  if (!options.mapping.empty()) {
    if (contents.is_tree()) fail("--map is for tensors", "a model's tree has none");
    contents.tensors = io::Mapping::read(options.mapping).apply(contents.tensors).tensors();
  }
  if (!options.dtype.empty()) {
    const DType dtype = weft::dtype_from_name(options.dtype.c_str());
    for (auto& [name, tensor] : contents.tensors) {
      if (is_floating(tensor.dtype())) tensor = tensor.to(dtype);
    }
  }
  if (contents.is_tree()) write_tree(contents.tree, options.to);
  else write_tensors(contents, options);
  check(contents, options.to);
  int64_t elements = 0;
  for (const auto& [name, tensor] : contents.tensors) elements += tensor.numel();
  std::cout << (contents.is_tree()
                    ? fmt::format("{}: a model's tree", options.to)
                    : fmt::format("{}: {} tensors, {} elements", options.to, contents.tensors.size(), elements))
            << ", read again and found equal\n";
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Converts files of tensors (safetensors, npz, JSON, CBOR; files of torch.save; folders of several safetensors "
      "files), and models' trees (JSON, CBOR), reads its result, and compares.",
      "weft convert"};
  Options options;
  app.add_option("FROM", options.from, "a folder, or a .safetensors, .npz, .pt, .json or .cbor file")->required();
  app.add_option("TO", options.to, "a folder/, or a .safetensors, .npz, .json or .cbor file")->required();
  app.add_option("--entry", options.entry, "of a .pt file: the state_dict under this name");
  app.add_option("--dtype", options.dtype, "converts floating tensors, to bfloat16 for example");
  app.add_option("--map", options.mapping, "a file of statements that rename, join, split and permute the tensors");
  app.add_option("--max-shard-size", options.max_shard_size, "of a folder: most bytes of a file")
      ->capture_default_str();
  app.add_flag("--force", options.force, "replaces existing files");
  CLI11_PARSE(app, argc, argv);
  try {
    convert(options);
  } catch (const std::exception& error) {
    std::cerr << "weft: " << error.what() << '\n';
    return 1;
  }
}
