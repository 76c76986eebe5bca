#include "model/model.h"

#include "ballast/error.h"
#include "kernels/elementwise.h"

namespace ballast::model {

namespace {

void for_each_linear(const BlockWeights& block, const auto& visit) {
  for (const Linear* linear :
       {&block.query, &block.key, &block.value, &block.attention_output, &block.gate, &block.up, &block.down}) {
    visit(*linear);
  }
}

}  // namespace

OuterWeights::OuterWeights(const ModelSource& source)
    : spec_(source.spec()), embedding_(source.linear(Role::kEmbedding)), final_norm_(source.vector(Role::kFinalNorm)) {
  if (!spec_.tied_embeddings) head_ = source.linear(Role::kHead);
}

void OuterWeights::embed(std::span<const int> ids, float* hidden) const {
  for (const int id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= spec_.vocab_size) {
      throw Error("token " + std::to_string(id),
                  "not in the model's vocabulary of " + std::to_string(spec_.vocab_size));
    }
  }
#pragma omp parallel for
  for (std::size_t i = 0; i < ids.size(); ++i) {
    decode_row(embedding_, static_cast<std::size_t>(ids[i]), hidden + i * spec_.hidden_size);
  }
}

void OuterWeights::normalize(const float* hidden, std::size_t m, float* normalized) const {
  kernels::rms_norm(hidden, m, spec_.hidden_size, final_norm_.data(), static_cast<float>(spec_.norm_epsilon),
                    normalized);
}

void OuterWeights::head(const float* normalized, std::size_t m, float* logits,
                        kernels::Int8Activations& scratch) const {
  const LinearOutput output[] = {{&head_linear(), logits, spec_.vocab_size}};
  apply(output, normalized, m, scratch);
}

std::size_t OuterWeights::weights() const {
  return embedding_.rows() * embedding_.cols() + final_norm_.size() + (head_ ? head_->rows() * head_->cols() : 0);
}

Model::Model(const std::filesystem::path& path)
    : source_(std::make_unique<ModelSource>(path)), outer_(*source_), rope_(source_->spec()) {
  source_->checkpoint().verify_checksums();
  blocks_.reserve(spec().layers);
  for (std::size_t layer = 0; layer < spec().layers; ++layer) blocks_.push_back(source_->block(layer));
}

std::span<const float> Model::forward(std::span<const SequenceTokens> batch) {
  std::vector<int> ids;
  std::vector<BatchSequence> sequences;
  for (const SequenceTokens& sequence : batch) {
    ids.insert(ids.end(), sequence.ids.begin(), sequence.ids.end());
    sequences.push_back({.tokens = sequence.ids.size(), .cache = sequence.cache});
  }
  hidden_.resize(ids.size() * spec().hidden_size);
  outer_.embed(ids, hidden_.data());
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    forward_block(spec(), blocks_[layer], rope_, sequences, layer, hidden_.data(), activations_);
  }
  for (const BatchSequence& sequence : sequences) sequence.cache->advance(sequence.tokens);
  return hidden_;
}

void Model::logits(const float* hidden, std::size_t m, float* logits) {
  normalized_.resize(m * spec().hidden_size);
  outer_.normalize(hidden, m, normalized_.data());
  outer_.head(normalized_.data(), m, logits, activations_.quantized);
}

KeyValueCache Model::make_cache(std::size_t capacity, kernels::FloatType type) const {
  return {spec(), spec().layers, capacity, type};
}

std::size_t Model::streamed_bytes() const {
  std::size_t bytes = outer_.head_linear().bytes();
  for (const BlockWeights& block : blocks_) {
    for_each_linear(block, [&](const Linear& linear) { bytes += linear.bytes(); });
  }
  return bytes;
}

std::size_t Model::block_weights() const {
  std::size_t count = 0;
  for (const BlockWeights& block : blocks_) {
    for_each_linear(block, [&](const Linear& linear) { count += linear.rows() * linear.cols(); });
  }
  return count;
}

std::size_t Model::head_weights() const {
  return outer_.head_linear().rows() * outer_.head_linear().cols();
}

std::size_t Model::all_weights() const {
  std::size_t count = block_weights() + outer_.weights();
  for (const BlockWeights& block : blocks_) {
    count += block.attention_norm.size() + block.mlp_norm.size();
    for_each_linear(block, [&](const Linear& linear) { count += linear.bias.size(); });
  }
  return count;
}

std::unique_ptr<Tokenizer> require_tokenizer(const ModelSource& source) {
  const std::string place = source.checkpoint().path().string();
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(source.checkpoint());
  if (tokenizer == nullptr) throw Error(place, "has no tokenizer.json, which this command needs to read text");
  if (tokenizer->vocab_size() > source.spec().vocab_size) {
    throw Error(place, "the tokenizer has " + std::to_string(tokenizer->vocab_size()) + " tokens, the embedding only " +
                           std::to_string(source.spec().vocab_size) + " rows: they do not belong together");
  }
  return tokenizer;
}

}  // namespace ballast::model
