// What finished and running sequences have read, so that a text that begins alike need not be read again.
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

#include "model/forward/sequence_state.h"

namespace ballast::serve {

/// A radix tree over tokens, one for each salt: texts of different salts share nothing, so that none can tell by the
/// clock what another has asked. An entry is the state of a sequence, which shares its pages with whoever goes on from
/// it (copied where one writes to them). One thread.
class PrefixCache {
 public:
  struct Match {
    std::size_t length = 0;                       ///< tokens that are in the cache
    const model::SequenceState* state = nullptr;  ///< can_truncate_to(length); null: there is none
  };

  PrefixCache() = default;
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  /// The longest beginning of `tokens` that is there, but for their last one, whose logits somebody wants. Valid until
  /// the next call that is not const.
  Match find(std::span<const int> tokens, std::string_view salt);

  /// How long that is, for a look that leaves everything as it is.
  std::size_t length(std::span<const int> tokens, std::string_view salt) const;

  /// Keeps the state of a sequence with these tokens, all of which have run. Entries that begin it go.
  void insert(std::span<const int> tokens, std::string_view salt, const model::SequenceState& state);

  /// Forgets the entry that was used the longest time ago. False when there is none.
  bool drop_oldest();

  std::size_t size() const { return by_use_.size(); }

 private:
  struct Node;

  struct Entry {
    model::SequenceState state;
    std::uint64_t last_use;
  };

  /// Tokens from the parent on, and what follows them.
  struct Node {
    std::vector<int> edge;
    Node* parent = nullptr;
    std::map<int, std::unique_ptr<Node>> children{};  ///< by their edge's first token
    std::optional<Entry> entry{};                     ///< every leaf but a root has one
  };

  /// Where tokens lead: to `depth` of them, which end in `node`'s edge, `in_edge` tokens of it.
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
