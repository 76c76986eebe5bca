// A thread's working memory for attention.
#ifndef BALLAST_KERNELS_ATTENTION_SCRATCH_H_
#define BALLAST_KERNELS_ATTENTION_SCRATCH_H_

#include <algorithm>
#include <cstddef>

namespace ballast::kernels {

/// Rows are pairs (query, head of the group). 96 rows make decoding a block of keys 8 % of the work, and scores, keys,
/// values and sums of heads of 64 take 170 KB: L2.
inline constexpr std::size_t kAttentionRows = 96;
inline constexpr std::size_t kAttentionKeys = 128;

/// Cut from one piece of memory.
struct AttentionScratch {
  float* q;            ///< [rows][head_size], scaled
  float* scores;       ///< [rows][kAttentionKeys], then softmax weights
  float* panel;        ///< keys: [head_size][panel rows]
  float* values;       ///< [kAttentionKeys][value_size]
  float* sums;         ///< [rows][value_size]
  float* key_scales;   ///< [kAttentionKeys]
  float* exact_key;    ///< [head_size]
  float* maximum;      ///< [rows]
  float* total;        ///< [rows]
  float* rescale;      ///< [rows]
  float* first_score;  ///< [rows]

  static std::size_t floats(std::size_t rows, std::size_t head_size, std::size_t value_size) {
    return AttentionScratch(nullptr, rows, head_size, value_size).size_;
  }

  AttentionScratch(float* memory, std::size_t rows, std::size_t head_size, std::size_t value_size) {
    const auto take = [memory, this](std::size_t count) {
      float* part = memory == nullptr ? nullptr : memory + size_;
      size_ += count;
      return part;
    };
    q = take(rows * head_size);
    scores = take(rows * kAttentionKeys);
    panel = take(kAttentionKeys * head_size);
    values = take(kAttentionKeys * value_size + kSlack);
    sums = take(rows * value_size);
    key_scales = take(kAttentionKeys + kSlack);
    exact_key = take(head_size);
    maximum = take(rows);
    total = take(rows);
    rescale = take(rows);
    first_score = take(rows);
  }

 private:
  static constexpr std::size_t kSlack = 512;  ///< a tile reads two whole vectors beside the last column

  std::size_t size_ = 0;
};

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_ATTENTION_SCRATCH_H_
