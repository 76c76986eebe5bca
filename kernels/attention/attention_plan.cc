#include "kernels/attention/attention_plan.h"

#include <algorithm>
#include <functional>
#include <ranges>

#include "kernels/parallel.h"

namespace ballast::kernels {
namespace {

/// Returns the queries of a block: at least one, with any number of rows.
std::size_t most_queries(const AttentionShape& shape) {
  return std::max<std::size_t>(1, kAttentionRows / shape.heads_of_key());
}

/// Calls body(task) for groups of key heads, as many together as make a block with the queries; the task has no
/// positions yet. With few queries, pages are then read from end to end. Keys that contain values are processed one
/// head at a time.
template <class Body>
void for_each_heads(const AttentionShape& shape, std::span<const AttentionQuery> queries, const Body& body) {
  const bool apart = queries.front().sequence->kv.layout->values_in_keys();
  const std::size_t most = kAttentionRows / (queries.size() * shape.heads_of_key());
  const std::size_t together = apart ? 1 : std::max<std::size_t>(1, most);
  for (std::size_t kv_head = 0; kv_head < shape.kv_heads; kv_head += together) {
    body(AttentionTask{.queries = queries,
                       .first_kv_head = kv_head,
                       .kv_heads = std::min(together, shape.kv_heads - kv_head),
                       .sinks = false,
                       .range = {},
                       .partial = nullptr,
                       .first_token_share = nullptr});
  }
}

/// Calls body(task) for every block of a sequence's queries and of key heads, the task with all positions that it sees.
template <class Body>
void for_each_block(const AttentionShape& shape, std::span<const AttentionQuery> queries, const Body& body) {
  while (!queries.empty()) {
    const std::span<const AttentionQuery> block = queries.first(std::min(most_queries(shape), queries.size()));
    queries = queries.subspan(block.size());
    for_each_heads(shape, block, [&](AttentionTask task) {
      const AttentionSequence& sequence = task.sequence();
      task.sinks = sequence.window != 0 && sequence.sinks != 0;
      task.range = {visible_positions(shape, block.front(), false).begin,
                    visible_positions(shape, block.back(), false).end};
      body(task);
    });
  }
}

/// Returns whether the sequence may be read together with others: a block has room for them, and no window or causal
/// mask hides positions.
bool may_share(const AttentionShape& shape, const AttentionSequence& sequence) {
  return shape.causal && sequence.window == 0 && sequence.first_token_share == nullptr &&
         2 * sequence.queries * shape.heads_of_key() <= kAttentionRows;
}

bool same_page(const CachePage& a, const CachePage& b) {
  return a.data == b.data && a.fp16_rows == b.fp16_rows;
}

/// Returns the number of positions, in whole parts, that are in the same pages of both, before the queries of either.
std::size_t shared_positions(const AttentionSequence& a, const AttentionSequence& b) {
  const std::size_t most = std::min(a.kv.length - a.queries, b.kv.length - b.queries);
  std::size_t position = 0;
  while (position + kPageTokens <= most && same_page(a.kv.page_of(position), b.kv.page_of(position))) {
    position += kPageTokens;
  }
  return position / kAttentionPart * kAttentionPart;
}

double operations_of(const AttentionShape& shape, const AttentionTask& task) {
  return static_cast<double>(task.rows(shape) * shape.head_size) * static_cast<double>(task.range.size());
}

std::size_t parts_of(const PositionRange& range) {
  std::size_t count = 0;
  for (std::size_t begin = range.begin; begin < range.end; begin = part_end(begin)) ++count;
  return count;
}

}  // namespace

AttentionPlan& AttentionPlan::of_this_thread() {
  static thread_local AttentionPlan plan;
  return plan;
}

void AttentionPlan::make(const AttentionShape& shape, std::span<const AttentionSequence> sequences) {
  tasks_.clear();
  merges_.clear();
  parts_.clear();
  most_rows_ = 0;
  order(shape, sequences);
  double operations = 0;
  for (const Entry& entry : entries_) {
    for_each_block(shape, entry.queries, [&](const AttentionTask& task) { operations += operations_of(shape, task); });
  }
  threads_ = threads_for(static_cast<std::size_t>(operations));
  // At most half of each thread's work, so that the other tasks can balance one of that length.
  const double longest = threads_ == 1 ? operations : operations / static_cast<double>(2 * threads_);
  for (std::span<const Entry> rest = entries_; !rest.empty();) {
    std::size_t sharing = 1;
    while (sharing < rest.size() && rest[sharing].shared != 0) ++sharing;
    add_entries(shape, rest.first(sharing), longest);
    rest = rest.subspan(sharing);
  }
  lay_out(shape);
}

/// Adds entries, each of which shares pages with the one before, in blocks of about the same size; or a single one.
void AttentionPlan::add_entries(const AttentionShape& shape, std::span<const Entry> entries, double longest) {
  const std::size_t most = most_queries(shape);
  const std::size_t queries = queries_of(entries).size();
  const std::size_t blocks = (queries + most - 1) / most;
  const std::size_t even = (queries + blocks - 1) / blocks;
  while (!entries.empty()) {
    std::size_t count = 1, in_block = entries[0].queries.size();
    while (count < entries.size() && in_block < even && in_block + entries[count].queries.size() <= most) {
      in_block += entries[count++].queries.size();
    }
    if (count == 1) {
      for_each_block(shape, entries[0].queries, [&](const AttentionTask& task) { add(shape, task, longest); });
    } else {
      add_sharing(shape, entries.first(count), longest);
    }
    entries = entries.subspan(count);
  }
}

/// Orders the entries of all sequences with queries, so that those that share pages are adjacent.
void AttentionPlan::order(const AttentionShape& shape, std::span<const AttentionSequence> sequences) {
  entries_.clear();
  queries_.clear();
  std::size_t count = 0;
  for (const AttentionSequence& sequence : sequences) {
    if (sequence.queries == 0) continue;
    entries_.push_back({.sequence = &sequence, .queries = {}});
    count += sequence.queries;
  }
  std::ranges::sort(entries_, [&](const Entry& a, const Entry& b) {
    const bool a_shares = may_share(shape, *a.sequence), b_shares = may_share(shape, *b.sequence);
    if (!a_shares || !b_shares) return a_shares && !b_shares;
    return std::ranges::lexicographical_compare(a.sequence->kv.pages, b.sequence->kv.pages, std::less(),
                                                &CachePage::data, &CachePage::data);
  });
  queries_.reserve(count);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const AttentionSequence& sequence = *entries_[i].sequence;
    for (std::size_t q = 0; q < sequence.queries; ++q) queries_.push_back({.sequence = &sequence, .index = q});
    entries_[i].queries = std::span(queries_).last(sequence.queries);
    if (i == 0 || !may_share(shape, sequence)) continue;
    entries_[i].shared = shared_positions(*entries_[i - 1].sequence, sequence);
  }
}

/// Adds the task, or its parts if it takes more than `longest` operations; of one head each if there are too few parts.
void AttentionPlan::add(const AttentionShape& shape, const AttentionTask& whole, double longest) {
  most_rows_ = std::max(most_rows_, whole.rows(shape));
  const double pieces = operations_of(shape, whole) / longest;
  if (pieces <= 1) {
    tasks_.push_back(whole);
    return;
  }
  const auto parts = static_cast<double>(parts_of(whole.range));
  const std::size_t together = parts >= 2 * pieces ? whole.kv_heads : 1;
  AttentionTask task = whole;
  for (std::size_t head = 0; head < whole.kv_heads; head += together) {
    task.first_kv_head = whole.first_kv_head + head;
    task.kv_heads = std::min(together, whole.kv_heads - head);
    add_parts(task);
  }
}

void AttentionPlan::add_parts(const AttentionTask& whole) {
  const std::size_t first = tasks_.size();
  AttentionTask part = whole;
  if (whole.sinks) {
    part.range.end = part.range.begin;
    tasks_.push_back(part);
    part.sinks = false;
  }
  for (std::size_t begin = whole.range.begin; begin < whole.range.end; begin = part.range.end) {
    part.range = {begin, std::min(whole.range.end, part_end(begin))};
    tasks_.push_back(part);
  }
  const std::size_t count = tasks_.size() - first;
  if (count == 1) return;
  merges_.push_back({.whole = whole, .first_part = parts_.size(), .part_count = count});
  for (std::size_t task = first; task < tasks_.size(); ++task) parts_.push_back({.task = task, .first_query = 0});
}

/// Adds tasks for the pages that all or some of the entries share, and for the remaining pages of each. Every query
/// attends to all of these positions.
void AttentionPlan::add_sharing(const AttentionShape& shape, std::span<const Entry> entries, double longest) {
  const auto shared = [](const Entry& entry) { return entry.shared; };
  const std::size_t common = std::ranges::min(entries.subspan(1) | std::views::transform(shared));
  for_each_heads(shape, queries_of(entries), [&](AttentionTask task) {
    most_rows_ = std::max(most_rows_, task.rows(shape));
    task.range = {0, common};
    // Only the first parts may be merged before others.
    PositionRange range = {0, operations_of(shape, task) <= longest ? common : kAttentionPart};
    const std::size_t first_merge = merges_.size();
    std::size_t most = 0;
    for (const Entry& entry : entries) {
      task.queries = entry.queries;
      const std::size_t parts = 1 + parts_of({range.end, entry.sequence->kv.length});
      merges_.push_back({.whole = task, .first_part = parts_.size(), .part_count = parts});
      parts_.resize(parts_.size() + parts);
      most = std::max(most, parts);
    }
    for (std::size_t part = 0; part < most; ++part) {
      for (std::size_t i = 0, end = 0; i < entries.size(); i = end) {
        for (end = i + 1; end < entries.size() && entries[end].shared > range.begin;) ++end;
        task.range = intersection(range, {0, entries[i].sequence->kv.length});
        if (task.range.size() == 0) continue;
        add_part(task, entries.subspan(i, end - i), first_merge + i, part);
      }
      range = {range.end, part_end(range.end)};
    }
  });
}

/// Adds the task for entries that share the pages of its range, as part `part` of their merges from `first_merge` on.
void AttentionPlan::add_part(AttentionTask task, std::span<const Entry> entries, std::size_t first_merge,
                             std::size_t part) {
  task.queries = queries_of(entries);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    parts_[merges_[first_merge + i].first_part + part] = {
        .task = tasks_.size(),
        .first_query = static_cast<std::size_t>(entries[i].queries.data() - task.queries.data())};
  }
  tasks_.push_back(task);
}

/// Assigns memory to the tasks for their results: separate shares, and rows to be merged.
void AttentionPlan::lay_out(const AttentionShape& shape) {
  shares_.assign(tasks_.size() * shape.heads, 0.0);
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    if (tasks_[i].sequence().first_token_share != nullptr) tasks_[i].first_token_share = &shares_[i * shape.heads];
  }
  // Calls the body for the first query of each merge.
  const auto for_each_merged = [&](const auto& body) {
    for (const MergedPart& part : parts_) {
      if (part.first_query == 0) body(tasks_[part.task]);
    }
  };
  const auto floats_of = [&](const AttentionTask& task) {
    return AttentionRows::floats(task.rows(shape), shape.output_size());
  };
  partial_floats_ = 0;
  for_each_merged([&](const AttentionTask& task) { partial_floats_ += floats_of(task); });
  partials_.grow(partial_floats_);
  float* partial = partials_.data();
  for_each_merged([&](AttentionTask& task) {
    task.partial = partial;
    partial += floats_of(task);
  });
  for (Merge& merge : merges_) merge.whole.first_token_share = tasks_[parts(merge).front().task].first_token_share;
}

std::size_t AttentionPlan::merge_threads() const {
  return threads_for(partial_floats_);
}

void AttentionPlan::add_up_shares(const AttentionShape& shape, std::span<const AttentionSequence> sequences) const {
  const std::size_t group = shape.heads_of_key();
  for (const AttentionSequence& sequence : sequences) {
    if (sequence.first_token_share != nullptr) std::fill_n(sequence.first_token_share, shape.heads, 0.0);
  }
  for (const AttentionTask& task : tasks_) {
    if (task.first_token_share == nullptr) continue;
    double* total = task.sequence().first_token_share + task.first_kv_head * group;
    for (std::size_t h = 0; h < task.kv_heads * group; ++h) total[h] += task.first_token_share[h];
  }
}

}  // namespace ballast::kernels
