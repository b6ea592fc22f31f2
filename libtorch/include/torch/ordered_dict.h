// OrderedDict: keys and values in the order in which they were inserted.
#pragma once

#include <initializer_list>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

namespace torch {

template <class Key, class Value>
class OrderedDict {
 public:
  class Item {
   public:
    Item(Key key, Value value) : pair_(std::move(key), std::move(value)) {}
    Value& operator*() { return pair_.second; }
    const Value& operator*() const { return pair_.second; }
    Value* operator->() { return &pair_.second; }
    const Value* operator->() const { return &pair_.second; }
    const Key& key() const noexcept { return pair_.first; }
    Value& value() noexcept { return pair_.second; }
    const Value& value() const noexcept { return pair_.second; }
    const std::pair<Key, Value>& pair() const noexcept { return pair_; }

   private:
    std::pair<Key, Value> pair_;
  };
  using Iterator = typename std::vector<Item>::iterator;
  using ConstIterator = typename std::vector<Item>::const_iterator;

  explicit OrderedDict(std::string key_description = "Key") : key_description_(std::move(key_description)) {}
  OrderedDict(std::initializer_list<Item> items) : OrderedDict("Key") {
    for (const Item& item : items) insert(item.key(), item.value());
  }

  const std::string& key_description() const noexcept { return key_description_; }
  Item& front() { return items_[checked_first("front")]; }
  const Item& front() const { return items_[checked_first("front")]; }
  Item& back() { return items_[checked_first("back") + items_.size() - 1]; }
  const Item& back() const { return items_[checked_first("back") + items_.size() - 1]; }
  Item& operator[](size_t i) { return items_[checked(i)]; }
  const Item& operator[](size_t i) const { return items_[checked(i)]; }
  /// Raises an error for an unknown key.
  Value& operator[](const Key& key) { return items_[position(key)].value(); }
  const Value& operator[](const Key& key) const { return items_[position(key)].value(); }
  template <class K, class V>
  Value& insert(K&& key, V&& value) {
    const auto [place, fresh] = index_.try_emplace(Key(key), items_.size());
    TORCH_CHECK(fresh, key_description_, " '", Key(key), "' already defined");
    items_.emplace_back(Key(std::forward<K>(key)), Value(std::forward<V>(value)));
    return items_.back().value();
  }
  Value& insert(Key key, Value&& value) { return insert<Key, Value>(std::move(key), std::move(value)); }
  /// Inserts all items of `other`. Raises an error for a key that exists.
  void update(const OrderedDict& other) {
    reserve(size() + other.size());
    for (const Item& item : other) insert(item.key(), item.value());
  }
  void update(OrderedDict&& other) {
    reserve(size() + other.size());
    for (Item& item : other) insert(item.key(), std::move(item.value()));
  }
  void erase(const Key& key) {
    const size_t at = position(key);
    items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(at));
    index_.erase(key);
    for (auto& [name, place] : index_) {
      if (place > at) --place;
    }
  }
  Value* find(const Key& key) noexcept {
    const auto found = index_.find(key);
    return found == index_.end() ? nullptr : &items_[found->second].value();
  }
  const Value* find(const Key& key) const noexcept { return const_cast<OrderedDict*>(this)->find(key); }
  bool contains(const Key& key) const noexcept { return index_.count(key) != 0; }
  size_t size() const noexcept { return items_.size(); }
  bool is_empty() const noexcept { return items_.empty(); }
  void reserve(size_t capacity) {
    index_.reserve(capacity);
    items_.reserve(capacity);
  }
  void clear() {
    index_.clear();
    items_.clear();
  }

  Iterator begin() { return items_.begin(); }
  Iterator end() { return items_.end(); }
  ConstIterator begin() const { return items_.begin(); }
  ConstIterator end() const { return items_.end(); }
  const std::vector<Item>& items() const noexcept { return items_; }
  std::vector<Key> keys() const {
    std::vector<Key> all;
    for (const Item& item : items_) all.push_back(item.key());
    return all;
  }
  std::vector<Value> values() const {
    std::vector<Value> all;
    for (const Item& item : items_) all.push_back(item.value());
    return all;
  }
  std::vector<std::pair<Key, Value>> pairs() const {
    std::vector<std::pair<Key, Value>> all;
    for (const Item& item : items_) all.push_back(item.pair());
    return all;
  }
  friend bool operator==(const OrderedDict& a, const OrderedDict& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (a.items_[i].pair() != b.items_[i].pair()) return false;
    }
    return true;
  }

 private:
  size_t position(const Key& key) const {
    const auto found = index_.find(key);
    TORCH_CHECK(found != index_.end(), key_description_, " '", key, "' is not defined");
    return found->second;
  }
  size_t checked(size_t i) const {
    TORCH_CHECK(i < items_.size(), "Index ", i, " is out of bounds");
    return i;
  }
  size_t checked_first(const char* method) const {
    TORCH_CHECK(!items_.empty(), "Called ", method, "() on an empty OrderedDict");
    return 0;
  }

  std::unordered_map<Key, size_t> index_;
  std::vector<Item> items_;
  std::string key_description_;
};

}  // namespace torch
