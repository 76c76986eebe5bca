// A cache of the states of finished and running sequences, so that a common beginning is read once.
#ifndef BALLAST_SERVE_SCHEDULER_PREFIX_CACHE_H_
#define BALLAST_SERVE_SCHEDULER_PREFIX_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/mixer/sequence_state.h"

namespace ballast::serve {

/// A radix tree over tokens for each salt: texts of different salts share nothing, so that response times do not reveal
/// the prompts of other users. An entry is the state of a sequence; sequences that continue from it share its pages
/// (copied on write). One thread.
class PrefixCache {
 public:
  struct Match {
    std::size_t length = 0;                       ///< tokens that are in the cache
    const model::SequenceState* state = nullptr;  ///< can_truncate_to(length); null if not found
  };

  PrefixCache() = default;
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  /// Finds the longest cached beginning of `tokens` without their last one, whose logits must be computed. Valid until
  /// the next call that is not const.
  Match find(std::span<const int> tokens, std::string_view salt);

  /// Returns the length of that beginning without changing the order of use.
  std::size_t length(std::span<const int> tokens, std::string_view salt) const;

  /// Stores the state of a sequence with these tokens, all of which have run. Removes entries that are a beginning of
  /// it.
  void insert(std::span<const int> tokens, std::string_view salt, const model::SequenceState& state);

  /// Removes the least recently used entry. Returns false if there is none.
  bool drop_oldest();

  struct Text {
    std::vector<int> tokens;
    std::string salt;
    model::SequenceState state;
  };

  /// Removes and returns the least recently used entry; nullopt if there is none.
  std::optional<Text> take_oldest();

  std::size_t size() const { return by_use_.size(); }

 private:
  struct Node;

  struct Entry {
    model::SequenceState state;
    std::uint64_t last_use;
  };

  /// An edge's tokens, and the nodes below it.
  struct Node {
    std::vector<int> edge;
    Node* parent = nullptr;
    std::map<int, std::unique_ptr<Node>> children{};  ///< by their edge's first token
    std::optional<Entry> entry{};                     ///< every leaf but a root has one
  };

  /// The end of a walk: after `depth` tokens, `in_edge` tokens into the edge of `node`.
  struct Place {
    Node* node;
    std::size_t depth = 0;
    std::size_t in_edge = 0;
  };

  static Place walk(Node& root, std::span<const int> tokens);
  std::pair<Node*, std::size_t> match(std::span<const int> tokens, std::string_view salt) const;
  Node& split(const Place& place);
  void keep(Node& node, const model::SequenceState& state);
  void touch(Node& node);
  void forget(Node& node);
  void remove_needless(Node* node);

  std::map<std::string, std::unique_ptr<Node>, std::less<>> roots_;
  std::map<std::uint64_t, Node*> by_use_;  ///< nodes with an entry
  std::uint64_t uses_ = 0;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SCHEDULER_PREFIX_CACHE_H_
