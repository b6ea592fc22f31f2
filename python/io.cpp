// Files for Python: safetensors, sharded models, .npy, .npz and .pt.
#include <algorithm>
#include <ostream>
#include <streambuf>
#include <unordered_map>

#include <nanobind/stl/tuple.h>

#include "../io/npy.hpp"
#include "../io/npz.hpp"
#include "../io/pt.hpp"
#include "../io/sharded.hpp"
#include "../io/sharded_state.hpp"

#include "caster.hpp"
#include "object.hpp"
#include "shards.hpp"

namespace weft::python {

namespace {

/// Creates Python objects from a .pt file's values, and preserves shared objects.
class Objects {
 public:
  nb::object of(const io::PtValue& value) {
    const auto found = made_.find(value.identity());
    if (found != made_.end() && value.identity() != nullptr) return found->second;
    nb::object out = make(value);
    made_.emplace(value.identity(), out);
    return out;
  }

 private:
  nb::object make(const io::PtValue& value) {
    using Kind = io::PtValue::Kind;
    switch (value.kind()) {
      case Kind::none:
        return nb::none();
      case Kind::boolean:
        return nb::bool_(value.boolean());
      case Kind::integer:
        return nb::int_(value.integer());
      case Kind::floating:
        return nb::float_(value.number());
      case Kind::string:
      case Kind::device:
        return text(value.string());
      case Kind::bytes:
        return nb::bytes(value.string().data(), value.string().size());
      case Kind::tensor:
        return nb::cast(value.tensor());
      case Kind::dtype:
        return nb::borrow(dtype_objects[static_cast<int>(value.dtype())]);
      case Kind::dict:
        return dict(value);
      default:
        return items(value);
    }
  }
  static nb::object text(const std::string& s) {
    return nb::steal(Ref(PyUnicode_DecodeUTF8(s.data(), std::ssize(s), "surrogatepass")).release());
  }
  nb::object dict(const io::PtValue& value) {
    nb::dict out;
    for (const io::PtEntry& e : value.entries()) out[of(e.key)] = of(e.value);
    return out;
  }
  nb::object items(const io::PtValue& value) {
    nb::list out;
    for (const io::PtValue& item : value.items()) out.append(of(item));
    if (value.is(io::PtValue::Kind::set)) return nb::steal(Ref(PySet_New(out.ptr())).release());
    return value.is(io::PtValue::Kind::tuple) ? nb::object(nb::tuple(out)) : nb::object(out);
  }

  std::unordered_map<const void*, nb::object> made_;
};

nb::object load_pt(const std::string& path, Device device) {
  const Location where = here();
  io::PtValue value;
  {
    const WithoutGil others;
    value = io::load_pt(path, device, where);
  }
  return Objects().of(value);
}

using Names = std::optional<std::vector<std::string>>;

io::SaveOptions save_options(bool alias) { return {.tie = alias ? io::Tie::alias : io::Tie::error}; }

std::optional<DType> optional_dtype(nb::handle dtype) {
  if (dtype.is_none()) return std::nullopt;
  const auto found = to_dtype(dtype.ptr());
  if (!found)
    throw_type_error("load_sharded(): argument 'dtype': expected a weft.dtype or None, got " + type_name(dtype.ptr()));
  return found;
}

io::Mapping mapping_of(const io::Mapping* mapping) { return mapping == nullptr ? io::Mapping() : *mapping; }

void bind_mapping(nb::module_& m) {
  nb::class_<io::Mapping>(m, "_Mapping")
      .def(nb::new_([](const std::string& text) { return io::Mapping::parse(text, here()); }))
      .def_static("read", [](const std::string& path) { return io::Mapping::read(path, here()); })
      .def("leaves", &io::Mapping::leaves);
}

void bind_safe_file(nb::module_& m) {
  nb::class_<io::SafeFile>(m, "_SafeFile")
      .def(nb::new_([](const std::string& path, bool mmap) {
        const Location where = here();
        const WithoutGil others;
        return io::SafeFile::open(path, {.mmap = mmap}, where);
      }))
      .def("keys", &io::SafeFile::keys)
      .def("metadata", &io::SafeFile::metadata)
      .def("shape",
           [](const io::SafeFile& file, const std::string& name) {
             const Dims& shape = file.info(name, here()).shape;
             return std::vector<int64_t>(shape.begin(), shape.end());
           })
      .def("dtype", [](const io::SafeFile& file,
                       const std::string& name) { return std::string(weft::name(file.info(name, here()).dtype)); })
      .def("get",
           [](const io::SafeFile& file, const std::string& name, Device device) {
             const Location where = here();
             const WithoutGil others;
             return file.get(name, device, where);
           })
      .def("mapped",
           [](const io::SafeFile& file, const io::Mapping& mapping) {
             const Location where = here();
             return mapping.apply(io::TensorStore(file, where), where);
           })
      .def("get_slice", [](const io::SafeFile& file, const std::string& name, const std::vector<int64_t>& starts,
                           const std::vector<int64_t>& ends, Device device) {
        const Location where = here();
        const WithoutGil others;
        return file.get_slice(name, starts, ends, device, where);
      });
}

void bind_store(nb::module_& m) {
  nb::class_<io::TensorStore>(m, "_TensorStore")
      .def("keys",
           [](const io::TensorStore& store) {
             std::vector<std::string> names;
             for (const auto& entry : store.entries()) names.push_back(entry.first);
             return names;
           })
      .def("shape",
           [](const io::TensorStore& store, const std::string& name) {
             const Dims& shape = store.info(name, here()).shape;
             return std::vector<int64_t>(shape.begin(), shape.end());
           })
      .def("get",
           [](const io::TensorStore& store, const std::string& name, Device device) {
             const Location where = here();
             const WithoutGil others;
             return store.get(name, device, where);
           })
      .def("copy",
           [](const io::TensorStore& store, const std::string& name, Device device) {
             const Location where = here();
             const WithoutGil others;
             return store.copy(name, device, where);
           })
      .def("get_slice", [](const io::TensorStore& store, const std::string& name, const std::vector<int64_t>& starts,
                           const std::vector<int64_t>& ends, Device device) {
        const Location where = here();
        const WithoutGil others;
        return store.get_slice(name, starts, ends, device, where);
      });
  m.def("_map_tensors", [](const io::TensorMap& tensors, const io::Mapping& mapping, bool of_optimizer) {
    const Location where = here();
    const WithoutGil others;
    const io::TensorStore store(tensors, where);
    return (of_optimizer ? mapping.apply_to_optimizer(store, where) : mapping.apply(store, where)).tensors({}, where);
  });
}

void bind_sharded(nb::module_& m) {
  m.def("_save_sharded",
        [](const std::vector<std::pair<std::string, Tensor>>& tensors, const std::string& folder,
           const std::string& most, const std::string& prefix, const io::Metadata& metadata, bool alias) {
          const Location where = here();
          const WithoutGil others;
          io::TensorList list;
          list.assign(tensors.begin(), tensors.end());
          return io::save_sharded(list, folder,
                                  {.max_shard_size = io::ByteCount(most, where),
                                   .prefix = prefix,
                                   .metadata = metadata,
                                   .tie = alias ? io::Tie::alias : io::Tie::error},
                                  where);
        });
  m.def(
      "_load_sharded",
      [](const std::string& folder, Device device, const std::map<std::string, Device>& device_map, nb::object dtype,
         bool on_disk, const std::string& prefix, bool prefer_index, const io::Mapping* mapping) {
        const Location where = here();
        const io::LoadShardedOptions options = {.device = device,
                                                .device_map = device_map,
                                                .dtype = optional_dtype(dtype),
                                                .offload = on_disk ? io::Offload::disk : io::Offload::cpu,
                                                .prefix = prefix,
                                                .prefer_index = prefer_index,
                                                .mapping = mapping == nullptr ? std::nullopt : std::optional(*mapping)};
        const WithoutGil others;
        return io::load_sharded(folder, options, where);
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
}

void bind_states(nb::module_& m) {
  m.def(
      "_save_state_dict",
      [](const std::vector<Shards>& ranks, const std::string& folder, std::optional<int64_t> id, bool replicas,
         const std::map<std::string, std::vector<std::string>>& nested_names) {
        const Location where = here();
        std::vector<io::ShardedState> states;
        for (const auto& rank : ranks) states.push_back(state_of(rank));
        const WithoutGil others;
        return io::save_state_dict(states, folder, {.id = id, .replicas = replicas, .nested_names = nested_names},
                                   where);
      },
      nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg());
  m.def(
      "_load_state_dict",
      [](const Shards& state, const std::string& folder, std::optional<int64_t> id, bool strict,
         const io::Mapping* mapping) {
        const Location where = here();
        const io::ShardedState shards = state_of(state);
        const io::LoadStateDictOptions options = {.id = id, .strict = strict, .mapping = mapping_of(mapping)};
        const WithoutGil others;
        io::load_state_dict(shards, folder, options, where);
      },
      nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none());
  m.def("_state_ids", [](const std::string& folder) { return io::state_ids(folder); });
}

void bind_merge(nb::module_& m) {
  m.def(
      "_merge_sharded",
      [](const std::string& from, const std::string& to, std::optional<int64_t> id, const std::string& prefix,
         const std::vector<std::string>& skip_suffixes, const io::Mapping* mapping, bool offload,
         const std::string& most) {
        const Location where = here();
        const io::MergeOptions options = {.id = id,
                                          .prefix = prefix,
                                          .skip_suffixes = skip_suffixes,
                                          .mapping = mapping_of(mapping),
                                          .offload = offload,
                                          .shards = {.max_shard_size = io::ByteCount(most, where)}};
        const WithoutGil others;
        return io::merge_sharded(from, to, options, where);
      },
      nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg());
}

/// Bytes for the `write` of a Python file, socket or pipe, which may take fewer than it is given.
class PythonSink final : public std::streambuf {
 public:
  explicit PythonSink(nb::handle write) : write_(write) {}

 private:
  std::streamsize xsputn(const char* data, std::streamsize count) override {
    for (std::streamsize done = 0; done < count;) {
      const std::streamsize taken = write(data + done, count - done);
      if (taken <= 0) return done;
      done += taken;
    }
    return count;
  }
  int_type overflow(int_type c) override {
    const char byte = traits_type::to_char_type(c);
    return write(&byte, 1) == 1 ? c : traits_type::eof();
  }
  /// -1 with Python's error set.
  std::streamsize write(const char* data, std::streamsize count) {
    if (PyErr_Occurred() != nullptr) return -1;
    PyObject* bytes = PyBytes_FromStringAndSize(data, std::min<std::streamsize>(count, 1 << 20));
    PyObject* taken = bytes == nullptr ? nullptr : PyObject_CallOneArg(write_.ptr(), bytes);
    Py_XDECREF(bytes);
    if (taken == nullptr) return -1;
    const std::streamsize all = std::min<std::streamsize>(count, 1 << 20);
    const std::streamsize number = taken == Py_None ? all : PyLong_AsSsize_t(taken);
    Py_DECREF(taken);
    return number;
  }

  nb::handle write_;
};

void save_stream(nb::handle file, const io::TensorMap& tensors, const io::Metadata& metadata, bool alias) {
  const nb::object write = file.attr("write");
  PythonSink sink(write);
  std::ostream out(&sink);
  try {
    io::save_stream(out, tensors, metadata, save_options(alias), here());
  } catch (const IoError&) {
    if (PyErr_Occurred() != nullptr) throw PythonError();  // what `write` raised says more
    throw;
  }
}

}  // namespace

void bind_io(nb::module_& m) {
  m.def("_save_stream", save_stream);
  m.def("_save_file",
        [](const io::TensorMap& tensors, const std::string& path, const io::Metadata& metadata, bool alias) {
          const Location where = here();
          const WithoutGil others;
          io::save_file(tensors, path, metadata, save_options(alias), where);
        });
  m.def(
      "_load_file",
      [](const std::string& path, Device device, const Names& names, bool mmap) {
        const Location where = here();
        const WithoutGil others;
        return io::load_file(path, device, names, {.mmap = mmap}, where);
      },
      nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  m.def("_metadata", [](const std::string& path) { return io::SafeFile::open(path, here()).metadata(); });
  bind_mapping(m);
  bind_store(m);
  bind_safe_file(m);
  bind_sharded(m);
  bind_states(m);
  bind_merge(m);
  m.def("_save_npy", [](const Tensor& tensor, const std::string& path) { io::save_npy(tensor, path, here()); });
  m.def("_load_npy", [](const std::string& path, Device device) { return io::load_npy(path, device, here()); });
  m.def("_save_npz", [](const io::TensorMap& tensors, const std::string& path, bool compressed) {
    const Location where = here();
    const WithoutGil others;
    io::save_npz(tensors, path, compressed, where);
  });
  m.def("_load_npz", [](const std::string& path, Device device) {
    const Location where = here();
    const WithoutGil others;
    return io::load_npz(path, device, where);
  });
  m.def("_load_pt", load_pt);
}

}  // namespace weft::python
