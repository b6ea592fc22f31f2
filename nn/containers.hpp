// Containers of modules: Sequential, ModuleList, ModuleDict.
#pragma once

#include <string>
#include <vector>

#include "module.hpp"

namespace weft::nn {

namespace detail {

/// The name of a class, without namespaces and template arguments.
WEFT_API std::string short_name(TypeId type);
/// Whether a deep copy of modules is running on this thread.
WEFT_API bool cloning_now();
[[noreturn]] WEFT_API void raise_no_layer(const Module& held, Location where);
[[noreturn]] WEFT_API void raise_wrong_type(const Module& held, TypeId wanted, Location where);
/// The position for index `i`, which counts from the end if negative. Raises IndexError if it is out of range.
WEFT_API size_t checked_place(const char* list, int64_t i, size_t size, Location where);

/// A list index with the source location of its use.
struct Place {
  Place(int64_t number_, Location where_ = {}) : number(number_), where(where_) {}
  int64_t number;
  Location where;
};
/// A name with the source location of its use.
struct Key {
  Key(std::string_view name_, Location where_ = {}) : name(name_), where(where_) {}
  Key(const char* name_, Location where_ = {}) : name(name_), where(where_) {}
  Key(const std::string& name_, Location where_ = {}) : name(name_), where(where_) {}
  std::string_view name;
  Location where;
};

[[noreturn]] WEFT_API void raise_missing_name(Key key, const std::vector<std::string>& names);

template <class L>
inline constexpr bool takes_a_tensor = true;
template <class L>
  requires requires { L::template takes<Input>; }
inline constexpr bool takes_a_tensor<L> = L::template takes<Input>;
template <class L>
concept ModuleOfOneTensor = std::derived_from<L, Module> && takes_a_tensor<L> && requires(L& layer, const Input& x) {
  { layer(x) } -> std::convertible_to<Tensor>;
};
template <class F>
concept FunctionOfOneTensor = !std::derived_from<F, Module> && requires(F & f, const Tensor& x) {
  { f(x) } -> std::convertible_to<Tensor>;
};
template <class L>
concept TensorLayer = ModuleOfOneTensor<L> || FunctionOfOneTensor<L>;

}  // namespace detail

/// Wraps a function of one tensor as a module without parameters.
template <detail::FunctionOfOneTensor F>
class Function : public Layer<Function<F>> {
 public:
  explicit Function(F function) : function_(std::move(function)) {}
  Tensor forward(const Tensor& x) const { return function_(x); }

 private:
  mutable F function_;
};

/// Any module, or function, from one tensor to one tensor. Copies share the module.
class WEFT_API AnyModule : public Module {
 public:
  template <detail::ModuleOfOneTensor L>
    requires(!std::same_as<L, AnyModule>)
  AnyModule(L layer) : AnyModule(Unchecked(), std::move(layer)) {}
  template <detail::FunctionOfOneTensor F>
  AnyModule(F function) : AnyModule(Function<F>(std::move(function))) {}
  /// Wraps any module. If it does not map one tensor to one tensor, it is available by `as` only; calling this raises
  /// ValueError.
  template <std::derived_from<Module> L>
  static AnyModule wrap(L layer) {
    return AnyModule(Unchecked(), std::move(layer));
  }
  AnyModule(const AnyModule& other);
  // Lvalues only: a constant container returns copies, and assigning to one would have no effect.
  AnyModule& operator=(const AnyModule& other) & {
    assign(other);
    held_ = other.held_;
    return *this;
  }

  Tensor operator()(const Input& x) const { return held_->call(x); }
  Tensor forward(const Input& x) const { return held_->call(x); }

  /// The wrapped module: `net[0].as<nn::Linear>().weight`. To replace the module, assign to the element, `net[0] =
  /// nn::Linear(8, 2)`: assigning to the result raises ValueError. Raises ValueError if it is of another class.
  template <class L>
  L& as(Location where = {}) const {
    static_assert(std::is_base_of_v<Module, L>, "as<...>() needs a class of modules: net[0].as<nn::Linear>()");
    if (void* layer = held_->get(TypeId::of<L>())) return *static_cast<L*>(layer);
    detail::raise_wrong_type(*this, TypeId::of<L>(), where);
  }

 private:
  struct Unchecked {};
  template <class L>
  AnyModule(Unchecked, L layer) : Module(layer), held_(Shared<HeldLayer<L>>::make(std::move(layer))) {}

  struct HeldBase {
    virtual ~HeldBase() = default;
    virtual Tensor call(const Input& x) = 0;
    virtual Shared<HeldBase> copy() const = 0;
    virtual void* get(TypeId wanted) = 0;
  };
  template <class L>
  struct HeldLayer final : HeldBase {
    explicit HeldLayer(L layer_) : layer(std::move(layer_)) { hold(layer); }
    HeldLayer(const HeldLayer& other) : layer(other.layer) { hold(layer); }
    Tensor call(const Input& x) override {
      if constexpr (detail::ModuleOfOneTensor<L>) return layer(x);
      else detail::raise_no_layer(layer, x.where);
    }
    Shared<HeldBase> copy() const override { return Shared<HeldLayer>::make(*this); }
    void* get(TypeId wanted) override { return wanted == TypeId::of<L>() ? &layer : nullptr; }
    L layer;
  };

  /// Marks a layer that cannot be assigned to as a whole.
  static void hold(Module& layer);

  Shared<HeldBase> held_;
};

namespace detail {

/// Declares that a container element is shared by the container's copies, so its address is fixed.
WEFT_API void settle(const Module& element);
WEFT_API void settle(const ModuleTensor& element);
template <class M>
void settle(const std::pair<std::string, M>& named) {
  settle(named.second);
}

/// The elements of a container: copies share them, a clone has its own.
template <class T>
class Elements {
 public:
  Elements() = default;
  Elements(const Elements& other) : all_(cloning_now() ? Shared<std::vector<T>>::make(*other.all_) : other.all_) {
    if (cloning_now()) settle_from(0);
  }
  Elements& operator=(const Elements&) = default;
  std::vector<T>& operator*() const { return *all_; }
  std::vector<T>* operator->() const { return all_.get(); }
  /// Of an element that is registered.
  void append(T element) {
    const T* const before = all_->data();
    all_->push_back(std::move(element));
    settle_from(all_->data() == before ? all_->size() - 1 : 0);
  }

 private:
  void settle_from(size_t first) {
    for (size_t i = first; i < all_->size(); ++i) settle((*all_)[i]);
  }
  Shared<std::vector<T>> all_ = Shared<std::vector<T>>::make();
};

}  // namespace detail

/// Calls layers one after the other: `nn::Sequential net(nn::Linear(2, 16), nn::Tanh(), nn::Linear(16, 1))`. A layer is
/// anything that returns a Tensor from a `const Tensor&`; each is registered under its position. An empty Sequential
/// returns x itself.
class WEFT_API Sequential : public Layer<Sequential> {
 public:
  template <class... Layers>
  explicit Sequential(Layers... layers) {
    layers_->reserve(sizeof...(layers));
    (append(std::move(layers)), ...);
  }
  // No moves: a moved-from module would lose its layers, but still share the module's state.
  Sequential(const Sequential& other) = default;
  Sequential& operator=(const Sequential&) = default;

  template <class L>
  Sequential& append(L layer) {
    static_assert(std::same_as<L, AnyModule> || detail::TensorLayer<L>,
                  "a layer of a Sequential maps one tensor to one tensor; wrap other modules in a lambda: "
                  "[m](const Tensor& x) { return m(x, x); }");
    if constexpr (std::same_as<L, AnyModule> || detail::TensorLayer<L>) append_layer(std::move(layer));
    return *this;
  }
  Tensor forward(const Tensor& x, Location where) const;

  size_t size() const { return layers_->size(); }
  bool empty() const { return layers_->empty(); }
  /// A layer; assigning to it replaces the layer: `net[0] = nn::Linear(8, 2)`. A negative index counts from the end.
  /// Raises IndexError if it is out of range.
  AnyModule& operator[](detail::Place i) { return (*layers_)[place(i)]; }
  AnyModule operator[](detail::Place i) const { return (*layers_)[place(i)]; }
  auto begin() const { return std::as_const(*layers_).begin(); }
  auto end() const { return std::as_const(*layers_).end(); }

 private:
  void append_layer(AnyModule layer);
  size_t place(detail::Place i) const {
    return detail::checked_place("nn::Sequential", i.number, layers_->size(), i.where);
  }
  detail::Elements<AnyModule> layers_;
};

/// A list of modules, each registered under its position: `for (const Block& block : blocks) x = block(x);`. It cannot
/// be called. For modules of different classes that map one tensor to one tensor, M may be AnyModule.
template <std::derived_from<Module> M = AnyModule>
class ModuleList : public Module {
 public:
  ModuleList() : Module(TypeId::of<ModuleList>()) {}
  ModuleList(std::initializer_list<M> modules) : ModuleList() {
    for (const M& m : modules) append(m);
  }
  explicit ModuleList(const std::vector<M>& modules) : ModuleList() {
    for (const M& m : modules) append(m);
  }
  // No moves, as in Sequential.
  ModuleList(const ModuleList& other) : Module(other), modules_(other.modules_) { become_copy(other); }
  ModuleList& operator=(const ModuleList& other) {
    assign(other);
    modules_ = other.modules_;
    return *this;
  }

  ModuleList& append(M module, Location where = {}) {
    register_module(std::to_string(modules_->size()), module, where);
    modules_.append(std::move(module));
    return *this;
  }

  size_t size() const { return modules_->size(); }
  bool empty() const { return modules_->empty(); }
  /// A module; assigning to it replaces the module. A negative index counts from the end. Raises IndexError if it is
  /// out of range.
  M& operator[](detail::Place i) { return (*modules_)[place(i)]; }
  const M& operator[](detail::Place i) const { return (*modules_)[place(i)]; }
  auto begin() { return modules_->begin(); }
  auto end() { return modules_->end(); }
  auto begin() const { return std::as_const(*modules_).begin(); }
  auto end() const { return std::as_const(*modules_).end(); }

 private:
  size_t place(detail::Place i) const {
    return detail::checked_place("nn::ModuleList", i.number, modules_->size(), i.where);
  }
  detail::Elements<M> modules_;
};

/// A map of modules in order of insertion, each registered under its name. It cannot be called.
template <std::derived_from<Module> M = AnyModule>
class ModuleDict : public Module {
 public:
  using Item = std::pair<std::string, M>;
  ModuleDict() : Module(TypeId::of<ModuleDict>()) {}
  ModuleDict(std::initializer_list<Item> items) : ModuleDict() {
    for (const Item& item : items) insert(item.first, item.second);
  }
  // No moves, as in Sequential.
  ModuleDict(const ModuleDict& other) : Module(other), items_(other.items_) { become_copy(other); }
  ModuleDict& operator=(const ModuleDict& other) {
    assign(other);
    items_ = other.items_;
    return *this;
  }

  /// Raises ValueError if the name is already used, empty, or contains a dot.
  ModuleDict& insert(const std::string& name, M module, Location where = {}) {
    register_module(name, module, where);
    items_.append({name, std::move(module)});
    return *this;
  }

  size_t size() const { return items_->size(); }
  bool empty() const { return items_->empty(); }
  bool contains(std::string_view name) const { return number_of(name) < items_->size(); }
  std::vector<std::string> keys() const {
    std::vector<std::string> out;
    for (const Item& item : *items_) out.push_back(item.first);
    return out;
  }
  /// A module; assigning to it replaces the module. Raises IndexError if the name does not exist.
  M& operator[](detail::Key key) { return (*items_)[checked_number(key)].second; }
  const M& operator[](detail::Key key) const { return (*items_)[checked_number(key)].second; }
  /// Iterates over pairs of name and module.
  auto begin() { return items_->begin(); }
  auto end() { return items_->end(); }
  auto begin() const { return std::as_const(*items_).begin(); }
  auto end() const { return std::as_const(*items_).end(); }

 private:
  size_t number_of(std::string_view name) const {
    size_t i = 0;
    while (i < items_->size() && (*items_)[i].first != name) ++i;
    return i;
  }
  size_t checked_number(detail::Key key) const {
    const size_t i = number_of(key.name);
    if (i == items_->size()) detail::raise_missing_name(key, keys());
    return i;
  }
  detail::Elements<Item> items_;
};

}  // namespace weft::nn
