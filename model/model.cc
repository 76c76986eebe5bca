#include "model/model.h"
#include "text/tokenizer_check.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "ballast/error.h"
#include "ballast/statistics.h"
#include "kernels/activation.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"

namespace ballast::model {

namespace {

std::size_t elements(const Norm& norm) {
  return norm.gain.size() + norm.bias.size();
}

std::size_t elements(const Linear& linear) {
  return linear.rows() * linear.cols() + linear.bias.size();
}

}  // namespace

Embedding::Embedding(const ModelSpec& spec, const BlockParts& parts)
    : hidden_size_(spec.hidden_size), token_types_(spec.token_types), table_(parts.linear({Role::kEmbedding})) {
  if (spec.learned_positions) positions_ = parts.linear({Role::kPositionEmbedding});
  if (spec.token_types > 0) {
    token_type_.resize(spec.hidden_size);
    decode_row(parts.linear({Role::kTokenTypeEmbedding}), 0, token_type_.data());
  }
  if (spec.embedding_norm) norm_ = parts.norm(Role::kEmbeddingNorm);
}

void Embedding::embed(std::span<const int> ids, std::size_t position, float* hidden) const {
  for (const int id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= table_.rows()) {
      throw Error("token " + std::to_string(id), "not in the model's vocabulary of " + std::to_string(table_.rows()));
    }
  }
  if (positions_ && position + ids.size() > positions_->rows()) {
    throw Error("position " + std::to_string(position + ids.size() - 1),
                "the model has learned positions up to " + std::to_string(positions_->rows() - 1) + " only");
  }
  const std::size_t size = hidden_size_;
  const std::size_t threads = kernels::threads_for(ids.size() * size);
  const kernels::ThreadScratch scratch(threads, positions_ ? size : 0);
  kernels::parallel_tasks(ids.size(), threads, [&](std::size_t i, std::size_t thread) {
    float* row = hidden + i * size;
    decode_row(table_, static_cast<std::size_t>(ids[i]), row);
    if (positions_) {
      float* place = scratch.of(thread);
      decode_row(*positions_, position + i, place);
      for (std::size_t c = 0; c < size; ++c) row[c] += place[c];
    }
    if (!token_type_.empty()) {
      for (std::size_t c = 0; c < size; ++c) row[c] += token_type_[c];
    }
  });
  if (!norm_.gain.empty()) norm_.apply(hidden, ids.size(), hidden);
}

std::size_t Embedding::weights() const {
  return elements(table_) + (positions_ ? elements(*positions_) : 0) + token_type_.size() * token_types_ +
         elements(norm_);
}

OuterWeights::OuterWeights(const ModelSpec& spec, const BlockParts& parts) : spec_(spec), embedding_(spec, parts) {
  if (spec_.has_final_norm()) final_norm_ = parts.norm(Role::kFinalNorm);
  if (spec_.head_transform) {
    head_transform_ = parts.linear({Role::kHeadTransform});
    head_norm_ = parts.norm(Role::kHeadNorm);
  }
  if (!spec_.tied_embeddings) head_ = parts.linear({Role::kHead});
  if (spec_.biases.head) (head_ ? *head_ : embedding_.table()).bias = parts.vector(Role::kHeadBias);
}

void OuterWeights::prepare_head(const float* hidden, std::size_t m, float* dst,
                                kernels::QuantizedActivations& scratch) const {
  if (spec_.has_final_norm()) {
    final_norm_.apply(hidden, m, dst);
    hidden = dst;
  }
  if (head_transform_) {
    std::vector<float> transformed(m * spec_.hidden_size);
    const LinearOutput output[] = {{&*head_transform_, transformed.data(), spec_.hidden_size}};
    apply(output, LinearRows(hidden, spec_.hidden_size), m, scratch);
    kernels::activate(*spec_.head_transform, transformed.data(), transformed.size());
    head_norm_.apply(transformed.data(), m, dst);
    hidden = dst;
  }
  if (hidden != dst) std::copy_n(hidden, m * spec_.hidden_size, dst);
}

void OuterWeights::head(const float* prepared, std::size_t m, float* logits,
                        kernels::QuantizedActivations& scratch) const {
  const LinearOutput output[] = {{&head_linear(), logits, spec_.vocab_size}};
  apply(output, LinearRows(prepared, spec_.hidden_size), m, scratch);
}

std::size_t OuterWeights::weights() const {
  std::size_t count = embedding_.weights() + elements(final_norm_) + elements(head_norm_);
  for (const std::optional<Linear>* linear : {&head_transform_, &head_}) {
    if (*linear) count += elements(**linear);
  }
  return count;
}

std::size_t OuterWeights::streamed_bytes() const {
  return head_linear().bytes() + (head_transform_ ? head_transform_->bytes() : 0);
}

Model::Model(const std::filesystem::path& path) : Model(std::make_unique<ModelSource>(path)) {}

Model::Model(std::unique_ptr<ModelSource> source)
    : source_(std::move(source)), outer_(*source_), rope_(source_->spec()) {
  source_->checkpoint().verify_checksums();
  // A thread per block, because a block has too many small parts for all threads to meet at each.
  const std::size_t layers = spec().layers.size();
  blocks_.resize(layers);
  std::vector<std::exception_ptr> failures(layers);
  kernels::parallel_tasks(layers, kernels::available_threads(), [&](std::size_t layer, std::size_t) {
    try {
      blocks_[layer] = source_->block(layer);
    } catch (...) {
      failures[layer] = std::current_exception();
    }
  });
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

void Model::flag_massive(std::span<const int> ids, std::size_t position, std::vector<std::uint8_t>& flags) const {
  // Without a calibration: StreamingLLM's figure for how many of the first tokens draw attention (arXiv:2309.17453).
  constexpr std::size_t kFirstTokens = 4;
  const std::optional<std::vector<int>>& known = source_->massive_tokens();
  const std::size_t prefix = source_->prefix_tokens().size();
  flags.clear();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto listed = [&](int token) { return std::ranges::find(*known, token) != known->end(); };
    const bool flag =
        known ? listed(ids[i]) || (position + i == 0 && listed(MassiveToken::kFirst)) : position + i < kFirstTokens;
    flags.push_back(flag || position + i < prefix ? 1 : 0);
  }
}

std::span<const float> Model::forward(std::span<const SequenceTokens> batch) {
  run(batch, {});
  return hidden_;
}

void Model::run(std::span<const SequenceTokens> batch, const ForwardOptions& last_block) {
  std::size_t tokens = 0;
  for (const SequenceTokens& sequence : batch) tokens += sequence.ids.size();
  hidden_.resize(tokens * spec().hidden_size);
  sequences_.clear();
  if (flags_.size() < batch.size()) flags_.resize(batch.size());
  kernels::with_team([&] {
    std::size_t first = 0;
    for (const SequenceTokens& sequence : batch) {
      const std::size_t position = sequence.cache->position();
      outer_.embed(sequence.ids, position, hidden_.data() + first * spec().hidden_size);
      BatchSequence entry = {.tokens = sequence.ids.size(), .cache = sequence.cache};
      if (sequence.cache->type() == kernels::CacheType::kInt8) {
        std::vector<std::uint8_t>& flags = flags_[sequences_.size()];
        flag_massive(sequence.ids, position, flags);
        entry.massive = flags;
      }
      sequences_.push_back(entry);
      first += sequence.ids.size();
    }
    rope_.look_up(sequences_, angles_);
    for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
      forward_block(spec(), blocks_[layer], layer, angles_, sequences_, layer, hidden_.data(), activations_,
                    layer + 1 == blocks_.size() ? last_block : ForwardOptions{});
    }
  });
  for (const BatchSequence& sequence : sequences_) sequence.cache->advance(sequence.tokens);
}

void Model::logits(const float* hidden, std::size_t m, float* logits) {
  if (prepared_.size() < m * spec().hidden_size) prepared_.resize(m * spec().hidden_size);
  kernels::with_team([&] {
    outer_.prepare_head(hidden, m, prepared_.data(), activations_.quantized);
    outer_.head(prepared_.data(), m, logits, activations_.quantized);
  });
}

void Model::next_logits(const SequenceTokens& sequence, float* logits) {
  kernels::with_team([&] {
    const ForwardOptions last_block = {.last_only = can_keep_last_only(spec())};
    run({&sequence, 1}, last_block);
    const std::size_t row = last_block.last_only ? 0 : sequence.ids.size() - 1;
    this->logits(hidden_.data() + row * spec().hidden_size, 1, logits);
  });
}

kernels::CacheType Model::cache_type(CacheOptions::Type type) const {
  switch (type) {
    case CacheOptions::Type::kF32:
      return kernels::CacheType::kF32;
    case CacheOptions::Type::kF16:
      return kernels::CacheType::kF16;
    case CacheOptions::Type::kInt8:
      return kernels::CacheType::kInt8;
    case CacheOptions::Type::kAuto:
      break;
  }
  const bool int8_activations = source_->quantization() && source_->quantization()->int8_activations;
  return int8_activations ? kernels::CacheType::kInt8 : kernels::CacheType::kF16;
}

KeyValueCache Model::make_cache(const CacheOptions& options, std::size_t capacity, std::size_t largest_append) {
  const std::string place = source_->checkpoint().path().string();
  if (options.window == 0 && options.sinks > 0) throw Error("sinks", "need a window");
  if (options.window > 0 && !spec().causal) throw Error(place, "is an encoder: every token sees all, no window moves");
  if (options.window > 0 && spec().learned_positions) {
    throw Error(place, "has learned positions, which a rolling cache cannot renumber");
  }
  if (options.window + options.sinks > context_length()) {
    throw Error("window", std::to_string(options.window + options.sinks) +
                              " tokens with the sinks are more than the model's " + "context of " +
                              std::to_string(context_length()));
  }
  const std::vector<int>& prefix = source_->prefix_tokens();
  const std::size_t piece = std::max<std::size_t>(1, largest_append);
  KeyValueCache cache(cache_shape(spec().layers.front()),
                      {.layers = spec().layers.size(),
                       .type = cache_type(options.type),
                       .capacity = prefix.size() + capacity,
                       .window = options.window,
                       .sinks = options.window == 0 ? 0 : prefix.size() + options.sinks,
                       .largest_append = piece});
  for (std::span<const int> rest = prefix; !rest.empty();) {
    const SequenceTokens sequence = {rest.first(std::min(rest.size(), piece)), &cache};
    run({&sequence, 1}, {});
    rest = rest.subspan(sequence.ids.size());
  }
  if (!prefix.empty()) cache.hold_prefix();
  return cache;
}

KeyValueCache Model::make_exact_cache(std::size_t capacity) {
  return make_cache({.type = CacheOptions::Type::kF32}, capacity, capacity);
}

std::size_t Model::streamed_bytes() const {
  auto bytes = static_cast<double>(outer_.streamed_bytes());
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    for_each_linear(blocks_[layer], spec().layers[layer].mlp.expert_share(),
                    [&](const Linear& linear, double share) { bytes += share * static_cast<double>(linear.bytes()); });
  }
  return static_cast<std::size_t>(bytes);
}

double Model::prompt_weights(std::size_t tokens) const {
  const auto size = [](const Linear& linear) { return static_cast<double>(linear.rows() * linear.cols()); };
  double each = 0;
  double last = size(outer_.head_linear());
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    const BlockWeights& block = blocks_[layer];
    const bool ends = layer + 1 == blocks_.size() && can_keep_last_only(spec());
    bool before_attention = true;  // the order of for_each_linear
    for_each_linear(block, spec().layers[layer].mlp.expert_share(), [&](const Linear& linear, double share) {
      if (&linear == &block.attention_output) before_attention = false;
      const bool gate = block.output_gate && &linear == &*block.output_gate;
      (ends && !before_attention && !gate ? last : each) += share * size(linear);
    });
  }
  return each + last / static_cast<double>(tokens);
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

std::unique_ptr<text::Tokenizer> require_tokenizer(const ModelSource& source) {
  const std::string place = source.checkpoint().path().string();
  std::unique_ptr<text::Tokenizer> tokenizer = text::load_tokenizer(source.checkpoint());
  if (tokenizer == nullptr)
    throw Error(place,
                "has no tokenizer.json, tokenizer.model or bare vocabulary, which "
                "this command needs to read text");
  text::check_embedding_rows(*tokenizer, source.spec().vocab_size, place);
  return tokenizer;
}

}  // namespace ballast::model
