// Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict, Functional.
#pragma once

#include <memory>
#include <vector>

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/any.h>

namespace torch::nn {

namespace detail {
template <class M>
concept ModuleValue = torch::detail::is_module<M>::value;
template <class M>
concept ModuleHolderValue = torch::detail::is_module_holder<M>::value;
void check_index(size_t i, size_t size);
}  // namespace detail

/// Calls its modules one after the other.
class SequentialImpl : public Cloneable<SequentialImpl> {
 public:
  using Iterator = std::vector<AnyModule>::iterator;
  using ConstIterator = std::vector<AnyModule>::const_iterator;

  SequentialImpl() = default;
  template <class... M>
    requires(sizeof...(M) > 0 && !(std::is_same_v<std::remove_cvref_t<M>, SequentialImpl> || ...) &&
             !(std::is_same_v<std::remove_cvref_t<M>, OrderedDict<std::string, AnyModule>> || ...))
  explicit SequentialImpl(M&&... modules) {
    modules_.reserve(sizeof...(M));
    (push_back(std::forward<M>(modules)), ...);
  }
  explicit SequentialImpl(OrderedDict<std::string, AnyModule>&& named) {
    for (auto& item : named) push_back(item.key(), std::move(item.value()));
  }
  explicit SequentialImpl(std::initializer_list<NamedAnyModule> named) {
    for (const NamedAnyModule& item : named) push_back(item.name(), item.module());
  }

  std::shared_ptr<Module> clone(const optional<Device>& device = nullopt) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::Sequential"; }

  template <class R = Tensor, class... A>
  R forward(A&&... inputs) {
    TORCH_CHECK(!is_empty(), "Cannot call forward() on an empty Sequential");
    AnyValue value = modules_.front().any_forward(std::forward<A>(inputs)...);
    for (size_t i = 1; i < modules_.size(); ++i) value = modules_[i].any_forward(std::move(value));
    if (auto* result = value.template try_get<R>()) return std::move(*result);
    TORCH_CHECK(false, "The type of the return value is ", detail::type_name(value.type_info()),
                ", but you asked for type ", detail::type_name(typeid(R)));
  }

  template <class M>
  void push_back(std::shared_ptr<M> module) {
    push_back(std::to_string(modules_.size()), std::move(module));
  }
  template <class M>
  void push_back(std::string name, std::shared_ptr<M> module) {
    push_back(std::move(name), AnyModule(std::move(module)));
  }
  template <detail::ModuleValue M>
  void push_back(M&& module) {
    push_back(AnyModule(std::forward<M>(module)));
  }
  template <detail::ModuleValue M>
  void push_back(std::string name, M&& module) {
    push_back(std::move(name), AnyModule(std::forward<M>(module)));
  }
  template <class M>
  void push_back(const ModuleHolder<M>& module) {
    push_back(AnyModule(module));
  }
  template <class M>
  void push_back(std::string name, const ModuleHolder<M>& module) {
    push_back(std::move(name), AnyModule(module));
  }
  void push_back(const NamedAnyModule& named) { push_back(named.name(), named.module()); }
  void push_back(AnyModule module) { push_back(std::to_string(modules_.size()), std::move(module)); }
  void push_back(std::string name, AnyModule module) {
    modules_.push_back(std::move(module));
    register_module(std::move(name), modules_.back().ptr());
  }
  template <class Container>
    requires requires(const Container& c) {
      c.begin();
      c.end();
    }
  void extend(const Container& container) {
    for (const auto& module : container) push_back(module);
  }

  Iterator begin() { return modules_.begin(); }
  ConstIterator begin() const { return modules_.begin(); }
  Iterator end() { return modules_.end(); }
  ConstIterator end() const { return modules_.end(); }
  template <class T>
  T& at(size_t i) {
    detail::check_index(i, size());
    return modules_[i].get<T>();
  }
  template <class T>
  const T& at(size_t i) const {
    detail::check_index(i, size());
    return modules_[i].get<T>();
  }
  std::shared_ptr<Module> ptr(size_t i) const {
    detail::check_index(i, size());
    return modules_[i].ptr();
  }
  template <class T>
  std::shared_ptr<T> ptr(size_t i) const {
    detail::check_index(i, size());
    return modules_[i].ptr<T>();
  }
  std::shared_ptr<Module> operator[](size_t i) const { return ptr(i); }
  size_t size() const noexcept { return modules_.size(); }
  bool is_empty() const noexcept { return modules_.empty(); }

 private:
  std::vector<AnyModule> modules_;
};
class Sequential : public ModuleHolder<SequentialImpl> {
 public:
  using ModuleHolder<SequentialImpl>::ModuleHolder;
  Sequential() = default;
  Sequential(std::initializer_list<NamedAnyModule> named) : ModuleHolder(std::make_shared<SequentialImpl>(named)) {}
  template <class R = Tensor, class... A>
  auto operator()(A&&... inputs) {
    return get()->forward(std::forward<A>(inputs)...);
  }
};

class ModuleListImpl : public Cloneable<ModuleListImpl> {
 public:
  using Iterator = std::vector<std::shared_ptr<Module>>::iterator;
  using ConstIterator = std::vector<std::shared_ptr<Module>>::const_iterator;

  ModuleListImpl() = default;
  template <class... M>
    requires(sizeof...(M) > 0 && !(std::is_same_v<std::remove_cvref_t<M>, ModuleListImpl> || ...))
  explicit ModuleListImpl(M&&... modules) { (push_back(std::forward<M>(modules)), ...); }
  std::shared_ptr<Module> clone(const optional<Device>& device = nullopt) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::ModuleList"; }

  void push_back(std::shared_ptr<Module> module) {
    modules_.push_back(std::move(module));
    register_module(std::to_string(modules_.size() - 1), modules_.back());
  }
  template <detail::ModuleValue M>
  void push_back(M&& module) {
    push_back(std::shared_ptr<Module>(std::make_shared<std::decay_t<M>>(std::forward<M>(module))));
  }
  template <class M>
  void push_back(const ModuleHolder<M>& module) {
    push_back(std::shared_ptr<Module>(module.ptr()));
  }
  template <class Container>
  void extend(const Container& container) {
    for (const auto& module : container) push_back(module);
  }
  void insert(size_t i, std::shared_ptr<Module> module);
  template <class M>
  void insert(size_t i, const ModuleHolder<M>& module) {
    insert(i, std::shared_ptr<Module>(module.ptr()));
  }
  template <detail::ModuleValue M>
  void insert(size_t i, M&& module) {
    insert(i, std::shared_ptr<Module>(std::make_shared<std::decay_t<M>>(std::forward<M>(module))));
  }

  Iterator begin() { return modules_.begin(); }
  ConstIterator begin() const { return modules_.begin(); }
  Iterator end() { return modules_.end(); }
  ConstIterator end() const { return modules_.end(); }
  template <class T>
  T& at(size_t i) const {
    detail::check_index(i, size());
    T* module = modules_[i]->template as<T>();
    TORCH_CHECK(module != nullptr, "Unable to cast module[", i, "] to ", detail::type_name(typeid(T)));
    return *module;
  }
  std::shared_ptr<Module> ptr(size_t i) const {
    detail::check_index(i, size());
    return modules_[i];
  }
  template <class T>
  std::shared_ptr<T> ptr(size_t i) const {
    const auto module = std::dynamic_pointer_cast<T>(ptr(i));
    TORCH_CHECK(module != nullptr, "Unable to cast module[", i, "] to ", detail::type_name(typeid(T)));
    return module;
  }
  std::shared_ptr<Module> operator[](size_t i) const { return ptr(i); }
  size_t size() const noexcept { return modules_.size(); }
  bool is_empty() const noexcept { return modules_.empty(); }

 private:
  std::vector<std::shared_ptr<Module>> modules_;
};
TORCH_MODULE(ModuleList);

class ModuleDictImpl : public Cloneable<ModuleDictImpl> {
 public:
  using Iterator = OrderedDict<std::string, std::shared_ptr<Module>>::Iterator;
  using ConstIterator = OrderedDict<std::string, std::shared_ptr<Module>>::ConstIterator;
  using Pairs = std::vector<std::pair<std::string, std::shared_ptr<Module>>>;

  ModuleDictImpl() = default;
  explicit ModuleDictImpl(const Pairs& modules) { update(modules); }
  explicit ModuleDictImpl(const OrderedDict<std::string, std::shared_ptr<Module>>& modules) { update(modules); }
  std::shared_ptr<Module> clone(const optional<Device>& device = nullopt) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::ModuleDict"; }

  OrderedDict<std::string, std::shared_ptr<Module>> items() const { return children_; }
  std::vector<std::string> keys() const { return children_.keys(); }
  std::vector<std::shared_ptr<Module>> values() const { return children_.values(); }
  Iterator begin() { return children_.begin(); }
  ConstIterator begin() const { return children_.begin(); }
  Iterator end() { return children_.end(); }
  ConstIterator end() const { return children_.end(); }
  size_t size() const noexcept { return children_.size(); }
  bool empty() const noexcept { return children_.is_empty(); }
  bool contains(const std::string& key) const noexcept { return children_.contains(key); }
  void clear() { children_.clear(); }
  std::shared_ptr<Module> operator[](const std::string& key) const { return children_[key]; }
  template <class T>
  T& at(const std::string& key) const {
    T* module = children_[key]->template as<T>();
    TORCH_CHECK(module != nullptr, "Unable to cast module[", key, "] to ", detail::type_name(typeid(T)));
    return *module;
  }
  std::shared_ptr<Module> pop(const std::string& key);
  /// Inserts modules, or replaces those of the same name.
  void update(const Pairs& modules);
  void update(const OrderedDict<std::string, std::shared_ptr<Module>>& modules) { update(modules.pairs()); }
  void update(const ModuleDictImpl& modules) { update(modules.items()); }
};
TORCH_MODULE(ModuleDict);

class ParameterListImpl : public Cloneable<ParameterListImpl> {
 public:
  using Iterator = OrderedDict<std::string, Tensor>::Iterator;
  using ConstIterator = OrderedDict<std::string, Tensor>::ConstIterator;

  ParameterListImpl() = default;
  template <class... T>
    requires(sizeof...(T) > 0 && (std::is_convertible_v<T, Tensor> && ...))
  explicit ParameterListImpl(T&&... parameters) { (append(std::forward<T>(parameters)), ...); }
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;

  void append(Tensor parameter) {
    const bool trains = parameter.requires_grad();
    register_parameter(std::to_string(parameters_.size()), std::move(parameter), trains);
  }
  void append(const OrderedDict<std::string, Tensor>::Item& item) { append(item.value()); }
  template <class Container>
  void extend(const Container& container) {
    for (const auto& parameter : container) append(parameter);
  }
  template <class It>
  void extend(It begin, It end) {
    for (; begin != end; ++begin) append(*begin);
  }
  void operator+=(const ParameterListImpl& other) { extend(other); }
  Iterator begin() { return parameters_.begin(); }
  ConstIterator begin() const { return parameters_.begin(); }
  Iterator end() { return parameters_.end(); }
  ConstIterator end() const { return parameters_.end(); }
  Tensor& at(size_t i) {
    detail::check_index(i, size());
    return parameters_[i].value();
  }
  const Tensor& at(size_t i) const {
    detail::check_index(i, size());
    return parameters_[i].value();
  }
  Tensor& operator[](size_t i) { return at(i); }
  const Tensor& operator[](size_t i) const { return at(i); }
  size_t size() const noexcept { return parameters_.size(); }
  bool is_empty() const noexcept { return parameters_.is_empty(); }
};
TORCH_MODULE(ParameterList);

class ParameterDictImpl : public Cloneable<ParameterDictImpl> {
 public:
  using Iterator = OrderedDict<std::string, Tensor>::Iterator;
  using ConstIterator = OrderedDict<std::string, Tensor>::ConstIterator;

  ParameterDictImpl() = default;
  explicit ParameterDictImpl(const OrderedDict<std::string, Tensor>& parameters) { update(parameters); }
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;

  Tensor& insert(const std::string& key, Tensor parameter) {
    const bool trains = parameter.requires_grad();
    return register_parameter(key, std::move(parameter), trains);
  }
  Tensor pop(const std::string& key);
  template <class Container>
    requires requires(const Container& c) { c.items(); }
  void update(const Container& container) {
    for (const auto& item : container.items()) set(item.key(), item.value());
  }
  template <class Container>
    requires(!requires(const Container& c) { c.items(); })
  void update(const Container& container) {
    for (const auto& [key, parameter] : container) set(key, parameter);
  }
  std::vector<std::string> keys() const { return parameters_.keys(); }
  std::vector<Tensor> values() const { return parameters_.values(); }
  const OrderedDict<std::string, Tensor>& items() const noexcept { return parameters_; }
  Iterator begin() { return parameters_.begin(); }
  ConstIterator begin() const { return parameters_.begin(); }
  Iterator end() { return parameters_.end(); }
  ConstIterator end() const { return parameters_.end(); }
  size_t size() const noexcept { return parameters_.size(); }
  bool empty() const noexcept { return parameters_.is_empty(); }
  void clear() { parameters_.clear(); }
  bool contains(const std::string& key) const noexcept { return parameters_.contains(key); }
  Tensor& get(const std::string& key) { return parameters_[key]; }
  const Tensor& get(const std::string& key) const { return parameters_[key]; }
  Tensor& operator[](const std::string& key) { return get(key); }
  const Tensor& operator[](const std::string& key) const { return get(key); }

 private:
  void set(const std::string& key, const Tensor& parameter);
};
TORCH_MODULE(ParameterDict);

/// A function of one tensor as a module; further arguments are stored.
class FunctionalImpl : public Cloneable<FunctionalImpl> {
 public:
  using Function = std::function<Tensor(Tensor)>;
  explicit FunctionalImpl(Function function) : function_(std::move(function)) {}
  /// A function of this library, which also takes the location of its call: Functional(torch::relu).
  explicit FunctionalImpl(Tensor (*function)(const Tensor&, weft::Location))
      : function_([function](Tensor input) { return function(input, weft::Location::none()); }) {}
  template <class F, class... A>
    requires(sizeof...(A) > 0)
  explicit FunctionalImpl(F function, A&&... arguments)
      : function_([function, ... kept = std::decay_t<A>(std::forward<A>(arguments))](Tensor input) -> Tensor {
          if constexpr (std::is_invocable_v<F, Tensor, std::decay_t<A>..., weft::Location>) {
            return function(std::move(input), kept..., weft::Location::none());
          } else {
            return function(std::move(input), kept...);
          }
        }) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::Functional()"; }
  Tensor forward(Tensor input) { return function_(std::move(input)); }
  Tensor operator()(Tensor input) { return function_(std::move(input)); }
  bool is_serializable() const override { return false; }

 private:
  Function function_;
};
TORCH_MODULE(Functional);

}  // namespace torch::nn
