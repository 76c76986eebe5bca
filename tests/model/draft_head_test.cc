// Heads for multi-token prediction against a naive projection and a model of their block.
#include "model/draft_head.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "draft_head_model.h"
#include "error_message.h"
#include "model/model.h"
#include "model_runs.h"
#include "temporary_directory.h"

namespace ballast::model::draft_heads {
namespace {

using test::Contains;
using test::DraftHeadNames;
using test::TinyModel;

ModelOptions with_draft_head() {
  return {.activations = ActivationType::kFloat, .draft_head = true};
}

std::vector<int> some_tokens(std::size_t count) {
  std::vector<int> ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<int>(i * 7 % 31);
  return ids;
}

/// Returns x / rms(x) * gain, in F64.
std::vector<double> rms_norm(const std::vector<double>& x, const std::vector<float>& gain, double offset,
                             double epsilon) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
  std::vector<double> result;
  for (std::size_t i = 0; i < x.size(); ++i) result.push_back(x[i] * scale * (double{gain[i]} + offset));
  return result;
}

/// Computes the inputs of the head's block [tokens - 1][hidden_size] from the last block's outputs.
std::vector<float> naive_inputs(const TinyModel& model, const DraftHeadNames& names, const std::vector<int>& tokens,
                                const std::vector<float>& hidden) {
  const auto values = [&](const std::string& name) -> const std::vector<float>& {
    return model.tensors.at(name + ".weight").values;
  };
  const std::size_t size = values("model.norm").size();
  const double offset = names.block.starts_with("mtp") ? 1 : 0;
  const double epsilon = model.config["rms_norm_eps"];
  const std::vector<float>& embedding = values("model.embed_tokens");
  const std::vector<float>& projection = values(names.projection);
  std::vector<float> inputs;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    const auto row = [size](const std::vector<float>& rows, std::size_t index) {
      return std::vector<double>(rows.data() + index * size, rows.data() + (index + 1) * size);
    };
    std::vector<double> joined = rms_norm(row(embedding, static_cast<std::size_t>(tokens[i + 1])),
                                          values(names.embedding_norm), offset, epsilon);
    const std::vector<double> output = rms_norm(row(hidden, i), values("model.norm"), offset, epsilon);
    const std::vector<double> other = rms_norm(output, values(names.hidden_norm), offset, epsilon);
    joined.insert(names.reads_hidden_first ? joined.begin() : joined.end(), other.begin(), other.end());
    for (std::size_t r = 0; r < size; ++r) {
      double sum = 0;
      for (std::size_t c = 0; c < 2 * size; ++c) sum += double{projection[r * 2 * size + c]} * joined[c];
      inputs.push_back(static_cast<float>(sum));
    }
  }
  return inputs;
}

/// Runs the reference, a model of the head's block, on rows.
std::vector<float> reference_logits(const Model& reference, const std::vector<float>& inputs) {
  const std::size_t size = reference.spec().hidden_size;
  const std::vector<int> ids(inputs.size() / size);
  std::vector<const float*> rows;
  for (std::size_t i = 0; i < ids.size(); ++i) rows.push_back(inputs.data() + i * size);
  SequenceState state = reference.make_state({.type = CacheOptions::Type::kF16}, ids.size());
  const SequenceTokens tokens = {.tokens = {ids, rows}, .state = &state, .wanted = ids.size()};
  return test::run_batch(reference, {&tokens, 1});
}

/// Runs the head over all tokens in pieces; the logits after each piece.
std::vector<std::vector<float>> head_logits(const Model& model, const std::vector<int>& tokens,
                                            std::vector<float> hidden, std::size_t piece) {
  const std::size_t size = model.spec().hidden_size;
  model.draft_head()->normalize(hidden.data(), tokens.size());
  SequenceState state = model.draft_head()->make_state(tokens.size());
  DraftHeadWorkspace workspace;
  std::vector<std::vector<float>> logits;
  std::vector<float> output(size);
  for (std::size_t i = 0; i + 1 < tokens.size(); i += piece) {
    const std::size_t count = std::min(piece, tokens.size() - 1 - i);
    const DraftHeadTokens text = {
        .tokens = std::span(tokens).subspan(i + 1, count), .hidden = hidden.data() + i * size, .state = &state};
    logits.emplace_back(model.spec().vocab_size);
    model.run_draft_head({&text, 1}, output.data(), logits.back().data(), workspace);
  }
  return logits;
}

TEST_CASE("a draft head gives the logits of a naive projection and a model of its block") {
  const std::vector<int> tokens = some_tokens(12);
  for (const char* golden : test::kDraftedGoldens) {
    CAPTURE(golden);
    const test::TemporaryDirectory directory;
    const TinyModel with_head = test::model_with_draft_head(golden);
    for (const FloatLayout layout : {FloatLayout::kRows, FloatLayout::kPanels}) {
      const Model model(std::make_unique<ModelSource>(with_head.write(directory / "model")), layout, with_draft_head());
      REQUIRE(model.draft_head() != nullptr);
      CHECK(model.spec().layers.size() == 2);
      const Model reference(test::model_of_draft_head(golden, with_head).write(directory / "block"));
      const std::vector<float> hidden = model.residual_stream(tokens, 2);
      const std::vector<float> inputs = naive_inputs(with_head, test::draft_head_names(golden), tokens, hidden);
      const std::vector<float> expected = reference_logits(reference, inputs);
      const std::size_t vocab_size = model.spec().vocab_size;
      for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, std::size_t{11}}) {
        CAPTURE(piece);
        const std::vector<std::vector<float>> logits = head_logits(model, tokens, hidden, piece);
        for (std::size_t i = 0; i < logits.size(); ++i) {
          const std::size_t row = std::min((i + 1) * piece, tokens.size() - 1) - 1;
          const auto first = expected.begin() + static_cast<std::ptrdiff_t>(row * vocab_size);
          const std::vector<float> wanted(first, first + static_cast<std::ptrdiff_t>(vocab_size));
          CHECK(test::relative_error(logits[i], wanted) < 2e-3);  // keys and values are rounded to F16
        }
      }
    }
  }
}

TEST_CASE("the logits of a model do not depend on its draft head") {
  for (const char* golden : test::kDraftedGoldens) {
    CAPTURE(golden);
    const test::TemporaryDirectory directory;
    const Model model(std::make_unique<ModelSource>(test::model_with_draft_head(golden).write(directory / "model")),
                      FloatLayout::kRows, with_draft_head());
    const test::Golden expected = test::read_golden(golden);
    CHECK(test::relative_error(test::run_at_once(model, expected.ids[0]), expected.logits[0]) <= 1e-4);
  }
}

TEST_CASE("a model whose checkpoint announces a draft head that it does not have is loaded without one") {
  const Model model(std::make_unique<ModelSource>(test::golden_model("deepseek_v3")), FloatLayout::kRows,
                    with_draft_head());
  CHECK(model.draft_head() == nullptr);
}

TEST_CASE("a draft head without one of its tensors, or with one of another shape, is refused by that tensor's name") {
  for (const char* golden : {"qwen3_next", "glm4_moe"}) {
    CAPTURE(golden);
    const test::TemporaryDirectory directory;
    const DraftHeadNames names = test::draft_head_names(golden);
    const auto refusal = [&](const TinyModel& damaged, bool with_head = true) {
      const std::filesystem::path path = damaged.write(directory / "model");
      return test::error_message([&] {
        const Model model(std::make_unique<ModelSource>(path), FloatLayout::kRows, {.draft_head = with_head});
      });
    };
    for (const std::string& name : {names.projection, names.hidden_norm, names.embedding_norm, names.norm,
                                    names.block + "self_attn.k_proj", names.block + "post_attention_layernorm"}) {
      TinyModel damaged = test::model_with_draft_head(golden);
      damaged.tensors.erase(name + ".weight");
      CHECK(refusal(damaged) == Contains(name + ".weight"));
      CHECK(refusal(damaged, false) == "no error");
    }
    for (const std::string& name : {names.projection, names.norm, names.block + "self_attn.v_proj"}) {
      TinyModel damaged = test::model_with_draft_head(golden);
      Tensor& tensor = damaged.at(name + ".weight");
      tensor.shape.front() -= 1;
      tensor.values.resize(static_cast<std::size_t>(element_count(tensor.shape)));
      CHECK(refusal(damaged) == Contains(name + ".weight: has shape"));
      CHECK(refusal(damaged, false) == "no error");
    }
  }
}

}  // namespace
}  // namespace ballast::model::draft_heads
