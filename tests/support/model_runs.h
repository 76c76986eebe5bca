// Runs whole models over token ids, and the expected results.
#ifndef BALLAST_TESTS_SUPPORT_MODEL_RUNS_H_
#define BALLAST_TESTS_SUPPORT_MODEL_RUNS_H_

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "ballast/cache.h"
#include "files/safetensors/safetensors_file.h"
#include "model/model.h"
#include "tiny_model.h"

namespace ballast::test {

/// Golden models that continue texts: encoders see all tokens at once.
inline constexpr std::array kGoldenDecoders = {"llama",
                                               "llama3",
                                               "mistral",
                                               "qwen2",
                                               "qwen3",
                                               "gpt2",
                                               "gpt_neox",
                                               "qwen3_next",
                                               "deepseek_v2",
                                               "deepseek_v3",
                                               "phi",
                                               "granite",
                                               "smollm3",
                                               "starcoder2",
                                               "cohere",
                                               "cohere2",
                                               "glm",
                                               "glm4",
                                               "ernie4_5",
                                               "gemma",
                                               "gemma3_text",
                                               "phi3",
                                               "stablelm",
                                               "olmo2",
                                               "qwen3_moe",
                                               "mixtral",
                                               "qwen3_5_text",
                                               "olmo3",
                                               "olmoe",
                                               "granitemoe",
                                               "ministral",
                                               "qwen2_moe",
                                               "seed_oss",
                                               "exaone4",
                                               "glm4_moe",
                                               "lfm2",
                                               "nemotron",
                                               "arcee",
                                               "helium",
                                               "gemma2",
                                               "gpt_oss",
                                               "gemma4_text",
                                               "gemma4_mixture",
                                               "granitemoehybrid",
                                               "falcon_h1",
                                               "nemotron_h",
                                               "glm4_moe_lite",
                                               "hunyuan_v1_dense",
                                               "ministral3",
                                               "olmo",
                                               "command_r_plus",
                                               "afmoe",
                                               "llama4_text",
                                               "lfm3",
                                               "mimo"};
inline constexpr std::array kGoldenEncoders = {"bert",  "modernbert", "embedding_gemma", "roberta",
                                               "mpnet", "distilbert", "nomic_bert"};

/// Golden GGUF files. For each there is a directory with a model of its family.
inline constexpr std::array kGoldenGgufs = {"llama", "qwen2", "qwen3", "gpt2", "qwen3_moe", "gemma3_text"};

inline std::vector<std::string> golden_names() {
  std::vector<std::string> names(kGoldenDecoders.begin(), kGoldenDecoders.end());
  names.insert(names.end(), kGoldenEncoders.begin(), kGoldenEncoders.end());
  return names;
}

/// Golden classifiers, which are beside the golden models.
inline std::vector<std::string> classifier_names() {
  return {"bert_texts", "roberta_tokens", "modernbert_texts", "deberta_tokens", "eurobert_texts", "qwen2_texts"};
}

inline std::filesystem::path golden_classifier(const std::string& name) {
  return std::filesystem::path(BALLAST_TEST_DATA) / "classifiers" / name;
}

/// Golden models with an encoder and a decoder, which are beside the golden models.
inline std::vector<std::string> translator_names() {
  return {"t5", "mt5", "bart", "mbart", "pegasus", "marian", "m2m_100"};
}

inline std::filesystem::path golden_translator(const std::string& name) {
  return std::filesystem::path(BALLAST_TEST_DATA) / "translators" / name;
}

/// A golden model's expected.safetensors.
struct Golden {
  std::size_t tokens = 0;
  std::vector<std::vector<int>> ids;
  std::vector<std::vector<float>> logits;  ///< of each sequence, [tokens][vocab]
};

inline Golden read_golden(const std::string& name) {
  const files::SafetensorsFile file(golden_model(name) / "expected.safetensors");
  const TensorView& ids = file.tensor("input_ids");
  const TensorView& logits = file.tensor("logits");
  Golden golden;
  golden.tokens = static_cast<std::size_t>(ids.shape[1]);
  for (std::size_t b = 0; b < static_cast<std::size_t>(ids.shape[0]); ++b) {
    std::vector<std::int64_t> wide(golden.tokens);
    std::memcpy(wide.data(), ids.bytes.data() + b * wide.size() * sizeof wide[0], wide.size() * sizeof wide[0]);
    golden.ids.emplace_back(wide.begin(), wide.end());
    std::vector<float> rows(golden.tokens * static_cast<std::size_t>(logits.shape[2]));
    std::memcpy(rows.data(), logits.bytes.data() + b * rows.size() * sizeof rows[0], rows.size() * sizeof rows[0]);
    golden.logits.push_back(std::move(rows));
  }
  return golden;
}

/// Runs a batch. Returns the wanted logits.
inline std::vector<float> run_batch(const model::Model& model, std::span<const model::SequenceTokens> batch) {
  model::Workspace workspace;
  const std::span<const float> hidden = model.forward(batch, workspace);
  const std::size_t rows = hidden.size() / model.spec().hidden_size;
  std::vector<float> logits(rows * model.spec().vocab_size);
  if (rows > 0)
    model.logits(std::vector(hidden.begin(), hidden.end()).data(), model::StepRows::outside(rows), logits.data(),
                 workspace);
  return logits;
}

/// Continues a sequence. Returns the logits of all tokens.
inline std::vector<float> run_tokens(const model::Model& model, std::span<const int> ids, model::SequenceState& state) {
  const model::SequenceTokens sequence = {ids, &state, ids.size()};
  return run_batch(model, {&sequence, 1});
}

/// Runs `ids` in pieces of `piece` tokens.
inline std::vector<float> run_in_pieces(const model::Model& model, const std::vector<int>& ids, std::size_t piece,
                                        CacheOptions::Type type = CacheOptions::Type::kF32) {
  model::SequenceState state = model.make_state({.type = type}, ids.size());
  std::vector<float> logits;
  for (std::size_t begin = 0; begin < ids.size(); begin += piece) {
    const std::vector<float> part =
        run_tokens(model, std::span(ids).subspan(begin, std::min(piece, ids.size() - begin)), state);
    logits.insert(logits.end(), part.begin(), part.end());
  }
  return logits;
}

inline std::vector<float> run_at_once(const model::Model& model, const std::vector<int>& ids) {
  return run_in_pieces(model, ids, ids.size());
}

/// Returns the largest difference, divided by the spread of the expected values.
template <typename Expected>
double relative_error(const std::vector<float>& got, const std::vector<Expected>& expected) {
  REQUIRE(got.size() == expected.size());
  double largest = 0;
  double squares = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    // In this order a value that is not a number stays in the result.
    largest = std::max(std::abs(double{got[i]} - double{expected[i]}), largest);
    squares += double{expected[i]} * double{expected[i]};
  }
  return largest / std::sqrt(squares / static_cast<double>(got.size()));
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_MODEL_RUNS_H_
