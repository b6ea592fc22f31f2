// The bodies of HookList, for the files that instantiate it. Not public.
#pragma once

#include <weft/autograd/hooks.hpp>
#include <weft/tensor/word_lock.hpp>

namespace weft::detail {

template <class Entry>
uint64_t HookList<Entry>::add(Entry entry) {
  Snapshot old;  // dies after the lock: with it may die functions of the user
  WordLock lock(word_);
  auto fresh =
      entries_ == nullptr ? std::make_shared<std::vector<Entry>>() : std::make_shared<std::vector<Entry>>(*entries_);
  entry.id = ++last_id_;
  fresh->push_back(std::move(entry));
  old = std::exchange(entries_, std::move(fresh));
  return last_id_;
}

template <class Entry>
bool HookList<Entry>::remove(uint64_t id) {
  Snapshot old;
  WordLock lock(word_);
  if (entries_ == nullptr) return false;
  auto fresh = std::make_shared<std::vector<Entry>>();
  for (const Entry& entry : *entries_) {
    if (entry.id != id) fresh->push_back(entry);
  }
  if (fresh->size() == entries_->size()) return false;
  old = std::exchange(entries_, fresh->empty() ? nullptr : std::move(fresh));
  return true;
}

template <class Entry>
void HookList<Entry>::clear() {
  Snapshot old;
  WordLock lock(word_);
  old = std::move(entries_);
}

template <class Entry>
typename HookList<Entry>::Snapshot HookList<Entry>::snapshot() const {
  WordLock lock(word_);
  return entries_;
}

}  // namespace weft::detail
