// Modules made of modules: Sequential, ModuleList, ModuleDict.
#pragma once

#include <string>
#include <vector>

#include "module.hpp"

namespace weft::nn {

namespace detail {

/// The name of a class without namespaces and template arguments.
WEFT_API std::string short_name(const std::type_info& type);
/// Whether modules are being copied deeply on this thread.
WEFT_API bool cloning_now();
[[noreturn]] WEFT_API void raise_no_layer(const Module& held, Location where);
[[noreturn]] WEFT_API void raise_wrong_type(const Module& held, const std::type_info& wanted, Location where);
/// A place of a list of `size`, counted from the end where `i` is negative. IndexError where there is none.
WEFT_API size_t checked_place(const char* list, int64_t i, size_t size, Location where);

/// The index of a list with the place where it was written.
struct Place {
  Place(int64_t number_, Location where_ = {}) : number(number_), where(where_) {}
  int64_t number;
  Location where;
};
/// The same for a name.
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

/// A function of one tensor as a module without parameters.
template <detail::FunctionOfOneTensor F>
class Function : public Layer<Function<F>> {
 public:
  explicit Function(F function) : function_(std::move(function)) {}
  Tensor forward(const Tensor& x) const { return function_(x); }

 private:
  mutable F function_;
};

/// Any module from one tensor to one, or any function of that kind. Copies share the module, as those of all modules.
class WEFT_API AnyModule : public Module {
 public:
  template <detail::ModuleOfOneTensor L>
    requires(!std::same_as<L, AnyModule>)
  AnyModule(L layer) : AnyModule(Unchecked(), std::move(layer)) {}
  template <detail::FunctionOfOneTensor F>
  AnyModule(F function) : AnyModule(Function<F>(std::move(function))) {}
  /// Any module at all. Where it makes no tensor of one, `as` gives it, and calling it here is a ValueError.
  template <std::derived_from<Module> L>
  static AnyModule of(L layer) {
    return AnyModule(Unchecked(), std::move(layer));
  }
  AnyModule(const AnyModule& other);
  // Not to a copy, as an index of a constant container returns.
  AnyModule& operator=(const AnyModule& other) & {
    assign(other);
    held_ = other.held_;
    return *this;
  }

  Tensor operator()(const Input& x) const { return held_->call(x); }

  /// The module itself: `net[0].as<nn::Linear>().weight`. ValueError where it is of another class. Assigning to it as a
  /// whole is a ValueError: assign to the element, `net[0] = nn::Linear(8, 2)`.
  template <class L>
  L& as(Location where = {}) const {
    static_assert(std::is_base_of_v<Module, L>, "as<...>() names a class of modules");
    if (void* layer = held_->get(typeid(L))) return *static_cast<L*>(layer);
    detail::raise_wrong_type(*this, typeid(L), where);
  }

 private:
  struct Unchecked {};
  template <class L>
  AnyModule(Unchecked, L layer) : Module(layer), held_(Shared<HeldLayer<L>>::make(std::move(layer))) {}

  struct HeldBase {
    virtual ~HeldBase() = default;
    virtual Tensor call(const Input& x) = 0;
    virtual Shared<HeldBase> copy() const = 0;
    virtual void* get(const std::type_info& wanted) = 0;
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
    void* get(const std::type_info& wanted) override { return wanted == typeid(L) ? &layer : nullptr; }
    L layer;
  };

  /// Marks a layer that cannot be assigned to as a whole.
  static void hold(Module& layer);

  Shared<HeldBase> held_;
};

namespace detail {

/// A registered element of a container stands at one address, which the container's copies share.
WEFT_API void settle(const Module& element);
WEFT_API void settle(const ModuleTensor& element);
template <class M>
void settle(const std::pair<std::string, M>& named) {
  settle(named.second);
}

/// The elements of a container, which its copies share; a clone has its own.
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

/// Layers called one after the other: `nn::Sequential net(nn::Linear(2, 16), nn::Tanh(), nn::Linear(16, 1))`. Anything
/// that makes a Tensor from a `const Tensor&` will do; each is registered under its position. An empty one gives x
/// itself.
class WEFT_API Sequential : public Layer<Sequential> {
 public:
  template <class... Layers>
  explicit Sequential(Layers... layers) {
    layers_->reserve(sizeof...(layers));
    (append(std::move(layers)), ...);
  }
  // No moves: what is moved from would go without its layers, and still be a module of that state.
  Sequential(const Sequential& other) = default;
  Sequential& operator=(const Sequential&) = default;

  template <class L>
  Sequential& append(L layer) {
    static_assert(std::same_as<L, AnyModule> || detail::TensorLayer<L>, "a layer makes one tensor of one tensor");
    if constexpr (std::same_as<L, AnyModule> || detail::TensorLayer<L>) append_layer(std::move(layer));
    return *this;
  }
  Tensor forward(const Tensor& x, Location where) const;

  size_t size() const { return layers_->size(); }
  bool empty() const { return layers_->empty(); }
  /// One layer, to which another may be assigned: `net[0] = nn::Linear(8, 2)`. Negative counts from the end. IndexError
  /// where there is none.
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

/// Modules by position, each registered under it: `for (const Block& block : blocks) x = block(x);`. It is not called
/// itself. M may be AnyModule, where the modules differ and each makes one tensor of one.
template <std::derived_from<Module> M = AnyModule>
class ModuleList : public Module {
 public:
  ModuleList() : Module(typeid(ModuleList)) {}
  ModuleList(std::initializer_list<M> modules) : ModuleList() {
    for (const M& m : modules) append(m);
  }
  explicit ModuleList(const std::vector<M>& modules) : ModuleList() {
    for (const M& m : modules) append(m);
  }
  // No moves, as of a Sequential.
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
  /// One module, to which another may be assigned. Negative counts from the end. IndexError where there is none.
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

/// Modules by name, in order of insertion, each registered under its name. It is not called itself.
template <std::derived_from<Module> M = AnyModule>
class ModuleDict : public Module {
 public:
  using Item = std::pair<std::string, M>;
  ModuleDict() : Module(typeid(ModuleDict)) {}
  ModuleDict(std::initializer_list<Item> items) : ModuleDict() {
    for (const Item& item : items) insert(item.first, item.second);
  }
  // No moves, as of a Sequential.
  ModuleDict(const ModuleDict& other) : Module(other), items_(other.items_) { become_copy(other); }
  ModuleDict& operator=(const ModuleDict& other) {
    assign(other);
    items_ = other.items_;
    return *this;
  }

  /// ValueError where the name is taken, empty, or holds a dot.
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
  /// One module, to which another may be assigned. IndexError where there is no such name.
  M& operator[](detail::Key key) { return (*items_)[checked_number(key)].second; }
  const M& operator[](detail::Key key) const { return (*items_)[checked_number(key)].second; }
  /// Pairs of name and module.
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
