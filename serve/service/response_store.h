// Responses that clients may continue or ask for again, within a limit of memory.
#ifndef BALLAST_SERVE_SERVICE_RESPONSE_STORE_H_
#define BALLAST_SERVE_SERVICE_RESPONSE_STORE_H_

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace ballast::serve {

/// The texts are JSON: parsed they would take many times the memory.
struct StoredResponse {
  std::string user;      ///< only its requests find the response
  std::string response;  ///< as it was sent
  std::string messages;  ///< the conversation with the answer
};

/// Keeps the responses that were used last. Any thread.
class ResponseStore {
 public:
  explicit ResponseStore(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// A response that is larger than the store is not kept.
  void add(const std::string& id, StoredResponse response);

  /// Returns nullopt for an id that does not exist, that another user has, or that gave way to newer ones.
  std::optional<StoredResponse> find(const std::string& id, const std::string& user);

  /// Returns whether the response existed.
  bool remove(const std::string& id, const std::string& user);

  std::size_t bytes() const;

 private:
  struct Entry {
    std::string id;
    StoredResponse response;
    std::size_t bytes;
  };
  using Entries = std::list<Entry>;

  void erase(Entries::iterator entry);

  const std::size_t most_bytes_;
  mutable std::mutex mutex_;
  Entries entries_;  ///< the last used one is first
  std::unordered_map<std::string, Entries::iterator> by_id_;
  std::size_t bytes_ = 0;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_RESPONSE_STORE_H_
