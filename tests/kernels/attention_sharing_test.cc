// Checks attention of sequences that share pages.
#include <algorithm>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "attention_case.h"
#include "kernel_cases.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_plan.h"

namespace ballast::kernels {
namespace {

/// Sequences of one shape with separate queries and caches. The first pages of a cache may be another sequence's.
struct SharingSequences {
  std::vector<AttentionData> data;
  std::vector<std::vector<CachePage>> pages;

  /// Sequence i shares its first `shared` positions with sequence `parent`; without a parent it is its own.
  struct Member {
    std::size_t parent;
    std::size_t shared;
    std::size_t length;
    std::size_t queries = 1;
  };

  SharingSequences(AttentionCase c, std::span<const Member> members) {
    data.reserve(members.size());
    for (const Member& member : members) {
      c.length = member.length;
      c.queries = member.queries;
      const auto seed = static_cast<unsigned>(100 + 10 * data.size());
      data.emplace_back(c, seed);
      const std::span<const CachePage> own = data.back().cache.view(c.length).pages;
      pages.emplace_back(own.begin(), own.end());
      std::copy_n(pages[member.parent].begin(), member.shared / kPageTokens, pages.back().begin());
    }
  }

  AttentionSequence sequence(std::size_t i, std::vector<float>& out) const {
    AttentionSequence sequence = data[i].piece(0, data[i].c.queries, out);
    sequence.kv.pages = pages[i];
    // The bias belongs to the layer.
    if (sequence.kv.key_bias.values != nullptr) sequence.kv.key_bias = {data[0].bias.data(), &data[0].rotation};
    return sequence;
  }

  /// Returns the output of each sequence in the order of `order`, from one call or from separate calls.
  std::vector<std::vector<float>> outputs(std::span<const std::size_t> order, bool together) const {
    std::vector<std::vector<float>> out(data.size());
    std::vector<AttentionSequence> sequences;
    for (const std::size_t i : order) sequences.push_back(sequence(i, out[i]));
    if (together) {
      attention(data[0].shape, sequences);
    } else {
      for (const AttentionSequence& one : sequences) attention(data[0].shape, {&one, 1});
    }
    return out;
  }
};

TEST_CASE("sequences that share pages get the same bits as alone, in any order and of any cache type") {
  using Member = SharingSequences::Member;
  const Member members[] = {{0, 0, 1700},        {0, 1536, 1537}, {0, 1664, 1800, 3}, {0, 512, 700},   {3, 640, 701, 2},
                            {0, 384, 900},       {6, 0, 520},     {6, 512, 515, 3},   {0, 1024, 1030}, {0, 1536, 2100},
                            {0, 1280, 1300, 40}, {11, 0, 300},    {0, 1024, 1025},    {0, 640, 645, 9}};
  std::vector<std::size_t> order(std::size(members));
  std::mt19937 random(3);
  for (const CacheType type : {CacheType::kF32, CacheType::kF16, CacheType::kInt8}) {
    for (const std::size_t group : {1, 3, 50}) {
      const AttentionCase c = {.heads = 2 * group,
                               .kv_heads = 2,
                               .head_size = 24,
                               .value_size = 17,
                               .type = type,
                               .fp16_every = 90,
                               .key_bias = group == 3 ? 2.0F : 0.0F};
      const SharingSequences sequences(c, members);
      for_every_target([&] {
        CAPTURE(c);
        std::iota(order.begin(), order.end(), std::size_t{0});
        const auto alone = with_threads(1, [&] { return sequences.outputs(order, false); });
        for (const int threads : {1, 2, 5}) {
          std::ranges::shuffle(order, random);
          const auto together = with_threads(threads, [&] { return sequences.outputs(order, true); });
          for (std::size_t i = 0; i < alone.size(); ++i) {
            CAPTURE(i);
            CHECK(same_bits(together[i], alone[i]));
          }
        }
      });
    }
  }
}

TEST_CASE("a sequence that shares pages but fits no block with others is read alone") {
  using Member = SharingSequences::Member;
  const Member three_of_half_a_block[] = {{0, 0, 1100, 16}, {0, 1024, 1090, 16}, {0, 512, 700, 16}};
  const Member seven_of_a_third[] = {{0, 0, 600},   {0, 512, 601}, {0, 512, 602}, {0, 512, 603},
                                     {0, 512, 604}, {0, 512, 605}, {0, 512, 606}};
  const auto check = [](std::size_t group, std::span<const Member> members) {
    const AttentionCase c = {.heads = group, .kv_heads = 1, .head_size = 8};
    const SharingSequences sequences(c, members);
    std::vector<std::size_t> order(members.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (const int threads : {1, 2, 5}) {
      const auto alone = with_threads(threads, [&] { return sequences.outputs(order, false); });
      const auto together = with_threads(threads, [&] { return sequences.outputs(order, true); });
      for (std::size_t i = 0; i < alone.size(); ++i) CHECK(same_bits(together[i], alone[i]));
    }
  };
  check(3, three_of_half_a_block);
  check(32, seven_of_a_third);
}

TEST_CASE("sequences without queries do not affect a call") {
  const AttentionData data({.heads = 2, .kv_heads = 1, .head_size = 8, .length = 700}, 3);
  std::vector<float> out, none;
  const AttentionSequence call[] = {data.piece(0, 0, none), data.piece(0, 1, out), data.piece(0, 0, none)};
  attention(data.shape, call);
  CHECK(same_bits(out, data.result().out));
}

TEST_CASE("positions that sequences keep in the same pages are read once for all of them") {
  using Member = SharingSequences::Member;
  // Two sequences share 1,024 positions, of which they share 512 with others; one is separate, and one has too many
  // queries to share.
  const Member members[] = {{0, 0, 1500}, {0, 1024, 1100}, {0, 512, 600}, {3, 0, 550}, {0, 512, 700, 80}};
  const AttentionCase c = {.heads = 4, .kv_heads = 2, .head_size = 8};
  const SharingSequences sequences(c, members);
  std::vector<std::vector<float>> out(std::size(members));
  std::vector<AttentionSequence> call;
  for (std::size_t i = 0; i < std::size(members); ++i) call.push_back(sequences.sequence(i, out[i]));
  AttentionPlan& plan = AttentionPlan::of_this_thread();
  plan.make(sequences.data[0].shape, call);
  std::size_t read = 0;
  for (const AttentionTask& task : plan.tasks()) read += task.range.size() * task.kv_heads;
  const std::size_t blocks = 2;  // blocks of the sequence with many queries
  CHECK(read == c.kv_heads * (1500 + (1100 - 1024) + (600 - 512) + 550 + (700 * blocks - (80 - 48))));
}

}  // namespace
}  // namespace ballast::kernels
