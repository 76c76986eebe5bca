#include "model/embedding_and_head.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ballast/error.h"
#include "kernels/activation.h"
#include "kernels/norm.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"

namespace ballast::model {

Embedding::Embedding(const ModelSpec& spec, const BlockParts& parts)
    : hidden_size_(spec.hidden_size),
      channels_(spec.embedding_channels()),
      token_types_(spec.token_types),
      first_position_(spec.first_position),
      scale_(static_cast<float>(spec.embedding_scale)),
      table_(parts.linear({Role::kEmbedding})) {
  if (spec.sinusoids) {
    constexpr double kSlowest = 10000;  // positions in which the last pair turns by one
    for (std::size_t i = 0; i < channels_ / 2; ++i) {
      sinusoids_.push_back(std::pow(kSlowest, -static_cast<double>(i) / static_cast<double>(spec.sinusoids->steps)));
    }
  }
  if (spec.learned_positions) own_.positions = parts.linear({Role::kPositionEmbedding});
  if (spec.token_types > 0) {
    token_type_rows_.resize(spec.token_types * channels_);
    const Linear table = parts.linear({Role::kTokenTypeEmbedding});
    for (std::size_t type = 0; type < spec.token_types; ++type) {
      decode_row(table, type, token_type_rows_.data() + type * channels_);
    }
  }
  if (spec.embedding_norm) own_.norm = parts.norm(Role::kEmbeddingNorm);
  if (spec.embedding_size > 0) projection_ = parts.linear({Role::kEmbeddingProjection});
  if (spec.encoder && spec.learned_positions) {
    of_source_.positions = parts.linear({Role::kEncoderPositionEmbedding});
  }
  if (spec.encoder && spec.embedding_norm) of_source_.norm = parts.norm(Role::kEncoderEmbeddingNorm);
  if (!spec.token_inputs) return;
  token_inputs_ = TokenInputs{.spec = *spec.token_inputs,
                              .table = parts.linear({Role::kTokenInputTable}),
                              .projection = parts.linear({Role::kTokenInputProjection}),
                              .norm = parts.norm(Role::kTokenInputNorm)};
}

void Embedding::check(const TokenSpan& tokens, std::size_t position) const {
  for (const int id : tokens.ids()) {
    if (id < 0 || static_cast<std::size_t>(id) >= table_.rows()) {
      throw Error("token " + std::to_string(id), "not in the model's vocabulary of " + std::to_string(table_.rows()));
    }
  }
  for (const std::uint8_t type : tokens.types()) {
    if (type > 0 && type >= token_types_) {
      throw Error("token type " + std::to_string(type), "the model has " + std::to_string(token_types_) + " only");
    }
  }
  if (!own_.positions) return;
  const std::size_t known = own_.positions->rows() - first_position_;
  if (position + tokens.size() > known) {
    throw Error("position " + std::to_string(position + tokens.size() - 1),
                "the model has learned positions up to " + std::to_string(known - 1) + " only");
  }
}

void Embedding::embed(const TokenSpan& tokens, std::size_t position, float* hidden, Text text) const {
  check(tokens, position);
  std::vector<PlacedToken> placed;
  placed.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) placed.push_back({.input = tokens[i], .position = position + i});
  embed(placed, hidden, text);
}

void Embedding::scaled_row(const TokenInput& token, float* dst, const AddedRows* added) const {
  if (token.row != nullptr) {
    std::copy_n(token.row, channels_, dst);
    return;
  }
  decode_row(table_, static_cast<std::size_t>(token.id), dst);
  if (added != nullptr) added->add(static_cast<std::size_t>(token.id), dst);
  if (scale_ == 1) return;
  for (std::size_t c = 0; c < channels_; ++c) dst[c] *= scale_;
}

void Embedding::add_sinusoids(std::size_t position, float* row) const {
  const std::size_t pairs = sinusoids_.size();
  for (std::size_t i = 0; i < pairs; ++i) {
    const double angle = static_cast<double>(position) * sinusoids_[i];
    row[i] += static_cast<float>(std::sin(angle));
    row[pairs + i] += static_cast<float>(std::cos(angle));
  }
}

void Embedding::embed(std::span<const PlacedToken> tokens, float* hidden, Text text) const {
  if (!projection_) return embed_rows(tokens, hidden, text);
  std::vector<float> rows(tokens.size() * channels_);
  embed_rows(tokens, rows.data(), text);
  const LinearOutput output[] = {{&*projection_, hidden, hidden_size_}};
  LinearScratch scratch;
  apply(output, LinearRows(rows.data(), channels_), StepRows::outside(tokens.size()), scratch);
}

/// Writes rows [tokens.size()][channels_] before their projection.
void Embedding::embed_rows(std::span<const PlacedToken> tokens, float* rows, Text text) const {
  const auto& [positions, norm] = text == Text::kSource ? of_source_ : own_;
  const std::size_t size = channels_;
  constexpr std::size_t kOperationsOfAnAngle = 32;
  const std::size_t operations = sinusoids_.empty() ? 1 : kOperationsOfAnAngle;
  const std::size_t threads = kernels::threads_for(tokens.size() * size * operations);
  const kernels::ThreadScratch scratch(threads, positions ? size : 0);
  kernels::parallel_tasks(tokens.size(), threads, [&](std::size_t i, std::size_t thread) {
    float* row = rows + i * size;
    scaled_row(tokens[i].input, row, tokens[i].added);
    if (positions) {
      float* position_row = scratch.of(thread);
      decode_row(*positions, first_position_ + tokens[i].position, position_row);
      for (std::size_t c = 0; c < size; ++c) row[c] += position_row[c];
    }
    if (!sinusoids_.empty()) add_sinusoids(first_position_ + tokens[i].position, row);
    if (token_types_ > 0) {
      const float* type_row = token_type_rows_.data() + tokens[i].input.type * size;
      for (std::size_t c = 0; c < size; ++c) row[c] += type_row[c];
    }
  });
  if (!norm.gain.empty()) norm.apply(rows, tokens.size(), rows);
}

void Embedding::add_token_inputs(const TokenSpan& tokens, const float* embedded, LinearScratch& scratch,
                                 std::vector<float>& inputs) const {
  if (!token_inputs_) return;
  const auto& [spec, table, projection, norm] = *token_inputs_;
  const std::size_t size = projection.rows();
  const std::size_t before = inputs.size();
  inputs.resize(before + tokens.size() * size);
  float* added = inputs.data() + before;
  const LinearOutput output[] = {{&projection, added, size}};
  apply(output, LinearRows(embedded, hidden_size_), StepRows::outside(tokens.size()), scratch);
  kernels::rms_norm_heads(added, tokens.size(), size / spec.size, spec.size, size, norm.gain.data(),
                          static_cast<float>(spec.projection_epsilon));
  const auto table_scale = static_cast<float>(spec.table_scale);
  const auto scale = static_cast<float>(spec.scale);
  const std::size_t threads = kernels::threads_for(tokens.size() * size);
  const kernels::ThreadScratch rows(threads, size);
  kernels::parallel_tasks(tokens.size(), threads, [&](std::size_t i, std::size_t thread) {
    float* row = rows.of(thread);
    decode_row(table, static_cast<std::size_t>(tokens[i].id), row);
    float* input = added + i * size;
    for (std::size_t c = 0; c < size; ++c) input[c] = scale * (input[c] + table_scale * row[c]);
  });
}

void Embedding::add_token_inputs(const TokenSpan& tokens, std::vector<float>& inputs) const {
  if (!token_inputs_) return;
  std::vector<float> embedded(tokens.size() * hidden_size_);
  embed(tokens, 0, embedded.data());
  LinearScratch scratch;
  add_token_inputs(tokens, embedded.data(), scratch, inputs);
}

bool Embedding::lies_in_file() const {
  const auto lies = [](const Additions& additions) {
    return additions.positions && model::lies_in_file(*additions.positions);
  };
  return model::lies_in_file(table_) || lies(own_) || lies(of_source_);
}

HeadPreparation::HeadPreparation(const ModelSpec& spec, const BlockParts& parts)
    : hidden_size_(spec.hidden_size), head_inputs_(spec.embedding_channels()), normalizes_(spec.has_final_norm()) {
  if (normalizes_) final_norm_ = parts.norm(Role::kFinalNorm);
  if (!spec.head_transform) return;
  transform_ = parts.linear({Role::kHeadTransform});
  activation_ = *spec.head_transform;
  head_norm_ = parts.norm(Role::kHeadNorm);
}

void HeadPreparation::normalize(const float* hidden, std::size_t m, float* dst) const {
  if (normalizes_) {
    final_norm_.apply(hidden, m, dst);
  } else if (hidden != dst) {
    std::copy_n(hidden, m * hidden_size_, dst);
  }
}

void HeadPreparation::prepare(const float* hidden, std::size_t m, float* dst, LinearScratch& scratch) const {
  if (!transform_) return normalize(hidden, m, dst);
  std::vector<float> normalized(normalizes_ ? m * hidden_size_ : 0);
  if (normalizes_) final_norm_.apply(hidden, m, normalized.data());
  std::vector<float> transformed(m * head_inputs_);
  const LinearOutput output[] = {{&*transform_, transformed.data(), head_inputs_}};
  const float* read = normalizes_ ? normalized.data() : hidden;
  apply(output, LinearRows(read, hidden_size_), StepRows::outside(m), scratch);
  kernels::activate(activation_, transformed.data(), transformed.size());
  head_norm_.apply(transformed.data(), m, dst);
}

EmbeddingAndHead::EmbeddingAndHead(const ModelSpec& spec, const BlockParts& parts)
    : spec_(spec), embedding_(spec, parts), preparation_(spec, parts) {
  if (!spec_.tied_embeddings) head_ = parts.linear({Role::kHead});
  if (spec_.biases.head) (head_ ? *head_ : embedding_.table()).bias = parts.vector(Role::kHeadBias);
}

void EmbeddingAndHead::head(const float* prepared, const StepRows& step, float* logits, LinearScratch& scratch) const {
  const LinearOutput output[] = {{&head_linear(), logits, spec_.vocab_size}};
  apply(output, LinearRows(prepared, spec_.embedding_channels()), step, scratch);
  if (spec_.logit_scale != 1.0 || spec_.logit_cap > 0) scale_and_cap(logits, step.count());
}

void EmbeddingAndHead::scale_and_cap(float* logits, std::size_t m) const {
  constexpr std::size_t kOperationsOfTanh = 32;
  const auto scale = static_cast<float>(spec_.logit_scale);
  const auto cap = static_cast<float>(spec_.logit_cap);
  const std::size_t size = m * spec_.vocab_size;
  kernels::parallel_ranges(size, kernels::threads_for(size * kOperationsOfTanh),
                           [&](std::size_t begin, std::size_t end) {
                             for (std::size_t i = begin; i < end; ++i) {
                               const float logit = scale * logits[i];
                               logits[i] = cap > 0 ? cap * std::tanh(logit / cap) : logit;
                             }
                           });
}

std::size_t EmbeddingAndHead::streamed_bytes() const {
  return head_linear().bytes() + (preparation_.transform() ? preparation_.transform()->bytes() : 0);
}

}  // namespace ballast::model
