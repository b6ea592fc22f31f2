// The bodies of HookList, for the files that instantiate it. Not public.
#pragma once

#include <algorithm>
#include <new>
#include <optional>

#include "hooks.hpp"
#include "../tensor/word_lock.hpp"

namespace weft::detail {

template <class Entry>
uint64_t HookList<Entry>::add(Entry entry) {
  Snapshot old;  // destroyed after the lock is released: the user's functions may die with it
  WordLock lock(word_);
  auto fresh = entries_ == nullptr ? Shared<std::vector<Entry>>::make() : Shared<std::vector<Entry>>::make(*entries_);
  entry.id = ++last_id_;
  fresh->push_back(std::move(entry));
  old = std::exchange(entries_, std::move(fresh));
  return last_id_;
}

template <class Entry>
bool HookList<Entry>::remove(uint64_t id) {
  Snapshot old;
  std::optional<Entry> dead;
  WordLock lock(word_);
  if (entries_ == nullptr) return false;
  const auto at = std::ranges::find(*entries_, id, &Entry::id);
  if (at == entries_->end()) return false;
  if (entries_->size() == 1) {
    old = std::move(entries_);
    return true;
  }
  try {
    auto fresh = Shared<std::vector<Entry>>::make();
    for (const Entry& entry : *entries_) {
      if (entry.id != id) fresh->push_back(entry);
    }
    old = std::exchange(entries_, std::move(fresh));
  } catch (const std::bad_alloc&) {  // then in place, unless the hooks are running just now
    if (!entries_.is_only_owner()) throw;
    auto& mine = const_cast<std::vector<Entry>&>(*entries_);
    const auto place = mine.begin() + (at - entries_->begin());
    dead.emplace(std::move(*place));
    mine.erase(place);
  }
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
