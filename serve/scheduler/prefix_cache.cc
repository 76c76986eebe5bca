#include "serve/scheduler/prefix_cache.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace ballast::serve {

/// Follows the tokens from the root as far as they agree with a path.
PrefixCache::Place PrefixCache::walk(Node& root, std::span<const int> tokens) {
  Place place = {.node = &root};
  while (place.depth < tokens.size()) {
    const auto child = place.node->children.find(tokens[place.depth]);
    if (child == place.node->children.end()) return place;
    const std::vector<int>& edge = child->second->edge;
    const std::span<const int> rest = tokens.subspan(place.depth);
    place.node = child->second.get();
    place.in_edge = static_cast<std::size_t>(std::ranges::mismatch(edge, rest).in1 - edge.begin());
    place.depth += place.in_edge;
    if (place.in_edge < edge.size()) return place;
  }
  return place;
}

/// Returns the node with an entry that has the most tokens in common, null if there is none, and their number.
std::pair<PrefixCache::Node*, std::size_t> PrefixCache::match(std::span<const int> tokens,
                                                              std::string_view salt) const {
  const auto root = roots_.find(salt);
  if (root == roots_.end() || tokens.empty()) return {};
  const Place place = walk(*root->second, tokens.first(tokens.size() - 1));
  // All nodes below this point have these tokens, too.
  Node* below = place.node;
  while (!below->entry && !below->children.empty()) below = below->children.begin()->second.get();
  if (place.depth > 0 && below->entry && below->entry->state.can_truncate_to(place.depth)) return {below, place.depth};
  // A state that cannot be truncated is useful only at its end.
  Node* node = place.node;
  std::size_t depth = place.depth;
  if (place.in_edge < node->edge.size()) {
    depth -= place.in_edge;
    node = node->parent;
  }
  while (node->parent != nullptr && !node->entry) {
    depth -= node->edge.size();
    node = node->parent;
  }
  if (node->parent == nullptr || !node->entry->state.can_truncate_to(depth)) return {};
  return {node, depth};
}

PrefixCache::Match PrefixCache::find(std::span<const int> tokens, std::string_view salt) {
  const auto [node, length] = match(tokens, salt);
  if (node == nullptr) return {};
  touch(*node);
  return {.length = length, .state = &node->entry->state};
}

std::size_t PrefixCache::length(std::span<const int> tokens, std::string_view salt) const {
  return match(tokens, salt).second;
}

/// Returns the node that ends at `place`, after splitting its edge if necessary.
PrefixCache::Node& PrefixCache::split(const Place& place) {
  Node& lower = *place.node;
  if (place.in_edge == lower.edge.size()) return lower;
  auto upper = std::make_unique<Node>();
  const auto cut = lower.edge.begin() + static_cast<std::ptrdiff_t>(place.in_edge);
  upper->edge.assign(lower.edge.begin(), cut);
  upper->parent = lower.parent;
  std::unique_ptr<Node>& slot = lower.parent->children.at(lower.edge.front());
  lower.edge.erase(lower.edge.begin(), cut);
  lower.parent = upper.get();
  upper->children.emplace(lower.edge.front(), std::move(slot));
  slot = std::move(upper);
  return *slot;
}

void PrefixCache::insert(std::span<const int> tokens, std::string_view salt, const model::SequenceState& state) {
  if (tokens.empty()) return;
  std::unique_ptr<Node>& root = roots_.try_emplace(std::string(salt)).first->second;
  if (root == nullptr) root = std::make_unique<Node>();
  const Place place = walk(*root, tokens);
  const bool can_be_cut = state.has_no_recurrent_state();
  Node* node = &split(place);
  if (place.depth < tokens.size()) {
    auto leaf = std::make_unique<Node>(
        Node{.edge = {tokens.begin() + static_cast<std::ptrdiff_t>(place.depth), tokens.end()}, .parent = node});
    node = node->children.emplace(leaf->edge.front(), std::move(leaf)).first->second.get();
  } else if (can_be_cut && !node->children.empty()) {
    remove_needless(node);
    return;  // a longer entry contains it
  }
  keep(*node, state);
  if (!can_be_cut) return;
  for (Node* above = node->parent; above != nullptr;) {
    Node* const next = above->parent;
    if (above->entry) forget(*above);
    above = next;
  }
}

void PrefixCache::keep(Node& node, const model::SequenceState& state) {
  if (node.entry) by_use_.erase(node.entry->last_use);
  node.entry.emplace(Entry{.state = state, .last_use = ++uses_});
  by_use_.emplace(uses_, &node);
}

bool PrefixCache::drop_oldest() {
  if (by_use_.empty()) return false;
  forget(*by_use_.begin()->second);
  return true;
}

std::optional<PrefixCache::Text> PrefixCache::take_oldest() {
  if (by_use_.empty()) return std::nullopt;
  Node& oldest = *by_use_.begin()->second;
  std::vector<const Node*> path;
  for (const Node* node = &oldest; node != nullptr; node = node->parent) path.push_back(node);
  const auto root = std::ranges::find(roots_, path.back(), [](const auto& entry) { return entry.second.get(); });
  std::string salt = root->first;
  std::vector<int> tokens;
  for (const Node* node : std::views::reverse(path)) {
    tokens.insert(tokens.end(), node->edge.begin(), node->edge.end());
  }
  Text text = {.tokens = std::move(tokens), .salt = std::move(salt), .state = std::move(oldest.entry->state)};
  forget(oldest);
  return text;
}

void PrefixCache::touch(Node& node) {
  by_use_.erase(node.entry->last_use);
  node.entry->last_use = ++uses_;
  by_use_.emplace(uses_, &node);
}

void PrefixCache::forget(Node& node) {
  by_use_.erase(node.entry->last_use);
  node.entry.reset();
  remove_needless(&node);
}

/// Nodes without an entry exist only where paths branch.
void PrefixCache::remove_needless(Node* node) {
  while (node->parent != nullptr && !node->entry && node->children.empty()) {
    Node* const parent = node->parent;
    const int first = node->edge.front();
    parent->children.erase(first);
    node = parent;
  }
  if (node->parent == nullptr) {
    if (node->children.empty()) std::erase_if(roots_, [&](const auto& root) { return root.second.get() == node; });
    return;
  }
  if (node->entry || node->children.size() != 1) return;
  // The only child replaces the node.
  std::unique_ptr<Node> child = std::move(node->children.begin()->second);
  child->edge.insert(child->edge.begin(), node->edge.begin(), node->edge.end());
  child->parent = node->parent;
  node->parent->children.at(child->edge.front()) = std::move(child);
}

}  // namespace ballast::serve
