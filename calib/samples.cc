#include "calib/samples.h"

#include <algorithm>
#include <exception>
#include <random>
#include <string>

#include "ballast/error.h"
#include "model/model.h"
#include "model/sampling.h"
#include "model/text_file.h"

namespace ballast::calib {

namespace {

// Sequences that are sampled side by side: enough rows to keep the matrices busy, few enough for their caches.
constexpr std::size_t kSequencesAtOnce = 32;

// The first `count` entries of a random permutation of 0 .. size - 1, ascending. Written out because the standard
// library's shuffle and distributions differ between implementations.
std::vector<std::size_t> choose(std::size_t size, std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> indices(size);
  for (std::size_t i = 0; i < size; ++i) indices[i] = i;
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < count; ++i) std::swap(indices[i], indices[i + random() % (size - i)]);
  indices.resize(count);
  std::ranges::sort(indices);
  return indices;
}

// What the model's texts begin with: BOS, or the token that ends the text before.
int first_token(const model::ModelSource& source) {
  const auto tokenizer = model::load_tokenizer(source.checkpoint());
  if (tokenizer != nullptr && tokenizer->bos()) return *tokenizer->bos();
  if (tokenizer != nullptr && tokenizer->eos()) return *tokenizer->eos();
  const std::vector<int>& stops = source.spec().stop_tokens;
  const bool known = !stops.empty() && static_cast<std::size_t>(stops.front()) < source.spec().vocab_size;
  return known ? stops.front() : 0;
}

// Extends every sequence by one token drawn from its row of logits.
void extend(Samples& sequences, std::vector<model::Sampler>& samplers, const std::vector<float>& logits,
            std::size_t vocab_size) {
  std::exception_ptr failure;
#pragma omp parallel for
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    try {
      sequences[i].push_back(samplers[i].sample({logits.data() + i * vocab_size, vocab_size}));
    } catch (...) {
#pragma omp critical(ballast_sampling_failure)
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

Samples sample_group(model::Model& model, int first, std::size_t count, std::size_t length, std::uint64_t seed) {
  const std::size_t vocab_size = model.spec().vocab_size;
  Samples sequences(count, std::vector<int>{first});
  std::vector<model::Sampler> samplers;
  std::vector<model::KeyValueCache> caches;
  for (std::size_t i = 0; i < count; ++i) {
    GenerateOptions options;
    options.temperature = 1.0;
    options.seed = seed + i;
    samplers.emplace_back(options);
    caches.push_back(model.make_cache({}, length, 1));
  }
  std::vector<float> logits(count * vocab_size);
  std::vector<model::SequenceTokens> batch(count);
  while (sequences.front().size() < length) {
    for (std::size_t i = 0; i < count; ++i) batch[i] = {std::span(&sequences[i].back(), 1), &caches[i]};
    model.logits(model.forward(batch).data(), count, logits.data());
    extend(sequences, samplers, logits, vocab_size);
  }
  return sequences;
}

// An encoder writes no text from left to right: random tokens are replaced by what the model puts in their places,
// which after a few rounds are texts that it finds likely (Gibbs sampling, arXiv:1902.04094, all places at once).
Samples resample_group(model::Model& model, std::size_t count, std::size_t length, std::uint64_t seed) {
  constexpr std::size_t kRounds = 4;
  const std::size_t vocab_size = model.spec().vocab_size;
  Samples sequences(count);
  std::vector<float> logits(length * vocab_size);
  for (std::size_t i = 0; i < count; ++i) {
    std::mt19937_64 random(seed + i);
    std::vector<int>& ids = sequences[i];
    for (std::size_t t = 0; t < length; ++t) ids.push_back(static_cast<int>(random() % vocab_size));
    GenerateOptions options;
    options.temperature = 1.0;
    options.seed = seed + i;
    model::Sampler sampler(options);
    for (std::size_t round = 0; round < kRounds; ++round) {
      model::KeyValueCache cache = model.make_exact_cache(length);
      const model::SequenceTokens sequence[] = {{ids, &cache}};
      model.logits(model.forward(sequence).data(), length, logits.data());
      for (std::size_t t = 0; t < length; ++t) ids[t] = sampler.sample({logits.data() + t * vocab_size, vocab_size});
    }
  }
  return sequences;
}

// What belongs around every text takes the place of the sample's own ends, so that its length stays.
void add_special_tokens(const model::Tokenizer& tokenizer, std::vector<int>& sample) {
  const std::vector<int>& prefix = tokenizer.prefix();
  const std::vector<int>& suffix = tokenizer.suffix();
  if (prefix.size() + suffix.size() >= sample.size()) return;
  std::ranges::copy(prefix, sample.begin());
  std::ranges::copy(suffix, sample.end() - static_cast<std::ptrdiff_t>(suffix.size()));
}

}  // namespace

Samples samples_from_text(const model::Tokenizer& tokenizer, const CalibrateOptions& options) {
  std::vector<int> ids;
  for (const auto& path : options.text_files) {
    const std::vector<int> more = tokenizer.encode(model::read_text_file(path));
    ids.insert(ids.end(), more.begin(), more.end());
  }
  const std::size_t chunks = ids.size() / options.length;
  if (chunks == 0) {
    throw Error(
        options.text_files.front().string(),
        "holds " + std::to_string(ids.size()) + " tokens, fewer than one sample of " + std::to_string(options.length));
  }
  Samples samples;
  for (const std::size_t chunk : choose(chunks, std::min(chunks, options.samples), options.seed)) {
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(chunk * options.length);
    samples.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(options.length));
    add_special_tokens(tokenizer, samples.back());
  }
  return samples;
}

Samples samples_from_model(const std::filesystem::path& path, const CalibrateOptions& options,
                           const Progress& progress) {
  model::Model model(path);
  const int first = first_token(model.source());
  Samples samples;
  while (samples.size() < options.samples) {
    if (progress) progress("writing text", samples.size(), options.samples);
    const std::size_t count = std::min(kSequencesAtOnce, options.samples - samples.size());
    // Seeds of different runs stay apart as long as a run has fewer than 2^20 samples.
    const std::uint64_t seed = (options.seed << 20) + samples.size();
    Samples group = model.spec().causal ? sample_group(model, first, count, options.length, seed)
                                        : resample_group(model, count, options.length, seed);
    for (auto& sample : group) samples.push_back(std::move(sample));
  }
  if (progress) progress("writing text", samples.size(), options.samples);
  return samples;
}

}  // namespace ballast::calib
