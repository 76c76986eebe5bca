#include "serve/service/response_store.h"

#include <iterator>
#include <utility>

namespace ballast::serve {
namespace {

constexpr std::size_t kBytesOfEntry = 512;  // nodes of both containers, and the id, which is there twice

}  // namespace

void ResponseStore::add(const std::string& id, StoredResponse response) {
  const std::size_t bytes = kBytesOfEntry + response.user.size() + response.response.size() + response.messages.size();
  const std::lock_guard lock(mutex_);
  if (bytes > most_bytes_ || by_id_.contains(id)) return;
  while (bytes_ + bytes > most_bytes_) erase(std::prev(entries_.end()));
  entries_.push_front({.id = id, .response = std::move(response), .bytes = bytes});
  by_id_.emplace(id, entries_.begin());
  bytes_ += bytes;
}

std::optional<StoredResponse> ResponseStore::find(const std::string& id, const std::string& user) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end() || found->second->response.user != user) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->response;
}

bool ResponseStore::remove(const std::string& id, const std::string& user) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end() || found->second->response.user != user) return false;
  erase(found->second);
  return true;
}

std::size_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void ResponseStore::erase(Entries::iterator entry) {
  bytes_ -= entry->bytes;
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

}  // namespace ballast::serve
