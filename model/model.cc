#include "model/model.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "ballast/error.h"
#include "ballast/statistics.h"
#include "kernels/machine.h"
#include "kernels/parallel.h"
#include "model/mixer/mixer_kind.h"
#include "model/source/adapter_loader.h"
#include "model/source/code_rounding.h"
#include "text/tokenizer_check.h"

namespace ballast::model {

namespace {

/// Returns whether a role's matrix is used only for look-ups.
bool is_looked_up(Role role, const ModelSpec& spec) {
  return role == Role::kPositionEmbedding || role == Role::kEncoderPositionEmbedding ||
         role == Role::kTokenTypeEmbedding || (role == Role::kEmbedding && !spec.tied_embeddings);
}

bool is_copied_by_mixer(Role role, const ModelSpec& spec, std::size_t layer) {
  return role_row(role).place == RoleRow::Place::kBlock && role_row(spec.layers[layer], role).copied_by_mixer;
}

BlockParts parts_of(const ModelSource& source, std::size_t layer, FloatLayout layout) {
  BlockParts parts = source.parts(layer);
  if (layout == FloatLayout::kRows) return parts;
  parts.linear = [&source, layer, in_rows = std::move(parts.linear)](Part part) {
    if (is_looked_up(part.role, source.spec()) || is_copied_by_mixer(part.role, source.spec(), layer)) {
      return in_rows(part);
    }
    Linear linear = in_panels(in_rows(part));
    source.release(part, layer);
    return linear;
  };
  return parts;
}

/// Returns a loader that keeps only the packed experts in memory, not the file's pages.
ExpertLoader expert_loader(const ModelSource& source, FloatLayout layout) {
  const auto load = [&source, layout](std::size_t layer, std::size_t expert) {
    BlockParts parts = parts_of(source, layer, layout);
    if (layout == FloatLayout::kRows) {
      parts.linear = [&source, layer, mapped = std::move(parts.linear)](Part part) {
        Linear linear = in_own_memory(mapped(part));
        source.release(part, layer);
        return linear;
      };
    }
    return assemble_expert(source.spec().layers[layer].mlp, parts, expert);
  };
  const auto begin = [&source](std::size_t layer, std::span<const std::size_t> experts) {
    source.checkpoint().check_whole();
    for (const std::size_t expert : experts) source.read_ahead(layer, expert);
  };
  return {.begin = begin, .load = load};
}

std::unique_ptr<const ExpertCache> make_expert_cache(const ModelSource& source, FloatLayout layout,
                                                     const ModelOptions& options) {
  if (options.expert_bytes == 0) return nullptr;
  const std::vector<LayerSpec>& layers = source.spec().layers;
  const auto routed =
      std::ranges::find_if(layers, [](const LayerSpec& layer) { return layer.mlp.experts.has_value(); });
  if (routed == layers.end()) {
    throw Error(source.checkpoint().path().string(), "has no experts, so that there is nothing to leave on disk");
  }
  return std::make_unique<const ExpertCache>(options.expert_bytes, expert_loader(source, layout),
                                             static_cast<std::size_t>(routed - layers.begin()));
}

std::size_t all_experts(const ModelSpec& spec) {
  std::size_t count = 0;
  for (const LayerSpec& layer : spec.layers) count += layer.mlp.experts ? layer.mlp.experts->count : 0;
  return count;
}

/// Returns the number of elements of the matrices of a layer's experts.
std::size_t expert_elements(const ModelSpec& spec, std::size_t layer) {
  std::size_t elements = 0;
  for (const Part& part : block_linears(spec, layer)) {
    if (role_row(part.role).place != RoleRow::Place::kExpert) continue;
    const auto [rows, cols] = matrix_shape(spec, layer, part.role);
    elements += rows * cols;
  }
  return elements;
}

/// Prepares the source by the options, for sequences of this many tokens.
std::unique_ptr<ModelSource> prepared(std::unique_ptr<ModelSource> source, const ModelOptions& options) {
  source->set_compute(options.compute);
  source->set_code_activations(options.activations);
  if (options.tell && options.activations == ActivationType::kInt8) {
    if (const RoundedBlocks rounded = rounded_blocks(*source); rounded.matrices > 0) options.tell(rounded.text());
  }
  const std::size_t tokens = options.context;
  source->lengthen_for(tokens);
  if (tokens <= source->context_length()) return source;
  throw Error(source->checkpoint().path().string(), "has no context of " + std::to_string(tokens) +
                                                        " tokens; its longest is " +
                                                        std::to_string(source->context_length()));
}

}  // namespace

Model::Model(const std::filesystem::path& path, FloatLayout layout, const ModelOptions& options)
    : Model(std::make_unique<ModelSource>(path), layout, options) {}

Model::Model(std::unique_ptr<ModelSource> source, FloatLayout layout, const ModelOptions& options)
    : Model(std::shared_ptr<const ModelSource>(prepared(std::move(source), options)), layout, options) {}

Model::Model(std::shared_ptr<const ModelSource> source, FloatLayout layout)
    : Model(std::move(source), layout, all_floats()) {}

Model::Model(std::shared_ptr<const ModelSource> source, FloatLayout layout, const ModelOptions& options)
    : source_(std::move(source)),
      embedding_and_head_(source_->spec(), parts_of(*source_, 0, layout)),
      rope_(source_->spec()) {
  source_->checkpoint().verify_checksums();
  if (spec().classifier) {
    classifier_.emplace(spec(), parts_of(*source_, 0, layout), embedding_and_head_.head_linear());
  }
  if (spec().text_vectors)
    text_dense_ = TextDense(source_->checkpoint().path(), *spec().text_vectors, source_->compute());
  token_heads_ = read_token_heads(source_->checkpoint().path(), spec().hidden_size, source_->compute());
  experts_ = make_expert_cache(*source_, layout, options);
  const std::size_t layers = spec().layers.size();
  blocks_.resize(layers);
  const auto load = [&](std::size_t layer) {
    BlockParts parts = parts_of(*source_, layer, layout);
    if (experts_ != nullptr) parts.experts = experts_->of_layer(layer);
    blocks_[layer] = assemble_block(spec(), layer, parts);
  };
  if (kernels::memory_nodes() > 1) {
    // Each thread writes its share of a matrix, which places it in near memory.
    for (std::size_t layer = 0; layer < layers; ++layer) load(layer);
  } else {
    // One thread per block, because a block has too many small parts for all threads to synchronize at each.
    kernels::TaskFailure failure;
    kernels::parallel_tasks(layers, kernels::available_threads(),
                            [&](std::size_t layer, std::size_t) { failure.keep(layer, [&] { load(layer); }); });
    failure.rethrow();
  }
  if (options.draft_head && experts_ == nullptr) {
    if (const std::unique_ptr<const ModelSource> head = source_->draft_head()) {
      draft_head_.emplace(head->spec(), parts_of(*head, layers, layout));
    }
  }
  lies_in_file_ = layout == FloatLayout::kRows || experts_ != nullptr || embedding_and_head_.embedding().lies_in_file();
  source_->release_copied();
  source_->checkpoint().check_whole();
}

void Model::check_files() const {
  if (lies_in_file_) source_->checkpoint().check_whole();
}

void Model::choose_fp16_tokens(const TokenSpan& tokens, std::size_t position,
                               std::vector<std::uint8_t>& fp16_tokens) const {
  // The number of first tokens that draw attention according to StreamingLLM (arXiv:2309.17453), for models without
  // calibration.
  constexpr std::size_t kFirstTokens = 4;
  const std::optional<std::vector<int>>& known = source_->massive_tokens();
  const std::size_t prefix = source_->prefix_tokens().size();
  fp16_tokens.clear();
  const auto listed = [&](int id) { return std::ranges::find(*known, id) != known->end(); };
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const TokenInput token = tokens[i];
    const bool massive =
        known ? (token.row == nullptr && listed(token.id)) || (position + i == 0 && listed(MassiveToken::kFirst))
              : position + i < kFirstTokens;
    fp16_tokens.push_back(massive || position + i < prefix ? 1 : 0);
  }
}

void Model::check(const TokenSpan& tokens, const SequenceState& state) const {
  const KeyValueCache& cache = state.cache();
  if (state.invalid()) throw Error("sequence", "a step failed and left its state half-changed: begin it anew");
  if (spec().encoder && state.source() == nullptr) throw Error("sequence", "has no source text");
  embedding_and_head_.embedding().check(tokens, cache.position());
  if (!cache.rolling() && tokens.size() > cache.room()) {
    throw Error("cache", "has room for " + std::to_string(cache.room()) + " more tokens, " +
                             std::to_string(tokens.size()) + " come: make a longer one");
  }
}

std::span<const float> Model::forward(std::span<const SequenceTokens> batch, Workspace& workspace) const {
  for (const SequenceTokens& sequence : batch) check(sequence.tokens, *sequence.state);
  check_files();  // programs without guard_mapped_files() learn of a truncated file before the embedding is read
  std::size_t wanted = 0;
  for (const SequenceTokens& sequence : batch) wanted += sequence.wanted;
  workspace.output_.resize(wanted * spec().hidden_size);
  workspace.done_.assign(batch.size(), 0);
  kernels::with_team([&] {
    while (cut_pass(batch, workspace)) {
      try {
        run_pass(workspace);
      } catch (...) {
        for (const BatchSequence& sequence : workspace.batch_) sequence.state->invalidate();
        throw;
      }
    }
  });
  return workspace.output_;
}

/// Chooses the next tokens of the sequences. Returns false if no sequence has tokens left.
bool Model::cut_pass(std::span<const SequenceTokens> batch, Workspace& workspace) const {
  workspace.pieces_.clear();
  workspace.batch_.clear();
  std::size_t tokens = 0;
  std::size_t output_row = 0;  // for the sequence's first wanted token
  for (std::size_t i = 0; i < batch.size() && tokens < kPassTokens; output_row += batch[i++].wanted) {
    const std::size_t first = workspace.done_[i];
    const std::size_t left = batch[i].tokens.size() - first;
    // Every token of an encoder sees all of its sequence.
    const std::size_t count = spec().causal ? std::min(left, kPassTokens - tokens) : left;
    if (count == 0) continue;
    const std::size_t end = first + count;
    const std::size_t first_wanted = std::max(first, batch[i].tokens.size() - batch[i].wanted);
    workspace.pieces_.push_back({.tokens = batch[i].tokens.subspan(first, count),
                                 .output_row = output_row + first_wanted + batch[i].wanted - batch[i].tokens.size()});
    workspace.batch_.push_back(
        {.tokens = count, .state = batch[i].state, .fp16_tokens = {}, .wanted = end - std::min(end, first_wanted)});
    workspace.done_[i] = end;
    tokens += count;
  }
  workspace.hidden_.resize(tokens * spec().hidden_size);
  return tokens > 0;
}

/// Embeds the pass's tokens.
void Model::begin_pass(Workspace& workspace) const {
  if (workspace.fp16_tokens_.size() < workspace.pieces_.size()) workspace.fp16_tokens_.resize(workspace.pieces_.size());
  workspace.tokens_.clear();
  for (std::size_t i = 0; i < workspace.pieces_.size(); ++i) {
    const std::size_t position = workspace.batch_[i].state->position();
    const TokenSpan& tokens = workspace.pieces_[i].tokens;
    const Adapter* adapter = workspace.batch_[i].state->adapter();
    const AddedRows* added = adapter != nullptr && adapter->embedding ? &*adapter->embedding : nullptr;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      workspace.tokens_.push_back({.input = tokens[t], .position = position + t, .added = added});
    }
  }
  float* hidden = workspace.hidden_.data();
  embedding_and_head_.embedding().embed(workspace.tokens_, hidden);
  workspace.token_inputs_.clear();
  for (std::size_t i = 0; i < workspace.pieces_.size(); ++i) {
    const TokenSpan& tokens = workspace.pieces_[i].tokens;
    BatchSequence& sequence = workspace.batch_[i];
    const std::size_t position = sequence.state->position();
    embedding_and_head_.embedding().add_token_inputs(tokens, hidden, workspace.activations_.linears,
                                                     workspace.token_inputs_);
    hidden += tokens.size() * spec().hidden_size;
    if (sequence.state->cache().type() != kernels::CacheType::kInt8) continue;
    choose_fp16_tokens(tokens, position, workspace.fp16_tokens_[i]);
    sequence.fp16_tokens = workspace.fp16_tokens_[i];
  }
  rope_.look_up(workspace.batch_, workspace.angles_);
}

/// Runs the blocks begin .. end. `wanted_only`: the last of them computes only the wanted tokens.
void Model::run_blocks(std::size_t begin, std::size_t end, bool wanted_only, Workspace& workspace) const {
  for (std::size_t layer = begin; layer < end; ++layer) {
    forward_block(spec(), blocks_[layer], layer, workspace.angles_, workspace.batch_, cache_layer(spec(), layer),
                  workspace.hidden_.data(), workspace.activations_,
                  {.wanted_only = wanted_only && layer + 1 == end,
                   .token_inputs = token_inputs_of_layer(spec(), workspace.token_inputs_.data(), layer)});
  }
}

void Model::run_pass(Workspace& workspace) const {
  begin_pass(workspace);
  const bool wanted_only = can_keep_wanted_only(spec());
  run_blocks(first_layer(), blocks_.size(), wanted_only, workspace);
  const std::size_t size = spec().hidden_size;
  const float* row = workspace.hidden_.data();
  for (std::size_t i = 0; i < workspace.pieces_.size(); ++i) {
    const BatchSequence& sequence = workspace.batch_[i];
    sequence.state->advance(sequence.tokens);
    if (!wanted_only) row += (sequence.tokens - sequence.wanted) * size;
    std::copy_n(row, sequence.wanted * size, workspace.output_.data() + workspace.pieces_[i].output_row * size);
    row += sequence.wanted * size;
  }
  check_files();
}

void Model::check_source(const TokenSpan& text) const {
  if (text.ids().empty()) throw Error("source text", "is empty");
  if (text.size() > context_length()) {
    throw Error("source text", "has " + std::to_string(text.size()) + " tokens, the model's context has " +
                                   std::to_string(context_length()));
  }
  embedding_and_head_.embedding().check(text, 0);
}

std::vector<std::shared_ptr<EncodedSource>> Model::encode(std::span<const TokenSpan> texts, kernels::CacheType type,
                                                          Workspace& workspace) const {
  for (const TokenSpan& text : texts) check_source(text);
  check_files();
  std::vector<std::shared_ptr<EncodedSource>> sources;
  kernels::with_team([&] {
    while (sources.size() < texts.size()) {
      std::vector<SequenceState> states;
      workspace.tokens_.clear();
      for (const TokenSpan& text : texts.subspan(sources.size())) {
        if (!states.empty() && workspace.tokens_.size() + text.size() > kPassTokens) break;
        for (std::size_t t = 0; t < text.size(); ++t) workspace.tokens_.push_back({.input = text[t], .position = t});
        states.emplace_back(spec(), KeyValueCacheOptions{.type = kernels::CacheType::kF32, .capacity = text.size()},
                            SequenceState::Layers::kOfEncoder);
      }
      workspace.batch_.clear();
      for (std::size_t i = 0; i < states.size(); ++i) {
        workspace.batch_.push_back({.tokens = texts[sources.size() + i].size(), .state = &states[i]});
      }
      const std::size_t size = spec().hidden_size;
      workspace.hidden_.resize(workspace.tokens_.size() * size);
      embedding_and_head_.embedding().embed(workspace.tokens_, workspace.hidden_.data(), Embedding::Text::kSource);
      workspace.token_inputs_.clear();
      rope_.look_up(workspace.batch_, workspace.angles_);
      run_blocks(0, first_layer(), /*wanted_only=*/false, workspace);
      std::span<const float> rows = workspace.hidden_;
      for (const BatchSequence& sequence : workspace.batch_) {
        sources.push_back(std::make_shared<EncodedSource>(spec(), rows.first(sequence.tokens * size), type));
        rows = rows.subspan(sequence.tokens * size);
      }
    }
  });
  check_files();
  return sources;
}

std::vector<float> Model::residual_stream(const TokenSpan& tokens, std::size_t blocks) const {
  SequenceState state = make_exact_state(tokens.size());
  check(tokens, state);
  check_files();
  Workspace workspace;
  workspace.done_.assign(1, 0);
  const SequenceTokens sequence = {.tokens = tokens, .state = &state};
  std::vector<float> rows;
  rows.reserve(tokens.size() * spec().hidden_size);
  kernels::with_team([&] {
    while (cut_pass({&sequence, 1}, workspace)) {
      begin_pass(workspace);
      run_blocks(0, blocks, /*wanted_only=*/false, workspace);
      state.advance(workspace.batch_.front().tokens);
      rows.insert(rows.end(), workspace.hidden_.begin(), workspace.hidden_.end());
    }
  });
  check_files();
  return rows;
}

void Model::logits(const float* hidden, const StepRows& step, float* logits, Workspace& workspace) const {
  std::vector<float>& prepared = workspace.prepared_;
  const std::size_t size = step.count() * spec().embedding_channels();
  if (prepared.size() < size) prepared.resize(size);
  kernels::with_team([&] {
    embedding_and_head_.preparation().prepare(hidden, step.count(), prepared.data(), workspace.activations_.linears);
    embedding_and_head_.head(prepared.data(), step, logits, workspace.activations_.linears);
  });
  check_files();
}

void Model::run_draft_head(std::span<const DraftHeadTokens> batch, float* output, float* logits,
                           DraftHeadWorkspace& workspace) const {
  kernels::with_team([&] {
    draft_head_->forward(batch, embedding_and_head_.embedding(), output, workspace);
    embedding_and_head_.head(output, StepRows::outside(batch.size()), logits, workspace.activations.linears);
  });
  check_files();
}

std::span<const float> Model::normalized(std::span<const float> hidden, Workspace& workspace) const {
  std::vector<float>& prepared = workspace.prepared_;
  if (prepared.size() < hidden.size()) prepared.resize(hidden.size());
  embedding_and_head_.preparation().normalize(hidden.data(), hidden.size() / spec().hidden_size, prepared.data());
  return std::span(prepared).first(hidden.size());
}

void Model::run(std::span<const SequenceTokens> batch, float* logits, Workspace& workspace) const {
  kernels::with_team([&] {
    const std::span<const float> hidden = forward(batch, workspace);
    std::vector<std::size_t> ends;
    std::vector<const AdapterPart*> adapters;
    for (const SequenceTokens& sequence : batch) {
      ends.push_back((ends.empty() ? 0 : ends.back()) + sequence.wanted);
      adapters.push_back(sequence.state->head_adapter());
    }
    this->logits(hidden.data(), StepRows(ends, adapters), logits, workspace);
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
  const bool int8_activations =
      source_->quantization() && source_->quantization()->activations == ActivationType::kInt8;
  // The keys and values of an encoder are read in one pass only, so that rounding them costs more than it saves.
  if (!spec().causal) return kernels::CacheType::kF32;
  const AttentionSpec* attention = spec().first_attention();
  if (attention != nullptr && attention->biases_scores()) return kernels::CacheType::kF16;
  return int8_activations ? kernels::CacheType::kInt8 : kernels::CacheType::kF16;
}

void Model::check_cache_options(const CacheOptions& options) const {
  const std::string context = source_->checkpoint().path().string();
  if (options.window == 0 && options.sinks > 0) throw Error("sinks", "need a window");
  if (options.window > 0 && !spec().causal)
    throw Error(context, "is an encoder: every token sees all, no window moves");
  const AttentionSpec* attention = spec().first_attention();
  if (options.type == CacheOptions::Type::kInt8 && attention != nullptr && attention->biases_scores()) {
    throw Error(context, "biases scores by distance, which caches in INT8 do not: choose f16 or f32");
  }
  if (options.window > 0 && (spec().learned_positions || spec().sinusoids)) {
    throw Error(context, "adds positions to its embedding, which a rolling cache cannot renumber");
  }
  if (options.window > 0 && spec().encoder) {
    throw Error(context, "reads a source text whole: no window moves over it");
  }
  const std::size_t context_tokens = context_length();
  if (options.window > context_tokens || options.sinks > context_tokens - options.window) {
    throw Error("window", std::to_string(options.window) + " tokens and " + std::to_string(options.sinks) +
                              " sinks are more than the model's context of " + std::to_string(context_tokens));
  }
}

SequenceState Model::make_state(const CacheOptions& options, std::size_t capacity,
                                std::shared_ptr<const Adapter> adapter) const {
  check_cache_options(options);
  const std::vector<int>& prefix = source_->prefix_tokens();
  SequenceState state(spec(), {.type = cache_type(options.type),
                               .capacity = prefix.size() + capacity,
                               .window = options.window,
                               .sinks = options.window == 0 ? 0 : prefix.size() + options.sinks,
                               .largest_append = kPassTokens});
  if (!prefix.empty()) {
    Workspace workspace;
    const SequenceTokens sequence = {.tokens = prefix, .state = &state};
    forward({&sequence, 1}, workspace);
    state.hold_prefix();
  }
  state.set_adapter(std::move(adapter));  // the prefix belongs to the model without it
  return state;
}

std::shared_ptr<const Adapter> Model::load_adapter(const AdapterFiles& files) const {
  // Beside floats an adapter's digits count; beside codes they are far below the rounding of the weights.
  const auto type_beside = [](const Linear& linear) {
    return linear.activations ? kernels::FloatType::kBF16 : kernels::FloatType::kF32;
  };
  return model::load_adapter(*source_, files, [&](std::size_t layer, Part part) {
    if (part.role == Role::kHead) return type_beside(embedding_and_head_.head_linear());
    kernels::FloatType type = kernels::FloatType::kF32;  // of experts that are left on disk
    for_each_linear(blocks_[layer], [&](const Linear& linear, Role) {
      if (linear.part == part) type = type_beside(linear);
    });
    return type;
  });
}

SequenceState Model::make_exact_state(std::size_t capacity, std::shared_ptr<const Adapter> adapter) const {
  return make_state({.type = CacheOptions::Type::kF32}, capacity, std::move(adapter));
}

std::size_t Model::source_token_bytes() const {
  if (!spec().encoder) return 0;
  std::size_t values = spec().hidden_size;
  for (const LayerSpec& layer : spec().layers) values += source_shape(layer).size();
  return values * sizeof(float);
}

std::size_t Model::streamed_bytes() const {
  auto bytes = static_cast<double>(embedding_and_head_.streamed_bytes());
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    for_each_linear(blocks_[layer], [&](const Linear& linear, Role role) {
      bytes += token_share(spec().layers[layer], role) * static_cast<double>(linear.bytes());
    });
    const std::optional<ExpertSpec>& experts = spec().layers[layer].mlp.experts;
    if (experts_ != nullptr && experts) {
      bytes += static_cast<double>(experts->per_token) * static_cast<double>(experts_->streamed_bytes());
    }
  }
  return static_cast<std::size_t>(bytes);
}

bool Model::multiplies_integers() const {
  return std::ranges::any_of(blocks_, [](const BlockWeights& block) {
    bool found = false;
    for_each_linear(block, [&](const Linear& linear, Role) { found = found || linear.activations.has_value(); });
    return found;
  });
}

std::optional<ExpertFigures> Model::expert_figures() const {
  if (experts_ == nullptr) return {};
  ExpertFigures figures = experts_->figures();
  figures.experts = all_experts(spec());
  return figures;
}

double Model::prompt_weights(std::size_t tokens) const {
  const auto size = [](const Linear& linear) { return static_cast<double>(linear.rows() * linear.cols()); };
  double each = 0;
  double last = size(embedding_and_head_.head_linear());
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    const bool ends = layer + 1 == blocks_.size() && can_keep_wanted_only(spec());
    for_each_linear(blocks_[layer], [&](const Linear& linear, Role role) {
      const bool of_last_token = ends && role_row(role).after_mixing;
      (of_last_token ? last : each) += token_share(spec().layers[layer], role) * size(linear);
    });
    if (experts_ != nullptr && spec().layers[layer].mlp.experts) {
      (ends ? last : each) +=
          token_share(spec().layers[layer], Role::kExpertUp) * static_cast<double>(expert_elements(spec(), layer));
    }
  }
  return each + last / static_cast<double>(tokens);
}

std::unique_ptr<text::Tokenizer> read_tokenizer(const ModelSource& source) {
  std::unique_ptr<text::Tokenizer> tokenizer = text::load_tokenizer(source.checkpoint());
  if (tokenizer != nullptr) {
    text::check_embedding_rows(*tokenizer, source.spec().vocab_size, source.checkpoint().path().string());
    tokenizer->set_embedding_rows(source.spec().vocab_size);
  }
  return tokenizer;
}

std::unique_ptr<text::Tokenizer> require_tokenizer(const ModelSource& source) {
  std::unique_ptr<text::Tokenizer> tokenizer = read_tokenizer(source);
  if (tokenizer == nullptr) throw Error(source.checkpoint().path().string(), text::kNoTokenizer);
  return tokenizer;
}

}  // namespace ballast::model
