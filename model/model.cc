#include "model/model.h"
#include "model/tokenizer/tokenizer_check.h"

#include <algorithm>

#include "ballast/error.h"
#include "ballast/statistics.h"
#include "kernels/activation.h"

namespace ballast::model {

namespace {

std::size_t elements(const Norm& norm) {
  return norm.gain.size() + norm.bias.size();
}

std::size_t elements(const Linear& linear) {
  return linear.rows() * linear.cols() + linear.bias.size();
}

}  // namespace

OuterWeights::OuterWeights(const ModelSource& source)
    : spec_(source.spec()), embedding_(source.linear(Role::kEmbedding)) {
  if (spec_.positions == PositionKind::kLearned) positions_ = source.linear(Role::kPositionEmbedding);
  if (spec_.token_types > 0) {
    token_type_.resize(spec_.hidden_size);
    decode_row(source.linear(Role::kTokenTypeEmbedding), 0, token_type_.data());
  }
  if (spec_.embedding_norm) embedding_norm_ = source.norm(Role::kEmbeddingNorm);
  if (spec_.has_final_norm()) final_norm_ = source.norm(Role::kFinalNorm);
  if (spec_.head_transform) {
    head_transform_ = source.linear(Role::kHeadTransform);
    head_norm_ = source.norm(Role::kHeadNorm);
  }
  if (!spec_.tied_embeddings) head_ = source.linear(Role::kHead);
  if (spec_.biases.head) (head_ ? *head_ : embedding_).bias = source.vector(Role::kHeadBias);
}

void OuterWeights::embed(std::span<const int> ids, std::size_t position, float* hidden) const {
  for (const int id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= spec_.vocab_size) {
      throw Error("token " + std::to_string(id),
                  "not in the model's vocabulary of " + std::to_string(spec_.vocab_size));
    }
  }
  if (positions_ && position + ids.size() > positions_->rows()) {
    throw Error("position " + std::to_string(position + ids.size() - 1),
                "the model has learned positions up to " + std::to_string(positions_->rows() - 1) + " only");
  }
  const std::size_t size = spec_.hidden_size;
#pragma omp parallel for
  for (std::size_t i = 0; i < ids.size(); ++i) {
    float* row = hidden + i * size;
    decode_row(embedding_, static_cast<std::size_t>(ids[i]), row);
    if (positions_) {
      std::vector<float> place(size);
      decode_row(*positions_, position + i, place.data());
      for (std::size_t c = 0; c < size; ++c) row[c] += place[c];
    }
    if (!token_type_.empty()) {
      for (std::size_t c = 0; c < size; ++c) row[c] += token_type_[c];
    }
  }
  if (spec_.embedding_norm) embedding_norm_.apply(hidden, ids.size(), hidden);
}

void OuterWeights::prepare_head(const float* hidden, std::size_t m, float* dst,
                                kernels::Int8Activations& scratch) const {
  if (spec_.has_final_norm()) {
    final_norm_.apply(hidden, m, dst);
    hidden = dst;
  }
  if (head_transform_) {
    std::vector<float> transformed(m * spec_.hidden_size);
    const LinearOutput output[] = {{&*head_transform_, transformed.data(), spec_.hidden_size}};
    apply(output, hidden, m, scratch);
    kernels::activate(spec_.activation, transformed.data(), transformed.size());
    head_norm_.apply(transformed.data(), m, dst);
    hidden = dst;
  }
  if (hidden != dst) std::copy_n(hidden, m * spec_.hidden_size, dst);
}

void OuterWeights::head(const float* prepared, std::size_t m, float* logits, kernels::Int8Activations& scratch) const {
  const LinearOutput output[] = {{&head_linear(), logits, spec_.vocab_size}};
  apply(output, prepared, m, scratch);
}

std::size_t OuterWeights::weights() const {
  std::size_t count = elements(embedding_) + token_type_.size() * spec_.token_types + elements(embedding_norm_) +
                      elements(final_norm_) + elements(head_norm_);
  for (const std::optional<Linear>* linear : {&positions_, &head_transform_, &head_}) {
    if (*linear) count += elements(**linear);
  }
  return count;
}

std::size_t OuterWeights::streamed_bytes() const {
  return head_linear().bytes() + (head_transform_ ? head_transform_->bytes() : 0);
}

Model::Model(const std::filesystem::path& path)
    : source_(std::make_unique<ModelSource>(path)), outer_(*source_), rope_(source_->spec()) {
  source_->checkpoint().verify_checksums();
  blocks_.reserve(spec().layers);
  for (std::size_t layer = 0; layer < spec().layers; ++layer) blocks_.push_back(source_->block(layer));
}

std::vector<std::uint8_t> Model::massive(std::span<const int> ids, std::size_t position) const {
  // Without a calibration: StreamingLLM's figure for how many of the first tokens draw attention (arXiv:2309.17453).
  constexpr std::size_t kFirstTokens = 4;
  const std::optional<std::vector<int>>& known = source_->massive_tokens();
  std::vector<std::uint8_t> flags;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto listed = [&](int token) { return std::ranges::find(*known, token) != known->end(); };
    const bool flag =
        known ? listed(ids[i]) || (position + i == 0 && listed(MassiveToken::kFirst)) : position + i < kFirstTokens;
    flags.push_back(flag ? 1 : 0);
  }
  return flags;
}

std::span<const float> Model::forward(std::span<const SequenceTokens> batch) {
  std::vector<BatchSequence> sequences;
  std::size_t tokens = 0;
  for (const SequenceTokens& sequence : batch) tokens += sequence.ids.size();
  hidden_.resize(tokens * spec().hidden_size);
  std::vector<std::vector<std::uint8_t>> flags;
  std::size_t first = 0;
  for (const SequenceTokens& sequence : batch) {
    const std::size_t position = sequence.cache->length();
    outer_.embed(sequence.ids, position, hidden_.data() + first * spec().hidden_size);
    sequences.push_back({.tokens = sequence.ids.size(), .cache = sequence.cache});
    if (sequence.cache->type() == kernels::CacheType::kInt8) {
      flags.push_back(massive(sequence.ids, position));
      sequences.back().massive = flags.back();
    }
    first += sequence.ids.size();
  }
  rope_.look_up(sequences, angles_);
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    forward_block(spec(), blocks_[layer], layer, angles_, sequences, layer, hidden_.data(), activations_);
  }
  for (const BatchSequence& sequence : sequences) sequence.cache->advance(sequence.tokens);
  return hidden_;
}

void Model::logits(const float* hidden, std::size_t m, float* logits) {
  prepared_.resize(m * spec().hidden_size);
  outer_.prepare_head(hidden, m, prepared_.data(), activations_.quantized);
  outer_.head(prepared_.data(), m, logits, activations_.quantized);
}

KeyValueCache Model::make_cache(const CacheOptions& options, std::size_t capacity, std::size_t largest_append) const {
  const std::string place = source_->checkpoint().path().string();
  if (options.window == 0 && options.sinks > 0) throw Error("sinks", "need a window");
  if (options.window > 0 && !spec().causal) throw Error(place, "is an encoder: every token sees all, no window moves");
  if (options.window > 0 && spec().positions == PositionKind::kLearned) {
    throw Error(place, "has learned positions, which a rolling cache cannot renumber");
  }
  if (options.window + options.sinks > spec().context_length) {
    throw Error("window", std::to_string(options.window + options.sinks) +
                              " tokens with the sinks are more than the model's " + "context of " +
                              std::to_string(spec().context_length));
  }
  using Type = CacheOptions::Type;
  const kernels::CacheType type = options.type == Type::kF32   ? kernels::CacheType::kF32
                                  : options.type == Type::kF16 ? kernels::CacheType::kF16
                                                               : kernels::CacheType::kInt8;
  return {cache_shape(spec()),
          {.layers = spec().layers,
           .type = type,
           .capacity = capacity,
           .window = options.window,
           .sinks = options.sinks,
           .largest_append = std::max<std::size_t>(1, largest_append)}};
}

KeyValueCache Model::make_exact_cache(std::size_t capacity) const {
  return make_cache({.type = CacheOptions::Type::kF32}, capacity, capacity);
}

double Model::expert_share() const {
  if (!spec().experts) return 1.0;
  return static_cast<double>(spec().experts->per_token) / static_cast<double>(spec().experts->count);
}

std::size_t Model::streamed_bytes() const {
  auto bytes = static_cast<double>(outer_.streamed_bytes());
  for (const BlockWeights& block : blocks_) {
    for_each_linear(block, expert_share(),
                    [&](const Linear& linear, double share) { bytes += share * static_cast<double>(linear.bytes()); });
  }
  return static_cast<std::size_t>(bytes);
}

std::size_t Model::block_weights() const {
  double count = 0;
  for (const BlockWeights& block : blocks_) {
    for_each_linear(block, expert_share(), [&](const Linear& linear, double share) {
      count += share * static_cast<double>(linear.rows() * linear.cols());
    });
  }
  return static_cast<std::size_t>(count);
}

std::size_t Model::head_weights() const {
  return outer_.head_linear().rows() * outer_.head_linear().cols();
}

std::size_t Model::all_weights() const {
  std::size_t count = outer_.weights();
  for (const BlockWeights& block : blocks_) {
    count += elements(block.attention_norm) + elements(block.mlp_norm) + elements(block.query_norm) +
             elements(block.key_norm);
    for_each_linear(block, 1.0, [&](const Linear& linear, double) { count += elements(linear); });
  }
  return count;
}

std::unique_ptr<Tokenizer> require_tokenizer(const ModelSource& source) {
  const std::string place = source.checkpoint().path().string();
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(source.checkpoint());
  if (tokenizer == nullptr)
    throw Error(place,
                "has no tokenizer.json, tokenizer.model or bare vocabulary, which "
                "this command needs to read text");
  check_embedding_rows(*tokenizer, source.spec().vocab_size, place);
  return tokenizer;
}

}  // namespace ballast::model
