#include "calib/samples.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <random>
#include <string>

#include "ballast/error.h"
#include "calib/prefix.h"
#include "engine/sampling.h"
#include "files/text_file.h"
#include "jobs/sharded_sum.h"
#include "model/model.h"

namespace ballast::calib {

namespace {

/// Reports tokens over all groups.
struct TokenProgress {
  const Progress& report;
  std::size_t done;
  std::size_t total;

  void add(std::size_t tokens) {
    done += tokens;
    if (report) report("writing text", std::min(done, total), total);
  }
};

// Returns the first `count` entries of a random permutation of 0 .. size - 1, ascending. Does not use the standard
// library's shuffle and distributions, which differ between implementations.
std::vector<std::size_t> choose(std::size_t size, std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> indices(size);
  for (std::size_t i = 0; i < size; ++i) indices[i] = i;
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < count; ++i) std::swap(indices[i], indices[i + random() % (size - i)]);
  indices.resize(count);
  std::ranges::sort(indices);
  return indices;
}

// Extends every sequence by one token sampled from its row of logits.
void extend(Samples& sequences, std::vector<engine::Sampler>& samplers, const std::vector<float>& logits,
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

GenerateOptions at_random(std::uint64_t seed) {
  GenerateOptions options;
  options.temperature = 1.0;
  options.seed = seed;
  return options;
}

/// Returns random tokens for an encoder to read: a decoder's texts need a source text, and there is none.
std::vector<int> random_source(const ModelSpec& spec, std::uint64_t seed) {
  constexpr std::size_t kTokens = 32;
  std::mt19937_64 random(seed);
  std::vector<int> ids;
  while (ids.size() < std::min(kTokens, spec.context_length)) {
    ids.push_back(static_cast<int>(random() % spec.vocab_size));
  }
  return ids;
}

Samples sample_group(const model::Model& model, int first, std::size_t count, std::size_t length, std::uint64_t seed,
                     TokenProgress& progress) {
  const std::size_t vocab_size = model.spec().vocab_size;
  Samples sequences(count, std::vector<int>{first});
  std::vector<engine::Sampler> samplers;
  std::vector<model::SequenceState> states;
  for (std::size_t i = 0; i < count; ++i) {
    samplers.emplace_back(at_random(seed + i));
    states.push_back(model.make_state({}, length));
  }
  std::vector<float> logits(count * vocab_size);
  std::vector<model::SequenceTokens> batch(count);
  model::Workspace workspace;
  for (std::size_t i = 0; i < count && model.spec().encoder; ++i) {
    const std::vector<int> ids = random_source(model.spec(), seed + i);
    const model::TokenSpan source = ids;
    states[i].set_source(model.encode({&source, 1}, states[i].cache().type(), workspace).front());
  }
  progress.add(count);
  while (sequences.front().size() < length) {
    for (std::size_t i = 0; i < count; ++i) batch[i] = {std::span(&sequences[i].back(), 1), &states[i], 1};
    model.logits(model.forward(batch, workspace).data(), model::StepRows::outside(count), logits.data(), workspace);
    extend(sequences, samplers, logits, vocab_size);
    progress.add(count);
  }
  return sequences;
}

// Generates texts with an encoder, which cannot write from left to right: random tokens are replaced by the model's
// predictions for their positions. After a few rounds these are texts that it finds likely (Gibbs sampling,
// arXiv:1902.04094, all positions at once).
Samples resample_group(const model::Model& model, std::size_t count, std::size_t length, std::uint64_t seed,
                       TokenProgress& progress) {
  constexpr std::size_t kRounds = 4;
  const std::size_t vocab_size = model.spec().vocab_size;
  Samples sequences(count);
  std::vector<float> logits(length * vocab_size);
  model::Workspace workspace;
  for (std::size_t i = 0; i < count; ++i) {
    std::mt19937_64 random(seed + i);
    std::vector<int>& ids = sequences[i];
    for (std::size_t t = 0; t < length; ++t) ids.push_back(static_cast<int>(random() % vocab_size));
    engine::Sampler sampler(at_random(seed + i));
    for (std::size_t round = 0; round < kRounds; ++round) {
      model::SequenceState state = model.make_exact_state(length);
      const model::SequenceTokens sequence = {ids, &state, length};
      model.logits(model.forward({&sequence, 1}, workspace).data(), model::StepRows::outside(length), logits.data(),
                   workspace);
      for (std::size_t t = 0; t < length; ++t) ids[t] = sampler.sample({logits.data() + t * vocab_size, vocab_size});
      progress.add(length / kRounds);
    }
  }
  return sequences;
}

std::string bytes_of(const Samples& samples) {
  std::string bytes;
  for (const std::vector<int>& ids : samples) {
    bytes.append(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int));
  }
  return bytes;
}

void append_samples(const std::string& bytes, std::size_t length, Samples& samples) {
  for (std::size_t begin = 0; begin < bytes.size(); begin += length * sizeof(int)) {
    std::memcpy(samples.emplace_back(length).data(), bytes.data() + begin, length * sizeof(int));
  }
}

/// Generates the texts of one rank, group by group.
std::string write_texts(const std::shared_ptr<const model::ModelSource>& source, const CalibrateOptions& options,
                        jobs::IndexRange mine, jobs::JobState* state, const Progress& progress) {
  std::optional<model::Model> model;  // loaded if a text is missing
  std::string texts;
  TokenProgress tokens{progress, 0, mine.size() * options.length};
  for (std::size_t begin = mine.begin; begin < mine.end; begin += kSequencesAtOnce) {
    const std::size_t count = std::min(kSequencesAtOnce, mine.end - begin);
    const std::string name = "texts." + std::to_string(begin);
    std::optional<std::string> group = state == nullptr ? std::nullopt : state->get(name);
    if (group && group->size() == count * options.length * sizeof(int)) {
      tokens.add(count * options.length);
    } else {
      if (!model) model.emplace(source);
      // Seeds of different runs differ if a run has fewer than 2^20 samples.
      const std::uint64_t seed = (options.seed << 20) + begin;
      group = bytes_of(model->spec().causal
                           ? sample_group(*model, first_token(model->source()), count, options.length, seed, tokens)
                           : resample_group(*model, count, options.length, seed, tokens));
      if (state != nullptr) state->put(name, *group);
    }
    texts += *group;
  }
  if (model) {
    model.reset();
    // Calibration reads the file block by block: it does not need all pages that the model has read.
    for (std::size_t layer = 0; layer < source->spec().layers.size(); ++layer) source->release_block(layer);
  }
  return texts;
}

// The special tokens around a text replace the sample's own ends, so that its length does not change.
void add_special_tokens(const text::Tokenizer& tokenizer, std::vector<int>& sample) {
  const auto [prefix, suffix] = tokenizer.source_frame("");
  if (prefix.size() + suffix.size() >= sample.size()) return;
  std::ranges::copy(prefix, sample.begin());
  std::ranges::copy(suffix, sample.end() - static_cast<std::ptrdiff_t>(suffix.size()));
}

}  // namespace

Samples samples_from_text(const text::Tokenizer& tokenizer, const CalibrateOptions& options) {
  std::vector<int> ids;
  for (const auto& path : options.text_files) {
    const std::vector<int> more = tokenizer.encode(files::read_text_file(path));
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

Samples samples_from_model(const std::shared_ptr<const model::ModelSource>& source, const CalibrateOptions& options,
                           Ranks& ranks, jobs::JobState* state, const Progress& progress) {
  const jobs::IndexRange mine = jobs::samples_of_rank(ranks.rank(), ranks.size(), options.samples);
  Samples samples;
  for (const std::string& texts : ranks.gather(write_texts(source, options, mine, state, progress))) {
    append_samples(texts, options.length, samples);
  }
  return samples;
}

}  // namespace ballast::calib
