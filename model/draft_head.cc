#include "model/draft_head.h"

#include <algorithm>

#include "kernels/parallel.h"

namespace ballast::model {

DraftHead::DraftHead(const ModelSpec& spec, const BlockParts& parts)
    : spec_(spec),
      embedding_norm_(parts.norm(Role::kDraftEmbeddingNorm)),
      model_norm_(parts.norm(Role::kDraftModelNorm)),
      hidden_norm_(parts.norm(Role::kDraftHiddenNorm)),
      projection_(parts.linear({Role::kDraftProjection})),
      block_(assemble_block(spec_, layer(), parts)),
      norm_(parts.norm(Role::kDraftNorm)),
      rope_(spec_) {}

SequenceState DraftHead::make_state(std::size_t capacity) const {
  return {spec_, layer(), {.type = kernels::CacheType::kF16, .capacity = capacity}};
}

/// Computes the input of the block from `embedded` and `hidden`, which it replaces.
void DraftHead::project(std::size_t rows, DraftHeadWorkspace& workspace) const {
  const std::size_t size = spec_.hidden_size;
  embedding_norm_.apply(workspace.embedded.data(), rows, workspace.embedded.data());
  hidden_norm_.apply(workspace.hidden.data(), rows, workspace.hidden.data());
  workspace.inputs.resize(2 * rows * size);
  const auto& first = spec_.draft_reads_hidden_first ? workspace.hidden : workspace.embedded;
  const auto& second = spec_.draft_reads_hidden_first ? workspace.embedded : workspace.hidden;
  for (std::size_t row = 0; row < rows; ++row) {
    float* input = workspace.inputs.data() + 2 * row * size;
    std::copy_n(first.data() + row * size, size, input);
    std::copy_n(second.data() + row * size, size, input + size);
  }
  const LinearOutput output[] = {{&projection_, workspace.hidden.data(), size}};
  apply(output, LinearRows(workspace.inputs.data(), 2 * size), StepRows::outside(rows), workspace.activations.linears);
}

void DraftHead::forward(std::span<const DraftHeadTokens> batch, const Embedding& embedding, float* output,
                        DraftHeadWorkspace& workspace) const {
  const std::size_t size = spec_.hidden_size;
  workspace.tokens.clear();
  workspace.batch.clear();
  workspace.hidden.clear();
  for (const DraftHeadTokens& text : batch) {
    const std::size_t position = text.state->position();
    for (std::size_t i = 0; i < text.tokens.size(); ++i) {
      workspace.tokens.push_back({.input = {.id = text.tokens[i]}, .position = position + i});
    }
    workspace.batch.push_back({.tokens = text.tokens.size(), .state = text.state, .fp16_tokens = {}, .wanted = 1});
    workspace.hidden.insert(workspace.hidden.end(), text.hidden, text.hidden + text.tokens.size() * size);
  }
  const std::size_t rows = workspace.tokens.size();
  workspace.embedded.resize(rows * size);
  const bool wanted_only = can_keep_wanted_only(spec_);
  kernels::with_team([&] {
    embedding.embed(workspace.tokens, workspace.embedded.data());
    project(rows, workspace);
    rope_.look_up(workspace.batch, workspace.angles);
    forward_block(spec_, block_, layer(), workspace.angles, workspace.batch, 0, workspace.hidden.data(),
                  workspace.activations, {.wanted_only = wanted_only});
  });
  std::size_t row = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    batch[i].state->advance(batch[i].tokens.size());
    row += wanted_only ? 1 : batch[i].tokens.size();
    std::copy_n(workspace.hidden.data() + (row - 1) * size, size, output + i * size);
  }
  norm_.apply(output, batch.size(), output);
}

}  // namespace ballast::model
